"""Readings and cases of a proof, written by hand: one of a hand-off in which all is well, and changes of it."""

from dataclasses import replace
from typing import Any

from hyperpod_dpd.evidence.proof import Target
from hyperpod_dpd.evidence.proof.case import Case
from hyperpod_dpd.evidence.proof.failures import diagnose
from hyperpod_dpd.evidence.proof.observe import Reading
from hyperpod_dpd.evidence.proof.samples import Samples
from hyperpod_dpd.evidence.proof.send import Sent

PREFILLER, DECODER = "http://10.0.0.1:8000", "http://10.0.0.2:8000"
EXPORTER = "http://10.0.0.1:9119"
TARGET = Target(
    url="http://router:8081",
    model="m",
    prefillers=(PREFILLER,),
    decoders=(DECODER,),
    threshold_tokens=4096,
    tensor_parallel=8,
)
WELL_PREFILL = "vllm:prompt_tokens_total 4608\nlmcache:num_stored_tokens_total 36864\n"
WELL_DECODE = (
    "vllm:prompt_tokens_total 4608\nvllm:external_prefix_cache_hits_total 4608\nlmcache:num_hit_tokens_total 36864\n"
    "lmcache:num_lookup_tokens_total 4609\n"
)
WELL_ROUTER = (
    'dpd_router_decisions_total{decision="disaggregated",reason="threshold"} 1\n'
    'dpd_router_handoff_hits_total{result="full"} 1\n'
    'dpd_router_notifications_total{kind="expected"} 8\n'
)


def reading(
    router: str | None = WELL_ROUTER,
    prefill: str = WELL_PREFILL,
    decode: str = WELL_DECODE,
    efa_bytes: float | None = None,
) -> Reading:
    return Reading(
        router=None if router is None else Samples.read(router),
        workers={PREFILLER: Samples.read(prefill), DECODER: Samples.read(decode)},
        efa={} if efa_bytes is None else {EXPORTER: Samples.read(f"node_amazonefa_tx_bytes {efa_bytes}\n")},
    )


def case(busy: Reading | None = None, **changes: Any) -> Case:
    counted = busy or reading()
    given = Case(
        target=TARGET,
        short=Sent(words=24, seconds=0.1, status=200, prompt_tokens=30),
        long=(Sent(words=4608, seconds=1, status=200, prompt_tokens=4608),),
        quiet=reading(
            router='dpd_router_decisions_total{decision="direct",reason="below_threshold"} 1\n',
            prefill="",
            decode="",
        ),
        busy=counted,
        now=counted,
    )
    return replace(given, **changes)


def fallback(reason: str) -> Reading:
    return reading(f'dpd_router_decisions_total{{decision="fallback",reason="{reason}"}} 1\n')


def direct(reason: str) -> Reading:
    return reading(
        f'dpd_router_decisions_total{{decision="direct",reason="{reason}"}} 1\n', prefill="", decode=""
    )


def found(given: Case) -> list[str]:
    return [finding.id for finding in diagnose(given)]


def refused(status: int) -> tuple[Sent, ...]:
    return (Sent(words=1, seconds=0.1, status=status, problem=f"status {status}: no"),)
