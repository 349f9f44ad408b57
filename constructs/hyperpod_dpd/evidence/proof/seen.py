"""What can be seen of a failure: a text with its numbers, or None where it does not apply.

The order in which failures are looked for is that of the table in `failures.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from hyperpod_dpd.evidence.proof.case import Case
from hyperpod_dpd.evidence.proof.connection import Tried
from hyperpod_dpd.evidence.proof.observe import Reading

_AWAY: Final = ("disaggregated", "fallback")
"""Decisions of the router about a prompt that reached the threshold."""

_UNAVAILABLE: Final = 503
_TOO_MANY: Final = 429
_BAD_REQUEST: Final = range(400, 500)
_SLOW_GB_PER_SECOND: Final = 1.0
"""Below this AWS takes it that EFA is not used (SageMaker developer guide, troubleshooting of DPD, 2026-11-30)."""

# Answers ---------------------------------------------------------------------------------------------------------------


def no_decoder(case: Case) -> str | None:
    """Say that nobody can decode."""
    refused = [sent for sent in case.unanswered if sent.status == _UNAVAILABLE]
    down = [url for url in case.target.decoders if url in case.now.unreadable]
    if refused or (case.unanswered and down and len(down) == len(case.target.decoders)):
        reasons = "; ".join(f"`{url}`: {case.now.unreadable[url]}" for url in down)
        answer = f"the endpoint answers: {(refused or case.unanswered)[0].problem}"
        return f"{answer}; {len(down)} of {len(case.target.decoders)} decoders cannot be read" + (
            f" ({reasons})" if reasons else ""
        )
    return None


def router_full(case: Case) -> str | None:
    """Say that the router has no room for a prompt."""
    turned_away = [sent for sent in case.unanswered if sent.status == _TOO_MANY]
    return f"the endpoint takes no more: {turned_away[0].problem}" if turned_away else None


def refused(case: Case) -> str | None:
    """Say that a prompt is refused for what is in it."""
    refused = [sent for sent in case.unanswered if sent.status in _BAD_REQUEST]
    return f"the endpoint refuses a prompt: {refused[0].problem}" if refused else None


def prefill_queue(case: Case) -> str | None:
    """Say that a prefill comes too late, behind others."""
    what = late(case)
    if what and case.waiting > 0 and case.prefills_go_on:
        return f"{what}; {case.waiting} prompts wait at {len(case.target.prefillers)} prefillers"
    return None


def late(case: Case) -> str | None:
    """Say what came too late: a long answer, or a prefill that the router gave up."""
    unanswered = [sent for sent in case.long if sent.status is None and not sent.answered]
    if unanswered:
        return f"a long prompt has {unanswered[0].problem}"
    timeouts = case.fallback.get("prefill_timeout", 0)
    return f"the router gave up {timeouts} prefills" if timeouts else None


def no_answer(case: Case) -> str | None:
    """Say that an answer never came."""
    missing = [sent for sent in case.unanswered if sent.status is None]
    if not missing:
        return None
    which = "the short prompt" if missing[0] is case.short else "a long prompt"
    return f"{which} got no answer: {missing[0].problem}"


def bad_answer(case: Case) -> str | None:
    """Say that an answer is none."""
    return f"an answer is not one: {case.unanswered[0].problem}" if case.unanswered else None


# Short prompt ----------------------------------------------------------------------------------------------------------


def short_disaggregated(case: Case) -> str | None:
    """Say that a prompt was handed over that should not have been: a short one, or any where nothing shall be."""
    if not case.wants_hand_off and _went_away(case):
        return f"{long_ones(case)} were handed over, although the threshold is `never`"
    short = case.short
    if short is None or not short.answered:
        return None
    moved = case.reasons(case.quiet, *_AWAY)
    local = case.reasons(case.quiet, "direct")
    prefilled = case.counted(case.target.prefillers, "vllm:prompt_tokens_total", case.quiet)
    router_says = short.decision in _AWAY or bool(moved and not local and not short.decision)
    # a router that counted nothing was not the one that decided
    silent = not moved and not local and not short.decision
    workers_say = silent and prefilled >= (short.prompt_tokens or 0) > 0
    if router_says or workers_say:
        return (
            f"a prompt of {short.prompt_tokens} tokens was handed over, although the threshold is "
            f"{threshold_text(case)}; prefillers computed {prefilled:.0f} tokens for it"
        )
    return None


def _went_away(case: Case) -> bool:
    """Whether a long prompt was handed over, or should have been, by anybody who can say."""
    if any(sent.decision in _AWAY for sent in case.long) or case.disaggregated or case.fallback:
        return True
    silent = not case.reasons(case.busy, "direct") and not any(sent.decision for sent in case.long)
    return silent and case.prefilled_tokens >= case.long_tokens / 2 > 0


def short_unknown(case: Case) -> str | None:
    """Say that nobody can tell where a prompt was computed that should not have been handed over."""
    stayed = [(case.short, case.quiet)] if case.short is not None and case.short.answered else []
    if not case.wants_hand_off:
        stayed += [(sent, case.busy) for sent in case.long if sent.answered]
    unknown = [
        sent for sent, reading in stayed if not sent.decision and not _says_who_computed(case, reading)
    ]
    if not unknown or (case.wants_hand_off and (unreadable(case) or router_unreadable(case))):
        # the latter are said beside the long prompts
        return None
    unread = [f"`{url}`: {why}" for url, why in {**case.quiet.unreadable, **case.busy.unreadable}.items()]
    return f"nobody can tell where a prompt of {unknown[0].prompt_tokens} tokens was computed" + (
        f" ({'; '.join(unread)})" if unread else ""
    )


def _says_who_computed(case: Case, reading: Reading) -> bool:
    """Whether the router counted a decision, or the counters of every prefiller are known."""
    if case.reasons(reading, *_AWAY, "direct"):
        return True
    return all(url in reading.workers for url in case.target.prefillers)


def threshold_text(case: Case) -> str:
    """Return the threshold for people."""
    threshold = case.target.threshold_tokens
    return "`never`" if threshold is None else f"{threshold} tokens"


# Long prompts ----------------------------------------------------------------------------------------------------------


def out_of_reach(case: Case) -> str | None:
    """Say that no prompt can reach the threshold."""
    if not case.is_too_short:
        return None
    return (
        f"{long_ones(case)} are the longest that fit into a context of {case.target.max_model_len_tokens} tokens, and the "
        f"threshold is {threshold_text(case)}"
    )


def kept_local(case: Case) -> str | None:
    """Say that long prompts were not long enough for the router."""
    below = case.direct.get("below_threshold", 0) + case.direct.get("threshold_never", 0)
    if below and case.long:
        return f"{below} of {long_ones(case)} stayed below the router's threshold; it was deployed with {threshold_text(case)}"
    counted = case.busy.router is None and case.long and case.all_prefillers_counted
    if counted and case.prefilled_tokens < case.long_tokens / 2:
        return (
            f"{long_ones(case)} were sent, the threshold is {threshold_text(case)}, and prefillers computed only "
            f"{case.prefilled_tokens:.0f} tokens"
        )
    return None


def exceeds_buffer(case: Case) -> str | None:
    """Say that a long prompt does not fit into the PD buffer."""
    too_long, no_room = case.direct.get("exceeds_buffer", 0), case.direct.get("no_buffer_room", 0)
    if not too_long and not no_room:
        return None
    chunks = -(-max((sent.prompt_tokens or 0) for sent in case.long) // case.target.chunk_tokens)
    room = case.router_buffer_chunks
    return (
        f"{too_long + no_room} of {long_ones(case)} found no room: one takes {chunks} chunks of "
        f"{case.target.chunk_tokens} tokens, a decoder's buffer has {'unknown' if room is None else room}"
    )


def buffer_unlike(case: Case) -> str | None:
    """Say that the router's idea of the buffer is not what was deployed."""
    told, deployed = case.router_buffer_chunks, case.target.buffer_chunks
    if case.fallback.get("notification_timeout") and None not in (told, deployed) and told != deployed:
        return f"the router takes a decoder's buffer for {told} chunks; deployed are {deployed}"
    return None


def buffer_leaked(case: Case) -> str | None:
    """Say that the router holds a buffer for lost."""
    lost = case.direct.get("buffer_leaked", 0)
    return (
        f"{lost} of {long_ones(case)} were not handed over: the router holds the buffer for lost"
        if lost
        else None
    )


def other_router(case: Case) -> str | None:
    """Say that another router is there, beside which nothing is handed over."""
    beside = case.direct.get("other_router", 0)
    return (
        f"{beside} of {long_ones(case)} were not handed over: another router is still there"
        if beside
        else None
    )


def pair_broken(case: Case) -> str | None:
    """Say that the router keeps a prefiller and a decoder apart."""
    broken = case.direct.get("pair_broken", 0)
    return (
        f"{broken} of {long_ones(case)} were not handed over: earlier hand-offs of the pair failed"
        if broken
        else None
    )


def no_prefiller(case: Case) -> str | None:
    """Say that nobody can prefill."""
    direct = case.direct.get("no_prefiller", 0)
    unreachable = case.fallback.get("prefill_unreachable", 0)
    down = [url for url in case.target.prefillers if url in case.now.unreadable]
    if direct or unreachable:
        named = "; ".join(f"`{url}`: {case.now.unreadable[url]}" for url in down) or "all can be read"
        return f"{direct + unreachable} of {long_ones(case)} found no prefiller ({named})"
    return None


def models_differ(case: Case) -> str | None:
    """Say that the roles do not serve the same name."""
    wrong = case.direct.get("model_not_on_both_roles", 0)
    return f"`{case.target.model}` is not served by both roles, or with another name" if wrong else None


def not_eligible(case: Case) -> str | None:
    """Say that the router decoded directly, for any other reason."""
    if case.direct and case.long and not case.fallback and not case.disaggregated:
        return f"{long_ones(case)} were decoded directly: {counts(case.direct)}"
    return None


def prefiller_hung(case: Case) -> str | None:
    """Say that a prefill comes too late, and not behind others."""
    timeouts = case.fallback.get("prefill_timeout", 0)
    # a prefiller that hangs may not even say how many wait for it
    queue = "none waits at the prefillers" if case.all_prefillers_counted else "nobody knows how many wait"
    return f"the router gave up {timeouts} prefills, and {queue}" if timeouts else None


def wrong_prefiller(case: Case) -> str | None:
    """The prefiller computed the prompt and LMCache stored nothing of it: it is no sender."""
    return _nothing_stored(case) if case.settled else None


def _nothing_stored(case: Case) -> str | None:
    if not case.long or case.target.transfer != "lmcache-pd" or not case.prefillers:
        return None
    silent = case.without_lmcache(case.target.prefillers)
    failed = any(case.fallback.get(reason) for reason in ("notification_timeout", "prefill_malformed"))
    handed = failed or (case.busy.router is None and case.prefilled_tokens >= case.long_tokens / 2)
    if handed and case.prefilled_tokens > 0 and case.stored_tokens == 0:
        what = f"; {len(silent)} of them show no LMCache at all" if silent else ""
        return (
            f"prefillers computed {case.prefilled_tokens:.0f} tokens and handed none of them to LMCache{what}"
        )
    return None


def wrong_decoder(case: Case) -> str | None:
    """The decoder shows no LMCache, or got a hand-off and asked LMCache for nothing: it is no receiver."""
    if not case.long or case.target.transfer != "lmcache-pd" or not case.decoders:
        return None
    silent = case.without_lmcache(case.target.decoders)
    failed = any(case.fallback.get(reason) for reason in ("notification_timeout", "prefill_timeout"))
    if failed and silent and not case.without_lmcache(case.target.prefillers):
        return f"{len(silent)} of {len(case.decoders)} decoders show no LMCache at all, and prefillers wait for them"
    return _nothing_asked(case, silent) if case.settled else None


def _nothing_asked(case: Case, silent: Sequence[str]) -> str | None:
    if not moved(case) or not case.all_decoders_counted or case.asked_tokens or case.reported_tokens:
        return None
    what = f"; {len(silent)} of them show no LMCache at all" if silent else ""
    return f"decoders took over {long_ones(case)} and asked LMCache for none of their tokens{what}"


def prefill_failed(case: Case) -> str | None:
    """Say that prefills fail."""
    reasons = {reason: number for reason, number in case.fallback.items() if reason.startswith("prefill_")}
    return f"prefills failed: {counts(reasons)}" if reasons else None


def notification_lost(case: Case) -> str | None:
    """Say that hand-offs arrive, and nobody is told."""
    timeouts = case.fallback.get("notification_timeout", 0)
    if timeouts and case.drained_with_hit:
        return (
            f"{timeouts} of {long_ones(case)} got no notification in time, and {case.drained_with_hit} of them had arrived "
            "when they were cleared away"
        )
    return None


def transfer_failed(case: Case) -> str | None:
    """Say that hand-offs do not arrive."""
    if case.target.transfer == "nixl" and case.failed_pulls:
        return f"{case.failed_pulls} transfers of {long_ones(case)} failed"
    timeouts = case.fallback.get("notification_timeout", 0)
    if not timeouts:
        return None
    found = (
        f"nothing was there when {case.drained} were cleared away"
        if case.drained
        else "none was cleared away yet"
    )
    return f"{timeouts} of {long_ones(case)} got no notification in time, and {found}"


def decoder_died(case: Case) -> str | None:
    """Say that a decoder failed within a hand-off."""
    reasons: dict[str, int] = {
        reason: case.fallback[reason]
        for reason in ("decoder_gone", "decode_failed", "landing_failed", "remote_blocks_missing")
        if reason in case.fallback
    }
    return f"decoders failed within a hand-off: {counts(reasons)}" if reasons else None


def keys_differ(case: Case) -> str | None:
    """Say that the KV cache arrived and was not found."""
    if not moved(case):
        return None
    missed = case.hits.get("miss", 0)
    # with NixlConnector the router learns nothing of what was found
    unsaid = case.busy.router is None or case.target.transfer == "nixl"
    by_workers = unsaid and case.all_decoders_counted and case.reported_tokens == 0
    if missed or by_workers:
        what = f"{missed} of {long_ones(case)}" if missed else long_ones(case)
        asked = (
            f"; they looked for {case.asked_tokens:.0f} tokens in LMCache and found none"
            if case.asked_tokens
            else ""
        )
        return f"decoders did not find the KV cache of {what} and computed it again{asked}"
    return None


def partial(case: Case) -> str | None:
    """Say that only a part of the KV cache was found."""
    part = case.hits.get("partial", 0)
    if part:
        return f"decoders found only a part of {part} of {long_ones(case)}: {case.reported_tokens:.0f} of {case.long_tokens} tokens"
    counted = case.busy.router is None and case.all_decoders_counted
    if counted and 0 < case.reported_tokens < 0.8 * case.long_tokens:
        return f"decoders found only {case.reported_tokens:.0f} of {case.long_tokens} tokens"
    return None


def not_loaded(case: Case) -> str | None:
    """Say that the KV cache was reported and not loaded."""
    return _nothing_loaded(case) if case.settled else None


def _nothing_loaded(case: Case) -> str | None:
    if case.not_loading:
        named = ", ".join(f"`{url}`" for url in case.not_loading)
        return f"{named} reports {case.reported_tokens:.0f} tokens as handed over, and LMCache loaded none of them"
    return None


def unreported(case: Case) -> str | None:
    """Nothing tells whether the KV cache was used."""
    if not moved(case) or case.reported_tokens or case.loaded_tokens or case.pulled:
        return None
    # of a hand-off that the router does not judge, nobody knows whether it was used
    judged = sum(number for result, number in case.hits.items() if result != "unreported")
    if case.busy.router is not None and judged < case.disaggregated:
        return f"decoders do not say what they found of {long_ones(case)}, and none of their counters moved"
    return None


def out_of_time(case: Case) -> str | None:
    """Say that the proof ended before what it waits for could be counted."""
    if case.settled:
        return None
    seen = _nothing_stored(case) or _nothing_asked(case, ()) or _nothing_loaded(case)
    return f"{seen}, and {_too_soon(case)}" if seen else None


def _too_soon(case: Case) -> str:
    return f"the limit of {case.target.timeout_seconds:g} seconds left no time for counters that come late"


def nothing_moved(case: Case) -> str | None:
    """Whatever the reason: without a hand-off there is no proof."""
    if not case.long or case.target.threshold_tokens is None or moved(case):
        return None
    if case.busy.router is None and not case.all_prefillers_counted:
        # `unreadable` says so
        return None
    seen = (
        f"the router counted {counts(case.fallback) or 'no decision'}"
        if case.busy.router
        else "no counter moved"
    )
    return f"none of {long_ones(case)} was handed over: {seen}"


def moved(case: Case) -> bool:
    """Whether a prompt was handed over, by whoever can say."""
    if case.busy.router is not None:
        return case.disaggregated > 0
    return bool(case.long) and case.prefilled_tokens > 0


def too_few_notifications(case: Case) -> str | None:
    """Say that not every rank sent its notification."""
    if case.target.transfer != "lmcache-pd" or case.busy.router is None or not case.disaggregated:
        return None
    if case.others:
        # of a hand-off that was under way when the counting began, only a part was counted
        return None
    wanted = case.disaggregated * case.target.tensor_parallel
    if case.notifications < wanted:
        return (
            f"{case.disaggregated} hand-offs with {case.target.tensor_parallel} ranks had {case.notifications} "
            f"notifications, and need {wanted}"
        )
    return None


# Fabric ----------------------------------------------------------------------------------------------------------------


def silent_tcp(case: Case) -> str | None:
    """Say that the KV cache did not cross the EFA."""
    if not case.target.expects_efa or not case.reported_tokens or not case.settled or case.efa_gaps:
        return None
    crossed = case.busy.efa_bytes
    if crossed is not None and crossed < case.least_efa_bytes:
        return (
            f"the KV cache of {case.long_tokens} tokens arrived, and {crossed / 1e6:,.1f} MB crossed the EFA; at least "
            f"{case.least_efa_bytes / 1e6:,.1f} MB must"
        )
    return None


def slow_transfer(case: Case) -> str | None:
    """Say that the KV cache came slowly, where nobody counts EFA traffic."""
    if not case.target.expects_efa or case.busy.efa_bytes is not None or not case.retrieved:
        return None
    speeds = [each.gb_per_second for each in case.retrieved if each.gb_per_second is not None and each.tokens]
    if speeds and max(speeds) < _SLOW_GB_PER_SECOND:
        return f"the fastest of {len(speeds)} retrievals ran at {max(speeds):.2f} GB/s; limit {_SLOW_GB_PER_SECOND:g} GB/s"
    return None


def efa_unread(case: Case) -> str | None:
    """Say that those who were deployed to count do not tell what crossed the EFA."""
    target, crossed = case.target, case.busy.efa_bytes
    if not target.expects_efa or not case.reported_tokens:
        return None
    if crossed is None:
        # a Prometheus may not be for this program to read, and its silence is a note
        named = target.efa_exporters_missing or any(
            url in case.busy.unreadable for url in target.efa_exporters
        )
        return f"nobody counted what crossed the EFA: {'; '.join(case.efa_gaps)}" if named else None
    gaps = case.efa_gaps or (() if case.settled else (_too_soon(case),))
    if crossed < case.least_efa_bytes and gaps:
        return f"{crossed / 1e6:,.1f} MB are known to have crossed the EFA, and not all was counted: {'; '.join(gaps)}"
    return None


# Policies --------------------------------------------------------------------------------------------------------------


def reachable(case: Case) -> str | None:
    """Say that a forbidden connection is possible."""
    if case.tried in (Tried.OPENED, Tried.REFUSED):
        return (
            f"a connection to `{case.target.forbidden}` was {case.tried.value}, although no policy allows it"
        )
    return None


def unreadable(case: Case) -> str | None:
    """Say which workers cannot be read."""
    if case.unanswered:
        return None
    roles = {"prefiller": case.target.prefillers, "decoder": case.target.decoders}
    says = [f"no {role} is known" for role, urls in roles.items() if not urls]
    says += [
        f"`{url}` cannot be read: {case.busy.unreadable[url]}"
        for urls in roles.values()
        for url in urls
        if url in case.busy.unreadable
    ]
    return "; ".join(says) or None


def router_unreadable(case: Case) -> str | None:
    """Say that this project's router does not show what it decided."""
    if not case.target.router_metrics or case.busy.router is not None or case.unanswered:
        return None
    return f"`{case.target.url}` shows no counters: {case.busy.unreadable.get(case.target.url, 'not read')}"


def long_ones(case: Case) -> str:
    """Return how many long prompts there were, and how long."""
    longest = max((sent.prompt_tokens or 0 for sent in case.long), default=0)
    return f"{len(case.long)} prompts of up to {longest} tokens"


def counts(reasons: Mapping[str, int]) -> str:
    """Return reasons with their counts."""
    return ", ".join(f"`{reason}` {number}" for reason, number in sorted(reasons.items()))
