"""DPD-EKS-010: add-ons are new enough."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.eks import addon_version_key, addons
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-EKS-010",
    severity=Severity.ERROR,
    title="add-on versions are readable and not older than what HyperPod needs",
    sources=(
        "SageMaker DG sagemaker-hyperpod-model-deployment-setup (minimum versions)",
        "SageMaker DG sagemaker-hyperpod-inference-release-notes (pdSpec since v1.3.0-eksbuild.1)",
    ),
    facts=("P10",),
)
def addons_are_new_enough(deployment: Deployment) -> Iterator[Problem]:
    """The inference add-on fails beside an older add-on, and before 3.2 its operator does not know `pdSpec`."""
    rows = {row.name: row for row in addons()}
    for path, name, version in _given(deployment):
        if name not in rows:
            continue
        floor = rows[name].floor
        try:
            key = addon_version_key(version)
        except ValueError:
            yield Problem(
                path=path,
                says=f"not a version of the add-on `{name}`",
                given=f"`{version}`",
                fix="write it as `aws eks describe-addon-versions` does, such as `v1.22.4-eksbuild.3`",
            )
            continue
        if floor is not None and key < addon_version_key(floor):
            yield Problem(
                path=path,
                says=f"the add-on `{name}` is too old",
                given=f"`{version}`",
                limit=f"at least `{floor}`",
                fix="remove the version to take the catalog's",
            )


def _given(deployment: Deployment) -> Iterator[tuple[str, str, str]]:
    for name, version in (deployment.cluster.addon_versions or {}).items():
        yield f"cluster.addon_versions.{name}", name, version
    operator = deployment.platform.inference_operator
    if operator is not None and operator.version is not None:
        yield "platform.inference_operator.version", "amazon-sagemaker-hyperpod-inference", operator.version
