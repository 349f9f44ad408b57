"""DPD-LINT-411: the operator knows pdSpec."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault, listed
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.lint.operator import ROLE_KEYS
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.spec.violation import close_to

_SPEC: Final = frozenset(
    {
        "InitialReplicaCount",
        "autoScalingSpec",
        "dataCapture",
        "dnsConfig",
        "endpointName",
        "instanceType",
        "instanceTypes",
        "intelligentRoutingSpec",
        "invocationEndpoint",
        "kubernetes",
        "kvCacheSpec",
        "loadBalancer",
        "maxDeployTimeInSeconds",
        "metrics",
        "modelName",
        "modelSourceConfig",
        "modelVersion",
        "nodeAffinity",
        "pdSpec",
        "replicas",
        "tags",
        "tlsConfig",
        "worker",
    }
)
_SPEC_V1ALPHA1: Final = frozenset(
    {
        "InitialReplicaCount",
        "autoScalingSpec",
        "endpointName",
        "instanceType",
        "invocationEndpoint",
        "loadBalancer",
        "metrics",
        "modelName",
        "modelSourceConfig",
        "modelVersion",
        "replicas",
        "tags",
        "tlsConfig",
        "worker",
    }
)
_PD_SPEC: Final = frozenset(
    {"autoScalingSpec", "decodingSpec", "prefillSpec", "routingThreshold", "topologySpec"}
)
_ROLE: Final = frozenset({"args", "nodeSelector", "replicas", "resources"})
_HINTS: Final = {
    "decodeSpec": "the key is `decodingSpec`",
    "env": "a role has no environment of its own: use `worker.environmentVariables`, or deploy self-managed",
    "environmentVariables": "a role has no environment of its own: use `worker.environmentVariables`, or deploy "
    "self-managed",
    "image": "a role has no image of its own: use `worker.image`, or deploy self-managed",
}


@manifest_rule(
    "DPD-LINT-411",
    severity=Severity.ERROR,
    title="`pdSpec` is in `inference.sagemaker.aws.amazon.com/v1` with `prefillSpec` and `decodingSpec`",
    sources=(
        "aws/sagemaker-hyperpod-cli charts/inference-operator 2.2.2, CRD",
        "SageMaker DG sagemaker-hyperpod-model-deployment-dpd",
    ),
    facts=("R9", "R10"),
)
def operator_schema_is_kept(manifests: ManifestSet) -> Iterator[Fault]:
    """The API server drops what the schema does not name, without a word: the endpoint comes up without the part that was misspelt."""
    for each in manifests.operator_endpoints:
        spec = each.node.get("spec")
        disaggregated = None if spec is None else spec.get("pdSpec")
        current = each.api_version.endswith("/v1")
        # `pdSpec` in the old version has a message of its own
        yield from _unknown_fields(spec, _SPEC if current else _SPEC_V1ALPHA1 | {"pdSpec"}, "spec")
        if disaggregated is None:
            continue
        if not current:
            yield fault(
                each.node.get("apiVersion") or each.node,
                says="this version of the resource has no `pdSpec`",
                given=f"`apiVersion: {each.api_version}`",
                limit="`inference.sagemaker.aws.amazon.com/v1`",
                fix="set `apiVersion: inference.sagemaker.aws.amazon.com/v1`",
            )
        yield from _unknown_fields(disaggregated, _PD_SPEC, "spec.pdSpec")
        for key in ROLE_KEYS.values():
            part = disaggregated.get(key)
            if part is None:
                yield fault(
                    disaggregated,
                    says=f"`pdSpec` has no `{key}`",
                    given=listed(list(disaggregated.pairs)) or "nothing",
                    fix=f"add `{key}`",
                )
            else:
                yield from _unknown_fields(part, _ROLE, f"spec.pdSpec.{key}")


def _unknown_fields(node: Node | None, known: frozenset[str], place: str) -> Iterator[Fault]:
    for key, value in () if node is None else node.pairs.items():
        if key not in known:
            yield fault(
                value,
                says=f"`{place}` has no field `{key}`, and the API server drops it",
                given=f"`{key}`",
                limit=listed(sorted(known)) if len(known) < 8 else "",
                fix=_HINTS.get(key) or close_to(key, sorted(known)) or "remove it",
            )
