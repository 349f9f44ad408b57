"""DPD-LINT-402: there is one router."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-402",
    severity=Severity.ERROR,
    title="a router that owns the notification socket has one replica, and never works beside another one",
    sources=("this project: notifications and request ids belong to one process",),
    facts=("R2",),
)
def there_is_one_router(manifests: ManifestSet) -> Iterator[Fault]:
    """A notification reaches one of several replicas, and seldom the one that waits for it."""
    for router in manifests.routers:
        if not router.owns_notifications:
            continue
        if router.pod.replicas > 1:
            yield fault(
                router.owner.node.get("spec", "replicas") or router.owner.node,
                says=f"{router} has more than one replica",
                given=f"`replicas: {router.pod.replicas}`",
                limit="1",
                fix="set `replicas: 1`",
            )
        strategy = router.owner.node.get("spec", "strategy", "type")
        # then it hands nothing over while it sees another router behind that Service
        knows_others = router.kind == "dpd-router" and router.arguments.last("--router-service") is not None
        recreated = strategy is not None and strategy.text == "Recreate"
        if router.owner.kind == "Deployment" and not (recreated or knows_others):
            yield fault(
                strategy or router.owner.node.get("spec") or router.owner.node,
                says=f"a second {router} starts before the first one ends",
                given=f"`strategy: {strategy.text}`"
                if strategy is not None
                else "no `strategy`, which means RollingUpdate",
                limit="`Recreate`",
                fix="set `strategy: {type: Recreate}`",
            )
        for each in manifests.of_kind("HorizontalPodAutoscaler", "ScaledObject"):
            if (
                each.node.text_at("spec", "scaleTargetRef", "name") == router.owner.name
                and each.namespace == router.owner.namespace
            ):
                yield fault(
                    each.node.get("spec", "scaleTargetRef") or each.node,
                    says=f"{each.title} gives {router} more replicas",
                    given=f"`{router.owner.name}`",
                    fix="scale the workers instead",
                )
