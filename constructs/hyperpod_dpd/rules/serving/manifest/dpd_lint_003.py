"""DPD-LINT-003: both roles and the router are given."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault, listed
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.spec import Role


@manifest_rule(
    "DPD-LINT-003",
    severity=Severity.WARNING,
    title="prefill workers, decode workers and their router are given together",
    sources=("this project: most faults of a hand-off lie between two manifests",),
)
def a_set_is_complete(manifests: ManifestSet) -> Iterator[Fault]:
    """Tensor parallelism, ports, hash seed and policies can only be compared when both sides are there."""
    for endpoint in manifests.endpoints:
        if not endpoint.disaggregated:
            continue
        first = (endpoint.prefill or endpoint.decode)[0]
        for role in (Role.PREFILL, Role.DECODE):
            if not endpoint.of(role):
                yield fault(
                    first.node,
                    says=f"no {role.value} worker of `{endpoint.name}` was given, so the two roles were not compared",
                    given=listed(sorted({worker.owner.name for worker in endpoint.workers})),
                    fix=f"give the manifest of the {role.value} workers as well",
                )
        if not endpoint.routers and not first.operator and first.through_lmcache:
            yield fault(
                first.node,
                says=f"no router of `{endpoint.name}` was given, so notifications and hand-off were not checked",
                given=listed(sorted({worker.owner.name for worker in endpoint.workers})),
                fix="give the manifest of the router as well",
            )
