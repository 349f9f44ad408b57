"""Dockerfiles, what they install and what they copy."""

import fnmatch
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from hyperpod_dpd.catalog.engines import DEFAULT_ENGINE, engine
from hyperpod_dpd.serving.names import NOTIFICATION_PORT, ROUTER_PORT
from hyperpod_dpd.serving.router import USER_ID
from tests.support.deployments import ROOT

IMAGES = ROOT / "images"
NAMES = ("worker", "router", "proof", "benchmark")
TOOLS = Path(sys.executable).parent


def dockerfile(name: str) -> str:
    return (IMAGES / name / "Dockerfile").read_text(encoding="utf-8")


def requirements(name: str) -> dict[str, str]:
    text = (IMAGES / name / "requirements.txt").read_text(encoding="utf-8")
    return dict(re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;]+)", text, re.MULTILINE))


@pytest.mark.parametrize("name", NAMES)
def test_the_linter_has_nothing_to_say(name: str) -> None:
    command: list[str | Path] = [
        TOOLS / "hadolint",
        "--config",
        IMAGES / ".hadolint.yaml",
        IMAGES / name / "Dockerfile",
    ]
    linted = subprocess.run(command, capture_output=True, text=True, check=False)
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_the_linter_would_say_something(tmp_path: Path) -> None:
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM python:latest\nRUN cd /tmp && curl http://x | sh\n", encoding="utf-8")
    command: list[str | Path] = [TOOLS / "hadolint", "--config", IMAGES / ".hadolint.yaml", bad]
    linted = subprocess.run(command, capture_output=True, text=True, check=False)
    assert linted.returncode != 0
    assert "DL3007" in linted.stdout


@pytest.mark.parametrize("script", ["build.sh", "mirror.sh", "repository.sh", "worker/install-efa.sh"])
def test_scripts_pass_the_shell_checker_and_can_be_run(script: str) -> None:
    checked = subprocess.run(
        [TOOLS / "shellcheck", "-x", IMAGES / script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
    assert (IMAGES / script).stat().st_mode & 0o111


@pytest.mark.parametrize("name", NAMES)
def test_bases_are_pinned_by_digest_and_come_from_registries_without_a_pull_limit(name: str) -> None:
    text = dockerfile(name)
    (base,) = re.findall(r"^ARG (\w+_IMAGE)=", text, re.MULTILINE)
    (image,) = re.findall(r"^ARG \w+_IMAGE=(\S+)", text, re.MULTILINE)
    assert re.fullmatch(r"(nvcr\.io|public\.ecr\.aws)/[a-z0-9/._-]+:[\w.-]+@sha256:[0-9a-f]{64}", image)
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert set(bases) == {f"${{{base}}}"}


@pytest.mark.parametrize("name", NAMES)
def test_every_package_is_pinned_by_hash_and_no_host_is_named(name: str) -> None:
    text = (IMAGES / name / "requirements.txt").read_text(encoding="utf-8")
    assert "://" not in text
    entries = [entry for entry in re.split(r"\n(?=\S)", text) if "==" in entry]
    assert len(entries) == len(requirements(name)) > 5
    for entry in entries:
        assert entry.count("--hash=sha256:") >= 1, entry.splitlines()[0]
    assert text.count("--hash=") == len(re.findall(r"--hash=sha256:[0-9a-f]{64}", text))


@pytest.mark.parametrize("name", NAMES)
def test_packages_are_installed_by_their_hashes_only(name: str) -> None:
    for command in re.findall(r"pip install [^&]*", dockerfile(name)):
        assert "--require-hashes" in command or "/wheels/*.whl" in command, command


def test_the_worker_holds_the_triple_of_the_catalog() -> None:
    triple = engine(DEFAULT_ENGINE["self-managed"])
    pins = requirements("worker")
    assert (pins["vllm"], pins["lmcache"], pins["nixl"]) == (triple.vllm, triple.lmcache, triple.nixl)
    assert pins["nixl-cu13"] == triple.nixl
    assert "nixl-cu12" not in pins
    # `--load-format runai_streamer`, and the copy of the weights
    assert {"runai-model-streamer", "runai-model-streamer-s3", "boto3"} <= pins.keys()


def test_cuda_of_the_base_is_cuda_of_torch() -> None:
    (cuda,) = re.findall(r"/cuda:(\d+)\.", dockerfile("worker"))
    pins = requirements("worker")
    assert pins["nvidia-cuda-runtime"].split(".")[0] == cuda
    assert f"nixl-cu{cuda}" in pins
    assert f"cupy-cuda{cuda}x" in pins


def test_efa_installer_is_recent_enough() -> None:
    (version,) = re.findall(r"EFA_INSTALLER_VERSION=(\S+)", dockerfile("worker"))
    assert tuple(map(int, version.split("."))) >= (1, 29, 1)
    assert {"libhwloc15", "libnuma1"} <= set(dockerfile("worker").split())


def test_the_router_holds_what_its_tests_ran_with() -> None:
    locked = dict(
        re.findall(
            r"^([A-Za-z0-9._-]+)==([^\s;]+)",
            (ROOT / "router/requirements.txt").read_text("utf-8"),
            re.MULTILINE,
        )
    )
    pins = requirements("router")
    assert {name: pins.get(name) for name in locked} == locked
    assert {"opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"} <= pins.keys()


def test_no_cdk_is_in_the_router_or_a_job() -> None:
    for name in ("router", "proof", "benchmark"):
        assert not {"aws-cdk-lib", "cdk8s", "jsii", "constructs"} & requirements(name).keys()


def _shared(name: str) -> list[str]:
    """Return the instructions that the images on Python's base have in common, the image's own name left out."""
    text = dockerfile(name).replace(f"images/{name}/", "images/IMAGE/")
    whole = re.sub(r" *\\\n *", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    wanted = r"ARG PYTHON_IMAGE=|FROM |COPY requirements/|COPY --from=build|RUN --mount=|USER "
    found = [line for line in whole.splitlines() if re.match(wanted, line)]
    # benchmark tries what it installed in the same layer
    return [re.sub(r" && /opt/venv/bin/\S+ --version >/dev/null$", "", line) for line in found]


@pytest.mark.parametrize("name", ["proof", "benchmark"])
def test_images_on_one_base_are_made_alike(name: str) -> None:
    # a Dockerfile includes no other, and one for all would rebuild each image for every other one's change
    assert len(_shared("router")) == 7
    assert _shared(name) == _shared("router")


def test_user_and_ports_of_the_router_are_those_of_its_manifest() -> None:
    text = dockerfile("router")
    assert f"\nUSER {USER_ID}:{USER_ID}\n" in text
    assert f"\nEXPOSE {ROUTER_PORT} {NOTIFICATION_PORT}\n" in text
    assert 'ENTRYPOINT ["dpd-router"]' in text
    for name in ("proof", "benchmark"):
        assert f"\nUSER {USER_ID}:{USER_ID}\n" in dockerfile(name)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_copied_exists_and_reaches_the_builder(name: str) -> None:
    ignored = [
        line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line and line[0] != "#"
    ]
    assert ignored[0] == "*"
    allowed = [line.removeprefix("!") for line in ignored if line.startswith("!")]
    for line in re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile(name), re.MULTILINE):
        for source in line.split():
            assert (ROOT / source).exists(), source
            assert any(fnmatch.fnmatch(source, f"{pattern}*") for pattern in allowed), source


@pytest.fixture(scope="module")
def check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("image_check", IMAGES / "worker/check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LDD = """
\tlinux-vdso.so.1 (0x00007fa263cb6000)
\tlibfabric.so.1 => {fabric}
\tlibcuda.so.1 => not found
\tlibhwloc.so.15 => /lib/x86_64-linux-gnu/libhwloc.so.15 (0x00007fa263a74000)
"""


def test_a_library_that_the_plugin_misses_ends_the_build(check: ModuleType) -> None:
    missing = list(check.missing_libraries(LDD.format(fabric="not found")))
    assert missing == ["NIXL's LIBFABRIC plugin links libfabric.so.1, which is not there"]


def test_the_drivers_own_library_may_be_missing(check: ModuleType) -> None:
    found = LDD.format(fabric="/opt/amazon/efa/lib/libfabric.so.1 (0x00007fa263a00000)")
    assert list(check.missing_libraries(found)) == []


@pytest.mark.parametrize(
    ("answer", "complaints"),
    [
        ("fi_info: 2.4.0amzn1.0\nlibfabric: 2.4.0amzn1.0\nlibfabric api: 2.4\n", 0),
        ("fi_info: 1.21.0\nlibfabric: 1.21.0\n", 0),
        ("fi_info: 1.17.0\nlibfabric: 1.17.0\n", 1),
        ("", 1),
    ],
)
def test_an_old_libfabric_ends_the_build(check: ModuleType, answer: str, complaints: int) -> None:
    assert len(list(check.old_libfabric(answer))) == complaints


def test_another_version_than_required_ends_the_build(
    check: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = {"vllm": "0.25.1", "lmcache": "0.5.3", "nixl": "1.5.2", "nixl-cu13": "1.5.1"}
    monkeypatch.setattr(check.importlib.metadata, "version", installed.__getitem__)
    text = (IMAGES / "worker/requirements.txt").read_text(encoding="utf-8")
    assert list(check.wrong_versions(text)) == ["nixl 1.5.2 is installed, required is 1.5.1"]
