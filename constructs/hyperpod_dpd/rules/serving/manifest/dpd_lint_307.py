"""DPD-LINT-307: the zone is decided."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.lint.placement import places_by_zone
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-307",
    severity=Severity.WARNING,
    title="something places every worker that hands over in a zone",
    sources=("llm-d/llm-d PR 1554",),
    facts=("E6",),
)
def zones_are_decided(manifests: ManifestSet) -> Iterator[Fault]:
    """On a cluster with GPU nodes in two zones the scheduler may choose one for each role."""
    for endpoint in manifests.endpoints:
        for worker in (*endpoint.prefill, *endpoint.decode):
            if worker.pod is not None and not places_by_zone(worker.pod):
                yield fault(
                    worker.pod.node,
                    says=f"nothing decides the zone of {worker}",
                    given="no zone in `nodeSelector` or `affinity`",
                    fix="select `topology.kubernetes.io/zone`, or HyperPod's "
                    "`sagemaker.amazonaws.com/instance-group-name`",
                )
