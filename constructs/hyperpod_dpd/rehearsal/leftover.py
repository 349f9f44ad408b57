"""What nobody may leave behind at the end: hand-offs at the router, chunks in the decoders' buffers."""

from collections.abc import Mapping, Sequence

from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.rehearsal.faults import Fault
from hyperpod_dpd.rehearsal.trouble import Kind, Trouble, trouble


def left_over(
    node: Node, *, hand_offs: int | None, chunks: Mapping[str, Sequence[int]], faults: Sequence[Fault]
) -> list[Trouble]:
    """Return what was left when traffic was over and everything had been cleared away.

    Args:
        node: the router in the manifests.
        hand_offs: hand-offs that the router still owned; None: it did not say.
        chunks: chunks in use in each decoder's PD buffer, by rank.
        faults: what was injected: a router that is killed takes its books with it.
    """
    found = []
    if hand_offs is None:
        says = "no router said at the end whether it still owns hand-offs"
        found.append(trouble(Kind.RUNNING, node, says, "read its log; `--keep DIR` keeps it"))
    elif hand_offs:
        says = f"{hand_offs} hand-offs were still open at the router when traffic was over"
        fix = "every hand-off is consumed or drained; look for these in the log of the router"
        found.append(trouble(Kind.RUNNING, node, says, fix))
    used = {name: max(ranks) for name, ranks in sorted(chunks.items()) if any(ranks)}
    if used and not any(fault.kind.may_leave_chunks for fault in faults):
        listed = ", ".join(f"`{name}` {count}" for name, count in used.items())
        says = f"chunks were left in the PD buffer of decoders when traffic was over: {listed}"
        fix = (
            "a hand-off that is written and never read stays until the decoder restarts, and a full buffer ends "
            "disaggregation; compare `skip_last_n_tokens`, prefix caching and the router's version with the rendered ones"
        )
        found.append(trouble(Kind.RUNNING, node, says, fix))
    return found
