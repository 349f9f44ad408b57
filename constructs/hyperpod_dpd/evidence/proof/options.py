"""The proof's command line: the same for the Job on the cluster and for a proof by hand."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hyperpod_dpd.evidence.proof.api_key import first_key
from hyperpod_dpd.evidence.proof.target import CHAT, COMPLETIONS, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Pods on the cluster: where they are, and how to tell them.

    Attributes:
        namespace: namespace of the pods.
        selector: labels as the API server takes them.
        port: port of their metrics.
    """

    namespace: str
    selector: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A target, and where the addresses that it lacks are found.

    Attributes:
        target: what is proven; without workers where these are found on the cluster.
        prefill: prefill pods; None: the target has their URLs.
        decode: decode pods.
        exporters: pods that count EFA traffic, of which those on the prefillers' nodes are read.
        forbidden_port: port of the first decoder that must not be reachable.
        log_container: beginning of the name of the containers whose logs are read; empty: logs are not read.
        api_key_file: file with bearer keys, one a line.
        event: whether a Kubernetes Event tells the verdict.
    """

    target: Target
    prefill: Place | None = None
    decode: Place | None = None
    exporters: Place | None = None
    forbidden_port: int | None = None
    log_container: str = ""
    api_key_file: Path | None = None
    event: bool = False


def parse(arguments: Sequence[str]) -> Options:
    """Return what `arguments` ask for.

    Raises:
        SystemExit: they cannot be understood; argparse has said why.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    found = given.workers_namespace is not None
    if found and not (given.prefill_selector and given.decode_selector):
        parser.error("`--workers-namespace` needs `--prefill-selector` and `--decode-selector`")
    if found and (given.prefiller or given.decoder):
        parser.error("give `--workers-namespace`, or `--prefiller` and `--decoder`, and not both")

    def place(selector: str) -> Place | None:
        return (
            Place(namespace=given.workers_namespace, selector=selector, port=given.worker_port)
            if found
            else None
        )

    exporters = None
    if given.exporters_namespace is not None:
        exporters = Place(
            namespace=given.exporters_namespace, selector=given.exporters_selector, port=given.exporters_port
        )
    return Options(
        target=_target(given),
        prefill=place(given.prefill_selector),
        decode=place(given.decode_selector),
        exporters=exporters,
        forbidden_port=given.forbidden_port,
        log_container=given.log_container,
        api_key_file=given.api_key_file,
        event=given.event,
    )


def with_key(options: Options) -> Target:
    """Return the target with the first key of the file that `options` name, if any.

    Raises:
        OSError: the file cannot be read, or has no key.
    """
    if options.api_key_file is None:
        return options.target
    return replace(options.target, api_key=first_key(options.api_key_file))


def _target(given: argparse.Namespace) -> Target:
    return Target(
        url=given.url,
        model=given.model,
        prefillers=tuple(given.prefiller),
        decoders=tuple(given.decoder),
        threshold_tokens=given.threshold,
        path=given.path,
        router_metrics=given.router_metrics,
        transfer=given.transfer,
        tensor_parallel=given.tensor_parallel,
        chunk_tokens=given.chunk_tokens,
        max_model_len_tokens=given.max_model_len,
        buffer_chunks=given.buffer_chunks,
        kv_bytes_per_token=given.kv_bytes_per_token,
        efa_exporters=tuple(given.efa_exporter),
        efa_query_url=given.efa_query_url,
        efa_query_region=given.efa_query_region,
        expects_efa=given.efa,
        forbidden=given.forbidden,
        company_seconds=given.company_seconds,
        timeout_seconds=given.timeout_seconds,
        request_seconds=given.request_seconds,
        drain_seconds=given.drain_seconds,
        statistics_seconds=given.statistics_seconds,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="proof", description="Send prompts and judge whether their KV cache moved.", allow_abbrev=False
    )
    flag: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
    parser.add_argument("--url", required=True, type=_url, help="base URL of the endpoint")
    parser.add_argument("--model", required=True, help="name under which the model is served")
    parser.add_argument("--threshold", required=True, type=_threshold, help="tokens, or `never`")
    parser.add_argument("--path", choices=(COMPLETIONS, CHAT), default=COMPLETIONS)
    parser.add_argument("--router-metrics", default=True, help="read the router's `/metrics`", **flag)
    parser.add_argument("--prefiller", type=_url, action="append", default=[], help="URL; repeat it")
    parser.add_argument("--decoder", type=_url, action="append", default=[], help="URL; repeat it")
    parser.add_argument("--workers-namespace", help="find the workers' pods here instead")
    parser.add_argument("--prefill-selector", default="", help="labels of the prefill pods")
    parser.add_argument("--decode-selector", default="", help="labels of the decode pods")
    parser.add_argument("--worker-port", type=_count, default=8000)
    parser.add_argument("--transfer", choices=("lmcache-pd", "nixl"), default="lmcache-pd")
    parser.add_argument("--tensor-parallel", type=_count, default=1)
    parser.add_argument("--chunk-tokens", type=_count, default=256)
    parser.add_argument("--max-model-len", type=_count, default=16_384)
    parser.add_argument("--buffer-chunks", type=_count)
    parser.add_argument("--kv-bytes-per-token", type=_count, help="of all ranks")
    parser.add_argument("--efa", default=True, help="the KV cache must cross the EFA", **flag)
    parser.add_argument("--efa-exporter", type=_url, action="append", default=[], help="URL; repeat it")
    parser.add_argument("--exporters-namespace", help="find the exporters' pods here")
    parser.add_argument("--exporters-selector", default="")
    parser.add_argument("--exporters-port", type=_count, default=9119)
    parser.add_argument("--efa-query-url", type=_url, help="a Prometheus that has the EFA counters")
    parser.add_argument("--efa-query-region", help="sign requests to it for this region")
    parser.add_argument("--forbidden", help="`host:port` that must not be reachable")
    parser.add_argument("--forbidden-port", type=_count, help="of the first decoder")
    parser.add_argument("--log-container", default="", help="read the logs of the decoders' containers")
    parser.add_argument("--api-key-file", type=Path)
    parser.add_argument("--event", action="store_true", help="tell the verdict in a Kubernetes Event")
    parser.add_argument(
        "--company-seconds", type=_seconds, default=0.0, help="wait for another router to end"
    )
    parser.add_argument("--timeout-seconds", type=_seconds, default=240.0)
    parser.add_argument("--request-seconds", type=_seconds, default=90.0)
    parser.add_argument("--drain-seconds", type=_seconds, default=60.0)
    parser.add_argument(
        "--statistics-seconds", type=_seconds, default=25.0, help="workers show what they did within this"
    )
    return parser


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"`{text}` does not begin with `http://` or `https://`")
    return text.rstrip("/")


def _threshold(text: str) -> int | None:
    if text == "never":
        return None
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"`{text}` is neither a number of tokens nor `never`")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number from 1 on")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number of seconds up to 3600")
    return seconds
