"""Hold the catalog's public charts to the charts themselves: digest, names of values, images, and what they render to.

usage: python -m tools.chart_values FILE...

FILE is a packaged chart of `catalog/cluster_charts.py`, such as `keda-2.20.2.tgz`, or its unpacked folder. No package
index has these charts, so that the tests hold what the platform sets to the names in the catalog, and this holds the
catalog to the charts: run it where the internet is, whenever a version is raised.
"""

import hashlib
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from helm_python import Chart

from hyperpod_dpd.catalog.cluster_charts import (
    CLUSTER_CHARTS,
    EXTERNAL_SECRETS,
    KEDA,
    LOAD_BALANCER_CONTROLLER,
    ClusterChart,
)
from hyperpod_dpd.cluster.chart_values import (
    external_secrets_values,
    keda_values,
    load_balancer_controller_values,
)
from hyperpod_dpd.cluster.system_nodes import SYSTEM_NODE_LABELS
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.load import load

ROOT = Path(__file__).parents[1]
REGISTRY = "123456789012.dkr.ecr.us-east-1.amazonaws.com"


def values_of(chart: ClusterChart, deployment: Deployment) -> dict[str, Any]:
    """Return what the platform sets in `chart`."""
    if chart is EXTERNAL_SECRETS:
        return external_secrets_values(deployment, registry=REGISTRY)
    if chart is KEDA:
        return keda_values(deployment, cluster_name="cluster", registry=REGISTRY)
    assert chart is LOAD_BALANCER_CONTROLLER
    return load_balancer_controller_values(
        deployment, cluster_name="cluster", vpc_id="vpc-1", registry=REGISTRY
    )


def paths(values: Mapping[str, Any], free: Sequence[str] = ("nodeSelector", "resources")) -> Iterator[str]:
    """Yield the path of every value; what is below a `free` name is the reader's own, not the chart's."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value and key not in free:
            yield from (f"{key}.{below}" for below in paths(value, free))
        else:
            yield key


def unknown(names: Sequence[str], defaults: Mapping[str, Any]) -> list[str]:
    """Return the paths that a chart's `values.yaml` does not have: Helm ignores them without a word."""
    return [name for name in names if not _has(defaults, name.split("."))]


def _has(defaults: Any, path: list[str]) -> bool:
    for part in path:
        if not isinstance(defaults, Mapping) or part not in defaults:
            return False
        defaults = defaults[part]
    return True


def problems(chart: ClusterChart, folder: Path, deployment: Deployment) -> Iterator[str]:
    """Yield what is wrong with the catalog's row of `chart`, whose files are in `folder`."""
    about = yaml.safe_load((folder / "Chart.yaml").read_text(encoding="utf-8"))
    if (about["name"], str(about["version"])) != (chart.archive.name, chart.archive.version):
        yield f"it is {about['name']} {about['version']}, the catalog says {chart.archive.version}"
    defaults = yaml.safe_load((folder / "values.yaml").read_text(encoding="utf-8"))
    for name in unknown(chart.values, defaults):
        yield f"it has no value `{name}`"
    values = values_of(chart, deployment)
    loaded = Chart.load(str(folder))
    loaded.validate_schema(values)
    texts = loaded.render(values, name=chart.release, namespace=chart.namespace, is_install=True)
    objects = [
        entry
        for name, text in texts.items()
        if not name.endswith("NOTES.txt")
        for entry in yaml.safe_load_all(text)
        if entry
    ]
    yield from _rendered(chart, objects)


def _rendered(chart: ClusterChart, objects: list[dict[str, Any]]) -> Iterator[str]:
    pods = {
        entry["metadata"]["name"]: entry["spec"]["template"]["spec"]
        for entry in objects
        if entry["kind"] in ("Deployment", "DaemonSet", "Job")
    }
    images = {container["image"] for pod in pods.values() for container in pod["containers"]}
    if images != set(chart.images):
        yield f"its pods run {sorted(images)}, the catalog says {sorted(chart.images)}"
    for name, pod in pods.items():
        if not SYSTEM_NODE_LABELS.items() <= pod.get("nodeSelector", {}).items():
            yield f"the pods of `{name}` may run on any node"
    if chart.service_account not in {pod.get("serviceAccountName") for pod in pods.values()}:
        yield f"no pod runs as `{chart.service_account}`"
    for entry in objects:
        if entry["kind"] == "MutatingWebhookConfiguration":
            hooks = {
                rule for hook in entry["webhooks"] for each in hook["rules"] for rule in each["resources"]
            }
            if "services" in hooks:
                yield "a webhook changes every Service"


def main(arguments: Sequence[str]) -> int:
    """Check every file; return the exit code."""
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    deployment = load(ROOT / "deployments/llama-3.3-70b-p5.yaml").deployment
    found = 0
    for argument in arguments:
        for problem in _of_file(Path(argument), deployment):
            found += 1
            print(f"{argument}: {problem}")
    if not found:
        print(f"{len(arguments)} charts are as the catalog says")
    return 1 if found else 0


def _of_file(path: Path, deployment: Deployment) -> Iterator[str]:
    chart = next((row for row in CLUSTER_CHARTS if row.archive.name in path.name), None)
    if chart is None:
        yield "the catalog has no such chart"
    elif path.is_dir():
        yield from problems(chart, path, deployment)
    else:
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        if sha256 != chart.archive.sha256:
            yield f"it has sha256 {sha256}, the catalog says {chart.archive.sha256}"
        with TemporaryDirectory() as folder:
            with tarfile.open(path) as archive:
                archive.extractall(folder, filter="data")
            yield from problems(chart, Path(folder) / chart.archive.name, deployment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
