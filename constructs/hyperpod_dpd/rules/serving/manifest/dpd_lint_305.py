"""DPD-LINT-305: prefill and decode never share a node."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.lint.placement import can_meet
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-305",
    severity=Severity.ERROR,
    title="a prefill and a decode worker cannot come to lie on one node",
    sources=("ai-dynamo/dynamo PR 7764",),
    facts=("E5",),
)
def roles_never_share_a_node(manifests: ManifestSet) -> Iterator[Fault]:
    """EFA has no loopback within a host: on one node the transfer ends in EAGAIN."""
    for endpoint in manifests.endpoints:
        for prefill, decode in endpoint.pairs:
            if can_meet(prefill, decode):
                yield fault(
                    decode.pod.node.get("affinity") or decode.pod.node
                    if decode.pod is not None
                    else decode.node,
                    says=f"{prefill} and {decode} may come to lie on one node",
                    given="no required pod anti-affinity by `kubernetes.io/hostname`",
                    computed=f"{prefill.gpus} and {decode.gpus} GPUs fit on one node together",
                    fix="require pod anti-affinity to the other role, with `topologyKey: kubernetes.io/hostname`",
                )
