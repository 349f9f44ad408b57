"""The proof itself: send, count, wait until what is awaited has been counted, judge."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from hyperpod_dpd.evidence.proof import prompts
from hyperpod_dpd.evidence.proof.background import Task
from hyperpod_dpd.evidence.proof.case import Case
from hyperpod_dpd.evidence.proof.connection import attempt
from hyperpod_dpd.evidence.proof.failures import diagnose
from hyperpod_dpd.evidence.proof.logs import retrievals
from hyperpod_dpd.evidence.proof.observe import READ_SECONDS, Reading, read, waiting_at
from hyperpod_dpd.evidence.proof.report import notes, numbers, sources
from hyperpod_dpd.evidence.proof.result import ProofResult, Verdict
from hyperpod_dpd.evidence.proof.send import Sent, send
from hyperpod_dpd.evidence.proof.target import Target
from hyperpod_dpd.evidence.proof.web import Deadline, NoAnswerError
from hyperpod_dpd.evidence.proof.wire import GREETING_SECONDS, find_out

POLL_SECONDS: Final = 0.5
"""Between two readings of counters that have not moved yet."""

ATTEMPTS: Final = 4
"""Times that long prompts are sent until every worker has had one and one was handed over."""

_SHARE_OF_A_READING: Final = 0.1
"""Of the time for a proof, kept for one reading at its end: without counters even the reason of a failure is a guess."""

QUERY_SECONDS: Final = 90.0
"""A Prometheus shows a counter one scrape and one write later: 30 s each at HyperPod's add-on, and a margin."""

Logs = Callable[[float], str]
"""Returns what the decoders have logged in the last so many seconds.

Raises:
    OSError: the logs cannot be read.
"""


def prove(
    target: Target, *, logs: Logs | None = None, say: Callable[[str], None] = lambda _: None
) -> ProofResult:
    """Send prompts to `target` and judge what becomes of them.

    Args:
        target: what is proven.
        logs: reads the decoders' logs.
        say: is told what happens.

    Returns:
        A verdict, whatever the workers do, within `target.timeout_seconds` (and `target.company_seconds` before).
    """
    if target.company_seconds > 0:
        _await_end_of_others(target, say)
    started = time.monotonic()
    deadline = Deadline(target.timeout_seconds)
    trying = None
    if target.forbidden is not None:
        say(f"trying a forbidden connection to {target.forbidden}")
        # now, when there is time: one that is given up too soon would pass for blocked
        trying = Task(partial(attempt, target.forbidden, deadline))
    target, spoken = _as_spoken(target, deadline, say)
    say(f"reading the counters of {1 + len(target.prefillers) + len(target.decoders)} processes")
    case = _observed(target, deadline, say)
    extra: list[str] = []
    if trying is not None:
        case = replace(case, tried=trying.result())
    if logs is not None:
        try:
            case = replace(case, retrieved=retrievals(logs(time.monotonic() - started)))
        except OSError as error:
            extra.append(f"the decoders' logs could not be read: {error}")
    findings = tuple(diagnose(case))
    return ProofResult(
        verdict=Verdict.FAILED if findings else Verdict.PROVED,
        findings=findings,
        sources=(*sources(case), *spoken),
        numbers=numbers(case),
        notes=(*notes(case), *extra),
        seconds=time.monotonic() - started,
    )


def _as_spoken(
    target: Target, deadline: Deadline, say: Callable[[str], None]
) -> tuple[Target, tuple[str, ...]]:
    """Return the target with the scheme that AWS's router speaks, and a source that says so; this project's is known."""
    if target.router_metrics:
        return target, ()
    try:
        wire = find_out(target.url, seconds=deadline.at_most(GREETING_SECONDS))
    except NoAnswerError:
        # the first prompt finds that, too, and a finding says so
        return target, ()
    say(f"the endpoint speaks {wire.says}")
    trusting = target.trusts_any_certificate or bool(wire.doubt)
    return replace(target, url=wire.url, trusts_any_certificate=trusting), (f"answers over {wire.says}",)


def _observed(target: Target, deadline: Deadline, say: Callable[[str], None]) -> Case:
    prompts_end = _end_of_prompts(target, deadline)
    before = read(target, deadline)
    words = prompts.short_words(target.threshold_tokens)
    say(f"sending a prompt of {words} words")
    short = send(target, words, prompts_end)
    between = read(target, deadline)
    threshold = target.threshold_tokens
    below = threshold is None or (short.prompt_tokens or 0) < threshold
    case = Case(
        target=target,
        short=short if below or not short.answered else None,
        long=(),
        quiet=between.since(before),
        busy=between.since(between),
        now=between,
    )
    if not short.answered:
        return case
    start, tokens_per_word = between, prompts.MARGIN_OF_A_SHORT_PROMPT * _tokens_per_word((short,))
    for _ in range(ATTEMPTS):
        case = _with_long_prompts(case, start, _long_words(target, tokens_per_word), deadline, say)
        if prompts_end.left < max(sent.seconds for sent in case.long):
            # prompts that are cut off would accuse the endpoint
            break
        if case.is_too_short:
            # now it is known better how many words the context has room for
            tokens_per_word = prompts.MARGIN_OF_A_LONG_PROMPT * _tokens_per_word(case.long)
            start = case.now
        elif case.came_too_late and not case.first_contact:
            # after a deployment two workers meet for the first time, and exchange what they know of their devices
            case = replace(case, first_contact=case.fallback)
            start = case.now
        elif not case.is_worth_another_try:
            break
    return _settled(case, start, deadline)


def _await_end_of_others(target: Target, say: Callable[[str], None]) -> None:
    """Wait until no other router is left: next to one that ends, a new one hands nothing over."""
    deadline = Deadline(target.company_seconds)
    told = False
    while _has_company(read(target, Deadline(READ_SECONDS))) and deadline.left > 0:
        if not told:
            say("waiting for another router to end")
            told = True
        time.sleep(POLL_SECONDS)


def _has_company(now: Reading) -> bool:
    return now.router is not None and now.router.total("dpd_router_other_routers") > 0


def _with_long_prompts(
    case: Case, start: Reading, words: int, deadline: Deadline, say: Callable[[str], None]
) -> Case:
    """Send long prompts, and return the case with what was counted since `start`."""
    target = case.target
    if start is case.now:
        # counted anew, and so are the prompts
        case = replace(case, long=())
    say(f"sending {target.long_prompts} prompts of {words} words at the same time")
    long, waiting = _sent_and_watched(target, words, deadline)
    now = read(target, deadline)
    return replace(
        case,
        long=(*case.long, *long),
        waiting=max(case.waiting, waiting),
        busy=now.since(start),
        now=now,
    )


def _settled(case: Case, start: Reading, deadline: Deadline) -> Case:
    """Return the case once everything that is awaited has been counted, or will not be, or the time is over."""
    began = time.monotonic()
    is_last = False
    while not is_last and (patience := _patience(case)):
        if deadline.left <= POLL_SECONDS:
            return replace(case, settled=False)
        time.sleep(POLL_SECONDS)
        # asked before the reading: what has begun within the time may be from before this machine stood still
        is_last = time.monotonic() - began >= patience
        now = read(case.target, deadline)
        if not deadline.left:
            # it was cut off: whoever is missing in it was only late
            return replace(case, settled=False)
        case = replace(case, busy=now.since(start), now=now)
    return case


def _end_of_prompts(target: Target, deadline: Deadline) -> Deadline:
    return deadline.before(_SHARE_OF_A_READING * target.timeout_seconds)


def _sent_and_watched(target: Target, words: int, deadline: Deadline) -> tuple[tuple[Sent, ...], int]:
    """Send long prompts; return the answers, and how many prompts waited at the prefillers at most.

    Afterwards it would be too late: a prefill that is given up waits no more.
    """
    most = 0
    prompts_end = _end_of_prompts(target, deadline)
    tasks = [Task(partial(send, target, words, prompts_end)) for _ in range(target.long_prompts)]
    have_ended = False
    while not have_ended:
        most = max(most, waiting_at(target.prefillers, deadline))
        have_ended = all(task.has_ended(within_seconds=POLL_SECONDS) for task in tasks)
    return tuple(task.result() for task in tasks), most


def _long_words(target: Target, tokens_per_word: float) -> int:
    return prompts.long_words(
        target.threshold_tokens or 0,
        chunk_tokens=target.chunk_tokens,
        longest_tokens=target.max_model_len_tokens,
        tokens_per_word=tokens_per_word,
    )


def _tokens_per_word(sent: tuple[Sent, ...]) -> float:
    return max((each.prompt_tokens or 0) / each.words for each in sent)


def _patience(case: Case) -> float:
    """Return for how many seconds counters may still come that would tell more than those that are there."""
    if not case.wants_hand_off:
        return 0.0
    target = case.target
    waits = [0.0]
    if case.fallback.get("notification_timeout", 0) > case.drained:
        waits.append(target.drain_seconds)
    handed_over = case.disaggregated if case.busy.router is not None else not case.unanswered
    if (handed_over and _unclear(case)) or (case.fallback and _is_unstored(case)):
        waits.append(target.statistics_seconds)
    moved = case.busy.efa_bytes
    if target.expects_efa and moved is not None and moved < case.least_efa_bytes and case.long_tokens:
        waits.append(
            QUERY_SECONDS if target.efa_query_url and not target.efa_exporters else target.statistics_seconds
        )
    return max(waits)


def _unclear(case: Case) -> bool:
    return _is_unstored(case) or case.reported_tokens == 0 or bool(case.not_loading)


def _is_unstored(case: Case) -> bool:
    return case.target.transfer == "lmcache-pd" and case.stored_tokens == 0
