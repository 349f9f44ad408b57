"""DPD-LINT-405: one pair where the router knows one."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.spec import Role


@manifest_rule(
    "DPD-LINT-405",
    severity=Severity.ERROR,
    title="production-stack's `disaggregated_prefill` has one prefill and one decode worker",
    sources=("vllm-project/production-stack, run: the others get no request",),
    facts=("R3",),
)
def one_pair_is_used(manifests: ManifestSet) -> Iterator[Fault]:
    """It always uses the first of each: every other worker stands idle."""
    for endpoint in manifests.endpoints:
        for router in endpoint.routers:
            if router.arguments.value("--routing-logic") != "disaggregated_prefill":
                continue
            for role in (Role.PREFILL, Role.DECODE):
                replicas = sum(worker.replicas for worker in endpoint.of(role))
                if replicas > 1:
                    yield fault(
                        endpoint.of(role)[0].owner.node.get("spec", "replicas") or endpoint.of(role)[0].node,
                        says=f"only one of the {role.value} workers would be used",
                        given=f"{replicas} replicas behind `--routing-logic disaggregated_prefill`",
                        limit="1",
                        fix="use one replica, or another router",
                    )
