"""One run of genai-bench in a process of its own: locust and gevent change a process for good."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from hyperpod_dpd.evidence.benchmark.settings import Settings
from hyperpod_dpd.evidence.results import PATHS, UNKNOWN, Request

RECORDER: Final = "hyperpod_dpd.evidence.benchmark.recorded"
_SAID_CHARACTERS: Final = 2000


class RunFailedError(Exception):
    """genai-bench has ended without a complete record."""


def drive(
    settings: Settings,
    folder: Path,
    *,
    tokenizer: Path,
    trusts_any_certificate: bool = False,
    concurrency: int,
    seed: str,
    requests: int,
) -> tuple[tuple[Request, ...], str]:
    """Send `requests` requests with `concurrency` users; return the requests and the digest of their prompts.

    Raises:
        RunFailedError: genai-bench failed; the message holds the end of what it said.
    """
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / "requests.jsonl"
    command = [sys.executable, "-m", RECORDER, str(record)]
    command += arguments(settings, folder, tokenizer=tokenizer, concurrency=concurrency, requests=requests)
    done = subprocess.run(  # noqa: S603 - our own module
        command,
        env={
            **_environment(settings, folder, seed=seed, prompts=requests),
            **({"BENCH_TRUST_ANY_CERTIFICATE": "yes"} if trusts_any_certificate else {}),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RunFailedError(
            f"genai-bench ended with {done.returncode}: {done.stdout[-_SAID_CHARACTERS:].strip()}"
        )
    return read_record(record.read_text(encoding="utf-8"))


def arguments(
    settings: Settings, folder: Path, *, tokenizer: Path, concurrency: int, requests: int
) -> tuple[str, ...]:
    """Return the options of genai-bench: those of the announcement, with what it needs to send what it says."""
    return (
        # with `openai` genai-bench drops `ignore_eos`, and answers end when the model wants
        "--api-backend", "vllm",
        "--api-base", settings.url,
        "--api-key", "unused",
        "--api-model-name", settings.model,
        "--model-tokenizer", str(tokenizer),
        "--task", "text-to-text",
        "--traffic-scenario", f"D({settings.input_tokens},{settings.output_tokens})",
        "--max-requests-per-run", str(requests),
        "--max-time-per-run", str(settings.run_minutes),
        "--num-concurrency", str(concurrency),
        "--experiment-base-dir", str(folder),
        "--experiment-folder-name", "genai-bench",
        "--log-dir", str(folder),
    )  # fmt: skip


def _environment(settings: Settings, folder: Path, *, seed: str, prompts: int) -> dict[str, str]:
    key = settings.api_key()
    return {
        **os.environ,
        "BENCH_SEED": seed,
        "BENCH_PROMPTS": str(prompts),
        **({"BENCH_API_KEY": key} if key else {}),
        "ENABLE_UI": "false",
        # the root file system is read-only
        "MPLCONFIGDIR": str(folder / "matplotlib"),
        "HF_HOME": str(folder / "huggingface"),
        "HF_HUB_OFFLINE": "1",
    }


def read_record(text: str) -> tuple[tuple[Request, ...], str]:
    """Return the requests of a record, in the order of their start, and the digest of their prompts.

    Raises:
        RunFailedError: the record is not complete.
    """
    try:
        lines: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
        last = lines.pop() if lines else {}
        digest = last.get("prompts_digest")
        begin = min((line["start"] for line in lines), default=None)
        if digest is None or begin is None:
            raise RunFailedError("the record of the requests is not complete")
        requests = tuple(_request(line, begin) for line in sorted(lines, key=lambda line: line["start"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunFailedError(f"the record of the requests cannot be read: {error!r}") from error
    return requests, digest


def _request(line: dict[str, Any], begin: float) -> Request:
    decision = line["decision"]
    first, end = line.get("first"), line.get("end")
    start = line["start"]
    return Request(
        path=decision if decision in PATHS else UNKNOWN,
        start_seconds=round(start - begin, 6),
        ttft_seconds=None if first is None else round(first - start, 6),
        e2e_seconds=None if end is None else round(end - start, 6),
        prompt_tokens=line.get("prompt_tokens"),
        output_tokens=line.get("output_tokens"),
        cached_tokens=line.get("cached_tokens"),
        error=line["error"],
    )
