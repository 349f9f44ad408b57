"""genai-bench as it is, with a record of every request: how it was served, when, and how many tokens.

usage: python -m hyperpod_dpd.evidence.benchmark.recorded RECORD genai-bench-options...

genai-bench itself keeps neither the headers of an answer nor its cached tokens, draws its prompts from a generator that cannot
be seeded, and forgets what it cuts off at the end of a run. What it sends and how it times an answer stays its own.
The environment says the rest: `BENCH_SEED`, `BENCH_PROMPTS` (how many prompts the digest is of), `BENCH_API_KEY`,
`BENCH_TRUST_ANY_CERTIFICATE`.
"""

import hashlib
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

DECISION_HEADER = "X-DPD-Decision"

_USAGE = b'"usage"'


class Recorder:
    """Writes a line of JSON for every request, and a last one about the prompts."""

    def __init__(self, file: TextIO, *, seed: str, prompts: int) -> None:
        self._file = file
        self._seed = seed
        self._wanted = prompts
        self._made = 0
        self._digest = hashlib.sha256()

    def random(self) -> random.Random:
        """Return the generator of the next prompt: the same for the same seed and number, whoever asks first."""
        self._made += 1
        return random.Random(f"{self._seed}/{self._made}")  # noqa: S311 text, no secrets

    def prompt(self, text: str) -> None:
        """Take a prompt into the digest. More are made the faster a system answers, and are not part of it."""
        if self._made <= self._wanted:
            self._digest.update(text.encode() + b"\0")

    def request(self, **fields: Any) -> None:
        """Write a request."""
        self._file.write(json.dumps(fields) + "\n")
        self._file.flush()

    def end(self) -> None:
        """Write what is known about the prompts; a record without it is not complete."""
        self._file.write(
            json.dumps({"prompts": self._made, "prompts_digest": self._digest.hexdigest()}) + "\n"
        )


def main(arguments: Sequence[str]) -> int:
    """Run genai-bench with `arguments` after the first, which names the record; return the exit code."""
    path, *options = arguments
    # locust patches sockets when it is imported, so it has to be the first
    from genai_bench.cli.cli import cli  # type: ignore[import-not-found]  # noqa: PLC0415

    with Path(path).open("w", encoding="utf-8") as file:
        recorder = Recorder(file, seed=os.environ["BENCH_SEED"], prompts=int(os.environ["BENCH_PROMPTS"]))
        record_prompts(recorder)
        record_requests(recorder)
        if key := os.environ.get("BENCH_API_KEY"):
            # not by an option: genai-bench writes its options into its log and its result
            send_key(key)
        if os.environ.get("BENCH_TRUST_ANY_CERTIFICATE") == "yes":
            trust_any_certificate()
        cli.main(args=["benchmark", *options], prog_name="genai-bench", standalone_mode=False)
        recorder.end()
    return 0


def record_prompts(recorder: Recorder) -> None:
    """Draw prompts from the recorder's generators."""
    from genai_bench.sampling.text import TextSampler  # type: ignore[import-not-found]  # noqa: PLC0415

    original = TextSampler._generate_text_from_dataset  # noqa: SLF001 there is no other way in

    def seeded(self: Any, num_tokens: int, rng: random.Random | None = None) -> str:
        text: str = original(self, num_tokens, rng or recorder.random())
        recorder.prompt(text)
        return text

    TextSampler._generate_text_from_dataset = seeded  # noqa: SLF001


def record_requests(recorder: Recorder) -> None:
    """Write down every request, also one that is cut off."""
    from genai_bench.user.openai_user import OpenAIUser  # type: ignore[import-not-found]  # noqa: PLC0415

    original = OpenAIUser.send_request

    def recorded(self: Any, stream: Any, endpoint: str, payload: dict[str, Any], *rest: Any) -> Any:
        parse_strategy, *others = rest
        seen = Seen()
        start = time.monotonic()
        try:
            answer = original(self, stream, endpoint, payload, seen.parsed_by(parse_strategy), *others)
        except BaseException as error:
            # what is no `Exception` is gevent's way to end a run that has enough answers
            says = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else None
            recorder.request(**_unanswered(start, seen, says))
            raise
        recorder.request(**_answered(start, seen, answer, payload))
        return answer

    OpenAIUser.send_request = recorded


class Seen:
    """What passes by of one answer."""

    def __init__(self) -> None:
        self.decision: str | None = None
        self.usage: dict[str, Any] = {}

    def parsed_by(self, parse: Callable[..., Any]) -> Callable[..., Any]:
        """Return `parse`, looking over its shoulder."""

        def parsed(response: Any, *rest: Any) -> Any:
            self.decision = response.headers.get(DECISION_HEADER)
            lines = response.iter_lines

            def watched(*given: Any, **named: Any) -> Iterator[bytes]:
                for line in lines(*given, **named):
                    if _USAGE in line and line.startswith(b"data: {"):
                        self.usage = json.loads(line[6:]).get("usage") or self.usage
                    yield line

            response.iter_lines = watched
            return parse(response, *rest)

        return parsed


def _unanswered(start: float, seen: Seen, error: str | None) -> dict[str, Any]:
    return {"start": start, "decision": seen.decision, "error": error}


def _answered(start: float, seen: Seen, answer: Any, payload: dict[str, Any]) -> dict[str, Any]:
    if answer.status_code != 200:
        return _unanswered(start, seen, f"{answer.status_code}: {str(answer.error_message)[:200]}")
    details = seen.usage.get("prompt_tokens_details") or {}
    return {
        "start": answer.start_time,
        "decision": seen.decision,
        "error": None,
        "first": answer.time_at_first_token,
        "end": answer.end_time,
        "prompt_tokens": answer.num_prefill_tokens,
        "output_tokens": answer.tokens_received,
        "cached_tokens": details.get("cached_tokens"),
        "ignore_eos": bool(payload.get("ignore_eos")),
    }


def send_key(key: str) -> None:
    """Send `key` with every request."""
    from genai_bench.user.openai_user import OpenAIUser  # noqa: PLC0415

    original = OpenAIUser.on_start

    def started(self: Any) -> None:
        original(self)
        self.headers = {**self.headers, "Authorization": f"Bearer {key}"}

    OpenAIUser.on_start = started


def trust_any_certificate() -> None:
    """Take the endpoint's certificate as it is."""
    from functools import partial  # noqa: PLC0415

    import requests  # noqa: PLC0415 - after locust has patched sockets
    import urllib3  # noqa: PLC0415

    urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    requests.post = partial(requests.post, verify=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
