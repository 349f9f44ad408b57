"""What a verdict rests on, what was counted, and what limits it."""

from collections.abc import Iterator

from hyperpod_dpd.evidence.proof.case import Case
from hyperpod_dpd.evidence.proof.connection import Tried
from hyperpod_dpd.evidence.proof.seen import threshold_text
from hyperpod_dpd.evidence.proof.send import Sent


def sources(case: Case) -> Iterator[str]:
    """Yield what the verdict rests on, and what could not be read."""
    yield "the router's counters" if case.busy.router is not None else _without_router(case)
    for role, urls in (("prefillers", case.target.prefillers), ("decoders", case.target.decoders)):
        readable = [url for url in urls if url in case.busy.workers]
        yield f"counters of {len(readable)} of {len(urls)} {role}"
    if case.retrieved is not None:
        yield f"{len(case.retrieved)} lines of the decoders' logs about retrievals"
    yield _fabric_source(case)


def _without_router(case: Case) -> str:
    if not case.target.router_metrics:
        return "no counters of the router, which AWS's does not show"
    return f"no counters of the router: {case.busy.unreadable.get(case.target.url, 'not read')}"


def _fabric_source(case: Case) -> str:
    if not case.target.expects_efa:
        return "no EFA is expected"
    if case.busy.efa_bytes is not None:
        where = "exporters" if case.target.efa_exporters else "the cluster's Prometheus"
        return f"EFA counters of {where}"
    return f"no EFA counters: {case.efa_gaps[0] if case.efa_gaps else 'nobody was named who has them'}"


def numbers(case: Case) -> dict[str, object]:
    """Return what was counted, for people and for JSON."""
    found: dict[str, object] = {
        "threshold": threshold_text(case),
        "short prompt": _shown(case.short),
        **{f"long prompt {index}": _shown(sent) for index, sent in enumerate(case.long, 1)},
        "tokens computed by prefillers": _of_prefillers(case, case.prefilled_tokens),
        "tokens given to LMCache by prefillers": _of_prefillers(case, case.stored_tokens),
        "tokens reported as handed over by decoders": _of_decoders(case, case.reported_tokens),
        **(
            {"transfers made by decoders": _of_decoders(case, case.pulled)}
            if case.target.transfer == "nixl"
            else {"tokens loaded by decoders": _of_decoders(case, case.loaded_tokens)}
        ),
    }
    if case.busy.router is not None:
        found |= {
            "hand-offs": case.disaggregated,
            "notifications": case.notifications,
            "hand-offs by what decoders found": case.hits,
            "fallbacks": case.fallback,
            "decoded directly": case.direct,
        }
    if case.busy.efa_bytes is not None:
        found["EFA bytes"] = int(case.busy.efa_bytes)
        seconds = max((sent.seconds for sent in case.long), default=0.0)
        if seconds > 0:
            found["EFA GB/s over the longest answer"] = round(case.busy.efa_bytes / seconds / 1e9, 3)
    if case.retrieved:
        speeds = [each.gb_per_second for each in case.retrieved if each.gb_per_second is not None]
        found["retrieved by the logs"] = [f"{each.tokens} of {each.wanted}" for each in case.retrieved[:16]]
        if speeds:
            found["fastest retrieval, GB/s"] = max(speeds)
    if case.tried is not None:
        found["forbidden connection"] = case.tried.value
    return found


def _of_prefillers(case: Case, number: float) -> int | str:
    return _counted(number, of_all=case.all_prefillers_counted or not case.target.prefillers)


def _of_decoders(case: Case, number: float) -> int | str:
    return _counted(number, of_all=case.all_decoders_counted or not case.target.decoders)


def _counted(number: float, *, of_all: bool) -> int | str:
    """Return the number, and in words where not every worker was read: 0 would be a count."""
    if of_all:
        return int(number)
    return f"at least {number:.0f}" if number else "unknown"


def notes(case: Case) -> Iterator[str]:
    """Yield what limits the verdict without contradicting it."""
    if case.others:
        yield f"{case.others} other requests ran meanwhile, and the counters are of all"
    if case.first_contact:
        reasons = ", ".join(f"`{reason}` {number}" for reason, number in sorted(case.first_contact.items()))
        yield f"the very first hand-offs failed ({reasons}), and the verdict is about those that came after them"
    if case.short is None:
        yield f"no prompt is below the threshold of {threshold_text(case)}, so none was proven to stay local"
    threshold = case.target.threshold_tokens
    if (
        case.wants_hand_off
        and case.target.expects_efa
        and case.busy.efa_bytes is None
        and case.reported_tokens
    ):
        yield "nobody counted EFA traffic, so the KV cache may have crossed TCP"
    if threshold is None:
        yield "the threshold is `never`: nothing is handed over, and only that was proven"
    if case.idle and case.long and not case.unanswered:
        idle = ", ".join(f"`{url}`" for url in case.idle)
        yield f"no long prompt came to {idle}: nothing is known about it"
    if case.tried is Tried.NAME_UNKNOWN:
        yield f"the host of `{case.target.forbidden}` is unknown, so nothing was tried"
    if case.tried is Tried.IMPOSSIBLE:
        yield f"a connection to `{case.target.forbidden}` could not be tried, so nothing is known about the policies"
    if case.target.without_address:
        pods = ", ".join(f"`{name}`" for name in case.target.without_address)
        yield f"{pods} had no address yet: nothing is known about it"


def _shown(sent: Sent | None) -> str:
    if sent is None:
        return "not sent"
    if not sent.answered:
        return f"{sent.problem} after {sent.seconds:.1f} s"
    cached = "" if sent.cached_tokens is None else f", {sent.cached_tokens} cached"
    return f"{sent.prompt_tokens} tokens{cached}, answered in {sent.seconds:.2f} s"
