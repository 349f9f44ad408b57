"""DPD-LINT-401: the router knows LMCache's hand-off."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import LMCACHE_CONNECTOR, Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-401",
    severity=Severity.ERROR,
    title="a router in front of LMCache PD sends `disagg_spec`",
    sources=(
        "volcano-sh/kthena issue 1069",
        "vllm-project/production-stack issue 747",
        "vllm-router 0.1.17, run",
        "llm-d-router v0.10.0 (connector `lmcache` removed)",
    ),
    facts=("R1", "R8"),
)
def router_knows_the_hand_off(manifests: ManifestSet) -> Iterator[Fault]:
    """Without `disagg_spec` the prefill worker raises an AttributeError, or nothing is reused."""
    for endpoint in manifests.endpoints:
        through = [worker for worker in endpoint.prefill if worker.through_lmcache and not worker.operator]
        for router in endpoint.routers:
            if through and not router.owns_notifications:
                yield fault(
                    router.node,
                    says=f"`{router.kind}` does not send `disagg_spec`, which `{LMCACHE_CONNECTOR}` needs",
                    given=f"{router} in front of `{through[0].owner.name}`",
                    fix="use `dpd-router`, or `NixlConnector` on both roles",
                )
            transfer = router.arguments.last("--transfer")
            wanted = "nixl" if any(worker.through_nixl for worker in endpoint.prefill) else "lmcache-pd"
            if transfer is None or not endpoint.prefill or transfer.value is None:
                continue
            if transfer.value.text != wanted:
                yield fault(
                    transfer.node,
                    says="the router speaks of another transfer than the workers",
                    given=f"`{transfer.text}`",
                    limit=f"`{wanted}`",
                    fix=f"set `--transfer={wanted}`",
                )
