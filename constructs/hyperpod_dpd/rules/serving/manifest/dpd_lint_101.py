"""DPD-LINT-101: one port per rank."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.spec import Role


@manifest_rule(
    "DPD-LINT-101",
    severity=Severity.ERROR,
    title="the receiver names one init and one allocation port per tensor-parallel rank",
    sources=("LMCache/LMCache issues 1381, 2854, 1966",),
    facts=("L1",),
)
def ports_are_one_per_rank(manifests: ManifestSet) -> Iterator[Fault]:
    """Each rank takes the port with its own number: with fewer ports the decoder ends with an index error at its start."""
    for worker in manifests.handing_over:
        if (
            worker.role is not Role.DECODE
            or not worker.through_lmcache
            or worker.operator
            or not worker.lmcache_known
        ):
            continue
        ranks = worker.tensor_parallel
        for key in ("pd_peer_init_port", "pd_peer_alloc_port"):
            ports = worker.ports(key)
            if worker.lmcache and key not in worker.lmcache:
                yield fault(
                    worker.node,
                    says=f"{worker} has no `{key}`",
                    given="nothing",
                    limit=f"{ranks} ports, one per rank",
                    fix=f"add `{key}` with one port per rank to LMCache's configuration",
                )
            elif key in worker.lmcache and ports is None:
                yield fault(
                    worker.at(key),
                    says=f"`{key}` of {worker} is not a list of ports",
                    given=f"`{worker.at(key).shown()}`",
                    fix="write whole numbers",
                )
            elif ports is not None and ranks is not None and len(ports) != ranks:
                yield fault(
                    worker.at(key),
                    says=f"`{key}` of {worker} has not one port per rank",
                    given=f"`{key}: {list(ports)}`",
                    computed=f"{len(ports)} of {ranks} ports",
                    limit=f"{ranks}: `--tensor-parallel-size`",
                    fix=f"name {ranks} ports",
                )
