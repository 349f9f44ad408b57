"""DPD-LINT-124: one side sends, the other receives."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault, listed
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.spec import Role

_PD_ROLES: Final = {"kv_producer": "sender", "kv_consumer": "receiver"}


@manifest_rule(
    "DPD-LINT-124",
    severity=Severity.ERROR,
    title="connector role and PD role agree, and each endpoint has both",
    sources=("LMCache 0.5.6 source, PD backend", "vLLM `kv_role`"),
)
def roles_are_opposite(manifests: ManifestSet) -> Iterator[Fault]:
    """Two senders or two receivers wait for each other; a producer that receives hands nothing over."""
    for worker in manifests.handing_over:
        if worker.operator or not worker.through_lmcache:
            continue
        kv_role = None if worker.transfer is None else worker.transfer.text_at("kv_role")
        pd_role = worker.at("pd_role").text if "pd_role" in worker.lmcache else None
        if kv_role not in _PD_ROLES:
            yield fault(
                worker.argument_at("--kv-transfer-config"),
                says=f"{worker} is told no role of its own",
                given=f"`kv_role: {kv_role}`",
                limit=" or ".join(f"`{each}`" for each in _PD_ROLES),
                fix="set `kv_producer` at prefill and `kv_consumer` at decode",
            )
        elif pd_role is not None and pd_role in _PD_ROLES.values() and _PD_ROLES[kv_role] != pd_role:
            yield fault(
                worker.at("pd_role"),
                says=f"connector and LMCache of {worker} are told opposite roles",
                given=f"`kv_role: {kv_role}`, `pd_role: {pd_role}`",
                limit=f"`pd_role: {_PD_ROLES[kv_role]}`",
                fix=f"set `pd_role: {_PD_ROLES[kv_role]}`",
            )
    for endpoint in manifests.endpoints:
        for role, other in ((Role.PREFILL, Role.DECODE), (Role.DECODE, Role.PREFILL)):
            same = [worker for worker in endpoint.of(role) if worker.through_lmcache and not worker.operator]
            if (
                len({worker.owner.name for worker in same}) > 1
                and not endpoint.of(other)
                and endpoint.routers
            ):
                yield fault(
                    same[-1].argument_at("--kv-transfer-config"),
                    says=f"every worker of `{endpoint.name}` is a {role.value} worker",
                    given=listed([worker.owner.name for worker in same]),
                    fix=f"give one of them the role of the {other.value} worker",
                )
