"""DPD-LINT-406: the threshold is one."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-406",
    severity=Severity.ERROR,
    title="a routing threshold is a number of tokens from 0 on, or `never`",
    sources=(
        "SageMaker DG sagemaker-hyperpod-model-deployment-dpd (0 = always)",
        "llm-d-router source (0 = never)",
    ),
    facts=("R6",),
)
def threshold_is_one(manifests: ManifestSet) -> Iterator[Fault]:
    """0 disaggregates every prompt here and none at llm-d: a number copied from there turns the routing around."""
    for router in manifests.routers:
        given = router.arguments.last("--threshold", "--routing-threshold")
        value = None if given is None or given.value is None else given.value.text
        if given is not None and value != "never" and not (value or "").isdigit():
            yield fault(
                given.node,
                says=f"the threshold of {router} is no number of tokens",
                given=f"`{given.text}`",
                limit="0 or more, or `never`",
                fix="set `--threshold=4096`",
            )
    for each in manifests.operator_endpoints:
        found = each.node.get("spec", "pdSpec", "routingThreshold")
        if found is not None and (
            not isinstance(found.data, int) or isinstance(found.data, bool) or found.data < 0
        ):
            yield fault(
                found,
                says="the routing threshold is no number of tokens",
                given=f"`routingThreshold: {found.shown()}`",
                limit="0 or more",
                fix="set `routingThreshold: 4096`",
            )
