"""DPD-LINT-403: the router counts as the workers do."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, Worker, fault
from hyperpod_dpd.lint.node import whole_number
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-403",
    severity=Severity.ERROR,
    title="ranks, chunks, ports and buffer of the router are those of the workers",
    sources=("LMCache/LMCache issue 1777, PR 2195",),
    facts=("L3",),
)
def router_counts_like_the_workers(manifests: ManifestSet) -> Iterator[Fault]:
    """The router waits for one notification per rank and reserves chunks by its own count: with other numbers it waits for ever or overbooks."""
    for endpoint in manifests.endpoints:
        for router in endpoint.routers:
            for decode in endpoint.decode if router.kind == "dpd-router" else ():
                for flag, worker_value, what in _expected(decode):
                    given = router.arguments.last(flag)
                    number = router.arguments.number(flag)
                    if given is None or worker_value is None or number == worker_value:
                        continue
                    if flag == "--decoder-buffer-chunks" and number is not None and number < worker_value:
                        continue  # books less than there is
                    yield fault(
                        given.node,
                        says=f"the router counts differently from {decode}",
                        given=f"`{given.text}`",
                        limit=f"{worker_value}: {what}",
                        fix=f"set `{flag}={worker_value}`",
                    )


def _expected(decode: Worker) -> Iterator[tuple[str, int | None, str]]:
    init, alloc = decode.ports("pd_peer_init_port"), decode.ports("pd_peer_alloc_port")
    yield "--tensor-parallel", decode.tensor_parallel, "`--tensor-parallel-size`"
    yield "--chunk-tokens", decode.chunk_tokens, "`chunk_size`"
    yield "--init-port-base", init[0] if init else None, "first of `pd_peer_init_port`"
    yield "--alloc-port-base", alloc[0] if alloc else None, "first of `pd_peer_alloc_port`"
    epochs = decode.environment.get("DPD_PORT_EPOCHS")
    yield "--port-epochs", whole_number(epochs.value) if epochs is not None else None, "`DPD_PORT_EPOCHS`"
    buffer = decode.buffer
    yield (
        "--decoder-buffer-chunks",
        buffer.chunks if buffer is not None else None,
        "whole chunks of `pd_buffer_size`",
    )
