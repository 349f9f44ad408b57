"""DPD-LINT-308: memory can be registered."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.lint.words import is_true
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-308",
    severity=Severity.ERROR,
    title="workers have `IPC_LOCK` as user 0, or are privileged",
    sources=("ai-dynamo/dynamo issue 8146, PR 8166", "awslabs/awsome-distributed-ai issue 647"),
    facts=("E7",),
)
def memory_can_be_registered(manifests: ManifestSet) -> Iterator[Fault]:
    """Registering GPU memory with EFA locks it: without the capability NIXL ends with NIXL_ERR_BACKEND. For another user than 0 it is inert."""
    for worker in manifests.handing_over:
        if worker.pod is None:
            continue
        own, common = worker.node.get("securityContext"), worker.pod.node.get("securityContext")
        if own is not None and is_true(own.get("privileged")):
            continue
        added = None if own is None else own.get("capabilities", "add")
        names = {each.text for each in added.items} if added is not None else set()
        user = (own.get("runAsUser") if own is not None else None) or (
            common.get("runAsUser") if common is not None else None
        )
        if not names & {"IPC_LOCK", "ALL"}:
            yield fault(
                own or worker.node,
                says=f"{worker} cannot lock memory",
                given="no `IPC_LOCK`",
                fix="add the capability `IPC_LOCK`",
            )
        elif user is not None and user.number != 0:
            yield fault(
                user,
                says=f"`IPC_LOCK` of {worker} is inert for this user",
                given=f"`runAsUser: {user.shown()}`",
                limit="0",
                fix="set `runAsUser: 0` in the container",
            )
