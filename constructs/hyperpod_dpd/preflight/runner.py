"""Ask every question at once, and wait for none of them longer than agreed."""

import queue
import threading
import time
from collections.abc import Callable, Sequence

from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.preflight.failure import Failure, Kind, explain
from hyperpod_dpd.preflight.report import Outcome, Report
from hyperpod_dpd.rules.finding import Finding, Problem, Severity
from hyperpod_dpd.spec import Deployment

DEFAULT_TIMEOUT_SECONDS = 30.0
"""Longest time that a check may take: three times the slowest single call."""

Listener = Callable[[Outcome], None]


def preflight(
    deployment: Deployment,
    account: Account,
    *,
    checks: Sequence[Check],
    gate: Check,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    done: Listener = lambda _outcome: None,
) -> Report:
    """Run `gate`, then every one of `checks` that applies to `deployment`, all at the same time.

    Without credentials or network every answer would be the same, and in another account every answer would be about
    something else, so that nothing more is asked once `gate` meets that. Nothing that AWS answers makes this raise: it
    becomes a gap in the report.

    Args:
        deployment: What is to be deployed.
        account: Where.
        checks: Questions.
        gate: The question that is asked first, alone.
        timeout_seconds: Longest time that a check may take. One that takes longer is reported and left behind.
        done: Called in this thread for each check that is over, in the order in which they end.
    """
    chosen = [check for check in checks if check.applies(deployment)]
    outcomes: dict[str, Outcome] = {}

    def note(outcome: Outcome) -> None:
        outcomes[outcome.check.id] = outcome
        done(outcome)

    hopeless = _run([gate], deployment, account, timeout_seconds, note)
    if hopeless is None and not outcomes[gate.id].findings:
        _run(chosen, deployment, account, timeout_seconds, note)
    else:
        for check in chosen:
            note(Outcome(check=check, asked=False))
    return Report(outcomes=tuple(outcomes[key] for key in sorted(outcomes)))


def _run(
    checks: Sequence[Check], deployment: Deployment, account: Account, timeout_seconds: float, done: Listener
) -> Failure | None:
    """Run `checks` in threads; return a failure that no other call can escape, when there was one."""
    over: queue.Queue[tuple[Outcome, Failure | None]] = queue.Queue()
    waiting = {check.id: check for check in checks}
    started = time.monotonic()
    for check in checks:
        # daemons: a call that hangs must not keep the process from ending
        threading.Thread(
            target=lambda check=check: over.put(_ask(check, deployment, account)),
            name=check.id,
            daemon=True,
        ).start()
    hopeless = None
    while waiting:
        left = timeout_seconds - (time.monotonic() - started)
        try:
            outcome, failure = over.get(timeout=max(left, 0))
        except queue.Empty:
            break
        del waiting[outcome.check.id]
        hopeless = hopeless or failure
        done(outcome)
    for check in waiting.values():
        late = _late(timeout_seconds)
        hopeless = hopeless or late
        done(Outcome(check=check, gaps=(late.gap(_subject(check)),), seconds=timeout_seconds))
    return hopeless


def _ask(check: Check, deployment: Deployment, account: Account) -> tuple[Outcome, Failure | None]:
    started = time.monotonic()
    findings: list[Finding] = []
    gaps: list[Gap] = []
    hopeless = None
    try:
        for answer in check.look(deployment, account):
            if isinstance(answer, Problem):
                findings.append(Finding(rule=check.id, severity=Severity.ERROR, problem=answer))
            else:
                gaps.append(answer)
    except Exception as error:  # noqa: BLE001 - whatever AWS answers, the other checks have something to say
        failure = explain(error)
        gaps.append(failure.gap(_subject(check)))
        hopeless = failure if failure.hopeless else None
    outcome = Outcome(
        check=check, findings=tuple(findings), gaps=tuple(gaps), seconds=time.monotonic() - started
    )
    return outcome, hopeless


def _late(timeout_seconds: float) -> Failure:
    return Failure(
        kind=Kind.NETWORK,
        why=f"no answer within {timeout_seconds:g} seconds",
        fix="run it again, or give a longer `--timeout`",
    )


def _subject(check: Check) -> str:
    return f"that {check.title}"
