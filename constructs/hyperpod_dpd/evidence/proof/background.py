"""Work beside the main thread that an interruption need not wait for."""

import threading
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Task(Generic[_T]):
    """A job in a thread of its own, which does not keep the process from ending.

    An executor's threads would: whoever presses Ctrl-C would wait for the slowest worker.
    """

    def __init__(self, job: Callable[[], _T]) -> None:
        self._results: list[_T] = []
        self._error: BaseException | None = None
        self._job = job
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._results.append(self._job())
        except BaseException as error:  # noqa: BLE001 - raised again where the result is wanted
            self._error = error

    def has_ended(self, *, within_seconds: float) -> bool:
        """Wait for so long at most, and return whether it is over."""
        self._thread.join(within_seconds)
        return not self._thread.is_alive()

    def result(self) -> _T:
        """Wait, and return what the job has returned or raise what it has raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._results[0]


def concurrently(jobs: Mapping[str, Callable[[], _T]]) -> tuple[dict[str, _T], dict[str, str]]:
    """Run jobs that end by themselves at the same time; return results and the texts of their errors, by name."""
    tasks = {name: Task(job) for name, job in jobs.items()}
    results: dict[str, _T] = {}
    failures: dict[str, str] = {}
    for name, task in tasks.items():
        try:
            results[name] = task.result()
        except (OSError, ValueError) as error:
            failures[name] = str(error)
    return results, failures
