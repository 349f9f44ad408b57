"""Ask every source at once."""

import threading
from collections.abc import Mapping

from hyperpod_dpd.preflight.failure import explain
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.status.observation import Answer, Section, Snapshot, Source, Unseen
from hyperpod_dpd.status.outside import Outside
from hyperpod_dpd.status.sources import SOURCES


def look(deployment: Deployment, outside: Outside, sources: Mapping[str, Source] = SOURCES) -> Snapshot:
    """Return how `deployment` is doing. Nothing that is answered makes this raise: it becomes something unseen."""
    try:
        _ = outside.account.account_id
    except Exception as error:  # noqa: BLE001 - whatever keeps AWS from answering is the answer
        gap = _unseen("anything in the account", error)
        return Snapshot(at=outside.now(), sections=(Section(title="account", answers=(gap,)),))
    answers: dict[str, tuple[Answer, ...]] = {}

    def ask(title: str, source: Source) -> None:
        answers[title] = _ask(title, source, deployment, outside)

    # daemons: an executor's threads would let whoever presses Ctrl-C wait for the slowest answer
    threads = [threading.Thread(target=ask, args=each, daemon=True) for each in sources.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Snapshot(
        at=outside.now(),
        sections=tuple(Section(title=title, answers=answers[title]) for title in sources),
    )


def _ask(title: str, source: Source, deployment: Deployment, outside: Outside) -> tuple[Answer, ...]:
    found: list[Answer] = []
    try:
        # one by one: what was seen before a call is refused still counts
        for answer in source(deployment, outside):
            found.append(answer)  # noqa: PERF402
    except Exception as error:  # noqa: BLE001 - the other sources have something to say
        found.append(_unseen(f"the rest of {title}" if found else title, error))
    return tuple(found)


def _unseen(what: str, error: Exception) -> Unseen:
    failure = explain(error)
    help_text = "" if failure.needs else f". help: {failure.fix}"
    return Unseen(what=what, why=f"{failure.why}{help_text}", needs=failure.needs)
