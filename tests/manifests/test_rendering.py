"""Rendering: the committed copy, order and headers, other processes, what it costs to import."""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hyperpod_dpd.evidence.proof_job import PROOF
from hyperpod_dpd.observability.platform import PLATFORM
from hyperpod_dpd.rules.check import DeploymentRefusedError
from hyperpod_dpd.serving.profile import Profile, profiles_of
from hyperpod_dpd.serving.render import KUSTOMIZATION, render, render_platform, write
from hyperpod_dpd.spec.load import load
from manifests import main as manifests_main
from tests.support.deployments import ROOT, changed, ready
from tests.support.manifests import CASES, OPERATOR_CASES, READY_SHORT, rendering

RENDERED = ROOT / "manifests" / "rendered"
FILES = sorted((ROOT / "deployments").glob("*.yaml"))


COMMITTED = [(file, profile) for file in FILES for profile in profiles_of(load(file).deployment)]


@pytest.mark.parametrize(("file", "profile"), COMMITTED, ids=lambda value: Path(value).stem)
def test_the_committed_copy_is_what_is_rendered_now(file: Path, profile: Profile) -> None:
    deployment = load(file).deployment
    folder = RENDERED / deployment.name / profile.value
    committed = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    assert committed == render(deployment, profile).texts(), "run `make render` and commit the result"


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_the_committed_platform_is_what_is_rendered_now(file: Path) -> None:
    deployment = load(file).deployment
    folder = RENDERED / deployment.name / PLATFORM
    committed = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    assert committed == render_platform(deployment).texts(), "run `make render` and commit the result"


def test_nothing_is_committed_that_no_deployment_asks_for() -> None:
    assert {path.name for path in RENDERED.iterdir()} == {load(file).deployment.name for file in FILES}
    assert {(path.parent.name, path.name) for path in RENDERED.glob("*/*")} == {
        *((load(file).deployment.name, profile.value) for file, profile in COMMITTED),
        *((load(file).deployment.name, PLATFORM) for file in FILES),
        *((load(file).deployment.name, PROOF) for file in FILES),
    }


def test_three_deployments_are_rendered_for_both_backends_and_their_baselines() -> None:
    both = [
        file.stem
        for file in FILES
        if {Profile.OPERATOR, Profile.SELF_MANAGED, Profile.BASELINE}
        <= {profile for each, profile in COMMITTED if each == file}
    ]
    assert both == ["llama-3.3-70b-p5-p5en-operator", "llama-3.3-70b-p5", "llama-3.3-70b-p5en"]


def test_what_the_operator_cannot_say_is_refused_and_never_rendered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    two_decoders = ROOT / "deployments" / "llama-3.3-70b-p5-p5en.yaml"
    with pytest.raises(DeploymentRefusedError, match=r"DPD-SRV-007 .*`backend: self-managed`"):
        render(load(two_decoders).deployment, Profile.OPERATOR)
    monkeypatch.setattr(manifests_main, "RENDERED", tmp_path)
    stale = tmp_path / "llama-3-3-70b-p5-p5en" / "operator"
    stale.mkdir(parents=True)
    assert manifests_main.main([str(two_decoders)]) == 0
    assert "operator: not rendered: DPD-SRV-007" in capsys.readouterr().out
    assert not stale.exists()


def test_what_a_switch_has_to_acknowledge_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(manifests_main, "RENDERED", tmp_path)
    assert manifests_main.main([str(ROOT / "deployments" / "llama-3.3-70b-p5.yaml")]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert last == (
        "llama-3-3-70b-p5/operator: to deploy it, set `backend: operator` and acknowledge DPD-SRV-004, DPD-SRV-008 "
        "(`dpd explain DPD-SRV-004`)"
    )


def test_a_backend_is_changed_by_one_word() -> None:
    operated = changed(ready(), serving__backend="operator", acknowledge=())
    for profile in Profile:
        assert render(operated, profile).texts() == render(ready(), profile).texts()


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    first = write(rendering("p5"), tmp_path)
    assert {path.name for path in first} == set(rendering("p5").texts())
    assert write(render(ready(), Profile.SELF_MANAGED), tmp_path) == ()


def test_files_of_an_earlier_rendering_are_removed(tmp_path: Path) -> None:
    write(rendering("secrets"), tmp_path)
    (tmp_path / "notes.txt").write_text("somebody's")
    changed = write(rendering("p5"), tmp_path)
    assert tmp_path / "secrets.yaml" in changed
    assert {path.name for path in tmp_path.iterdir()} == {*rendering("p5").texts(), "notes.txt"}


@pytest.mark.parametrize(("name", "profile"), [*CASES, *OPERATOR_CASES])
def test_the_text_holds_exactly_the_objects(name: str, profile: Profile) -> None:
    rendered = rendering(name, profile)
    texts = rendered.texts()
    for file in rendered.files:
        assert list(yaml.load_all(texts[f"{file.name}.yaml"], Loader=yaml.CSafeLoader)) == list(file.objects)
    (kustomization,) = yaml.safe_load_all(texts[KUSTOMIZATION])
    assert kustomization["resources"] == [name for name in texts if name != KUSTOMIZATION]
    assert kustomization["resources"] == [f"{file.name}.yaml" for file in rendered.files]


@pytest.mark.parametrize("name", READY_SHORT)
def test_every_file_says_where_it_comes_from_and_what_has_to_be_bound(name: str) -> None:
    rendered = rendering(name)
    for text in rendered.texts().values():
        header = list(itertools.takewhile(lambda line: line.startswith("#"), text.splitlines()))
        assert f"deployment `{rendered.deployment.name}`, profile `self-managed`" in header[0]
        body = "\n".join(text.splitlines()[len(header) :])
        announced = [line for line in header if "dpd bind" in line]
        assert bool(announced) is ("${dpd:" in body)


def test_namespaces_come_before_what_is_in_them() -> None:
    kinds = [entry["kind"] for entry in rendering("p5").objects]
    assert kinds[:4] == [
        "Namespace",
        "Namespace",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ], "the policy is there before the pods that it holds"
    assert kinds.index("NetworkPolicy") < kinds.index("Deployment")


def test_rendering_needs_no_aws_cdk() -> None:
    code = (
        "import sys, manifests.main\n"
        "from hyperpod_dpd.serving.profile import Profile\n"
        "from hyperpod_dpd.serving.render import render\n"
        "from hyperpod_dpd.spec.load import load\n"
        "import hashlib\n"
        f"texts = render(load({str(FILES[0])!r}).deployment, Profile.SELF_MANAGED).texts()\n"
        "assert not any(name.split('.')[0] == 'aws_cdk' for name in sys.modules), 'aws_cdk was imported'\n"
        "print(hashlib.sha256(''.join(texts.values()).encode()).hexdigest())\n"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            env={"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1, "the order depends on the process"


def test_a_refused_deployment_renders_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(manifests_main, "RENDERED", tmp_path / "rendered")
    text = (ROOT / "deployments" / "llama-3.3-70b-p5.yaml").read_text(encoding="utf-8")
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(text.replace("role: decode", "role: decode\n      zone_id: use1-az4"), encoding="utf-8")
    assert manifests_main.main([str(wrong)]) == 1
    assert f"{wrong}:22: error: DPD-NET-003" in capsys.readouterr().err
    wrong.write_text("version: [")
    assert manifests_main.main([str(FILES[0]), str(wrong)]) == 2
    assert not (tmp_path / "rendered").exists()


def test_two_files_of_one_name_do_not_overwrite_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(manifests_main, "RENDERED", tmp_path / "rendered")
    copy = tmp_path / "copy.yaml"
    copy.write_bytes(FILES[0].read_bytes())
    assert manifests_main.main([str(FILES[0]), str(copy)]) == 1
    assert f"is the name in {FILES[0]}, too" in capsys.readouterr().err
    assert not (tmp_path / "rendered").exists()


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(manifests_main, "RENDERED", tmp_path / "file")
    assert manifests_main.main([str(FILES[0])]) == 2
    says = capsys.readouterr().err
    assert says.startswith(f"{tmp_path / 'file'}")
    assert says.endswith(". help: name a place that may be written\n")
