"""DPD-SRV-416: the installed operator knows every field that is rendered."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.eks import addon, addon_version_key
from hyperpod_dpd.catalog.operator import (
    CACHE_OFF,
    DNS,
    HUGGING_FACE,
    INFERENCE_ADDON,
    PD_SPEC,
    OperatorFeature,
)
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import self_managed
from hyperpod_dpd.spec import Deployment, HuggingFaceSource


@deployment_rule(
    "DPD-SRV-416",
    severity=Severity.ERROR,
    title="the declared inference add-on knows every field of the custom resource that is used",
    sources=("SageMaker DG sagemaker-hyperpod-inference-release-notes",),
    facts=("R9",),
)
def operator_knows_the_fields(deployment: Deployment) -> Iterator[Problem]:
    """An older operator drops an unknown field, or reads `false` as not given: EngineDeadError, or another cache."""
    operator = deployment.platform.inference_operator
    if self_managed(deployment) or operator is None or operator.version is None:
        return
    try:
        version = addon_version_key(operator.version)
    except ValueError:
        return  # DPD-EKS-010 says it
    floor = addon(INFERENCE_ADDON).floor
    if floor is not None and version < addon_version_key(floor):
        return  # DPD-EKS-010 says it: no field below the floor matters any more
    for path, feature in _used(deployment):
        if version < addon_version_key(feature.addon):
            yield Problem(
                path=path,
                says=f"the operator of this add-on does not know `{feature.field}`",
                given=f"`platform.inference_operator.version: {operator.version}`",
                limit=f"operator {feature.operator}, add-on `{feature.addon}`",
                fix="remove the version to take the catalog's, or remove the setting",
            )


def _used(deployment: Deployment) -> Iterator[tuple[str, OperatorFeature]]:
    certificate = deployment.serving.operator.certificate
    yield "serving.backend", PD_SPEC
    if isinstance(deployment.model.source, HuggingFaceSource):
        yield "model.source", HUGGING_FACE
    if certificate is not None and certificate.hosted_zone_id is not None:
        yield "serving.operator.certificate.hosted_zone_id", DNS
    if not deployment.serving.instance_cache:
        yield "serving.instance_cache", CACHE_OFF
