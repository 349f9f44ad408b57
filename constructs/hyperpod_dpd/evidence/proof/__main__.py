"""The program of the proof Job: text on standard error, one line of JSON on standard output, an exit code.

0: proved. 1: not proved. 2: it could not be tried.
"""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from hyperpod_dpd.evidence.proof.kubernetes import Api, Pod
from hyperpod_dpd.evidence.proof.options import Options, Place, parse, with_key
from hyperpod_dpd.evidence.proof.result import ProofResult
from hyperpod_dpd.evidence.proof.run import Logs, prove

TERMINATION_BYTES: Final = 4096
"""What a kubelet keeps of a termination message."""

TERMINATION_PATH: Final = Path("/dev/termination-log")


def main(arguments: Sequence[str]) -> int:
    """Prove what `arguments` name, and return the exit code."""
    given = parse(arguments)
    try:
        api = Api.in_cluster() if given.prefill is not None or given.event else None
        given, logs = _found(given, api)
    except OSError as error:
        _end(f"the proof could not be tried: {error}")
        return 2
    result = prove(given.target, logs=logs, say=_say)
    sys.stdout.write(json.dumps(result.as_dict()) + "\n")
    lines = list(result.lines())
    _say("\n".join(lines))
    if given.event and api is not None:
        _tell(api, result)
    _end(_summary(result), quiet=True)
    return 0 if result.proved else 1


def _found(given: Options, api: Api | None) -> tuple[Options, Logs | None]:
    """Return the options with the addresses that only the cluster knows, and what reads the decoders' logs."""
    target = with_key(given)
    logs: Logs | None = None
    if api is not None and given.prefill is not None and given.decode is not None:
        senders, receivers = api.pods(given.prefill), api.pods(given.decode)
        prefill, decode = _addressed(senders), _addressed(receivers)
        target = replace(
            target,
            prefillers=tuple(pod.url(given.prefill.port) for pod in prefill),
            decoders=tuple(pod.url(given.decode.port) for pod in decode),
            without_address=tuple(pod.name for pod in (*senders, *receivers) if not pod.address),
        )
        if given.exporters is not None:
            nodes = {pod.node for pod in prefill}
            exporters = [pod for pod in _addressed(api.pods(given.exporters)) if pod.node in nodes]
            blind = nodes - {pod.node for pod in exporters}
            target = replace(
                target,
                efa_exporters=tuple(pod.url(given.exporters.port) for pod in exporters),
                efa_exporters_missing=f"no exporter's pod runs on {len(blind)} of the {len(nodes)} nodes of the prefillers"
                if blind
                else "",
            )
        if given.forbidden_port is not None and decode:
            address = decode[0].url(given.forbidden_port).removeprefix("http://")
            target = replace(target, forbidden=address)
        if given.log_container:
            logs = _reader(api, given.decode, decode, given.log_container)
    return replace(given, target=target), logs


def _addressed(pods: Sequence[Pod]) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if pod.address)


def _reader(api: Api, place: Place, pods: Sequence[Pod], container: str) -> Logs:
    def read(seconds: float) -> str:
        return "\n".join(
            api.log(place, pod, name, seconds=seconds)
            for pod in pods
            for name in pod.containers
            if name.startswith(container)
        )

    return read


def _tell(api: Api, result: ProofResult) -> None:
    namespace, job = os.environ.get("POD_NAMESPACE", ""), os.environ.get("JOB_NAME", "")
    try:
        api.tell(namespace=namespace, job=job, proved=result.proved, message=_summary(result))
    except OSError as error:
        _say(f"note: the Event could not be created: {error}")


def _summary(result: ProofResult) -> str:
    if result.proved:
        return f"proved in {result.seconds:.0f} s by {'; '.join(result.sources)}"
    return "\n".join(str(finding) for finding in result.findings)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _end(text: str, *, quiet: bool = False) -> None:
    """Leave `text` where whoever waits for the Job reads it."""
    if not quiet:
        _say(text)
    # only a pod has the file, and it may not make one elsewhere
    if TERMINATION_PATH.exists():
        TERMINATION_PATH.write_bytes(text.encode()[:TERMINATION_BYTES])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
