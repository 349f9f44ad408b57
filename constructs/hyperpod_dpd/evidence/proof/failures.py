"""Every failure that a proof can tell, with its most likely cause.

`FAILURES` is a table, most telling first. Within a topic only the first failure that applies is reported: a hand-off
whose keys differ also loads nothing, and only the former is worth reading.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from hyperpod_dpd.evidence.proof import seen
from hyperpod_dpd.evidence.proof.case import Case
from hyperpod_dpd.evidence.proof.result import Finding


class Topic(StrEnum):
    """What a failure is about."""

    ANSWER = "answers"
    SHORT = "short prompt"
    LONG = "long prompts"
    FABRIC = "fabric"
    POLICY = "policies"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One way in which a deployment is not what it looks like.

    Attributes:
        id: short name.
        topic: what it is about; of a topic, the first that applies is told.
        seen: what was seen, with its numbers; None where it does not apply.
        cause: what it most likely comes from.
        rules: ids of the rules that prevent it.
        fix: what to do.
        runbook: name of the alert whose runbook goes on from there.
    """

    id: str
    topic: Topic
    seen: Callable[[Case], str | None]
    cause: str
    rules: tuple[str, ...]
    fix: str
    runbook: str = ""


_OF_A_HAND_OFF = frozenset({Topic.LONG, Topic.FABRIC})


def diagnose(case: Case) -> Iterator[Finding]:
    """Yield what is wrong, one finding per topic at most."""
    told = set()
    for failure in FAILURES:
        if failure.topic in told or (failure.topic in _OF_A_HAND_OFF and not case.wants_hand_off):
            continue
        says = failure.seen(case)
        if says is None:
            continue
        told.add(failure.topic)
        # without answers nothing can have been handed over: saying so again would only hide the reason
        if failure.topic is Topic.ANSWER:
            told |= {Topic.SHORT, Topic.LONG, Topic.FABRIC}
        yield Finding(
            id=failure.id,
            says=says,
            cause=failure.cause,
            rules=failure.rules,
            fix=failure.fix,
            runbook=failure.runbook,
        )


_LOOK_ROLE = "compare `--kv-transfer-config` and `pd_role` of the pods with the rendered ones"

FAILURES: tuple[Failure, ...] = (
    Failure(
        id="no-decoder",
        topic=Topic.ANSWER,
        seen=seen.no_decoder,
        cause="no decoder is ready, or a policy keeps the router from them",
        rules=("DPD-LINT-501",),
        fix="look at the decode pods and their events; `dpd status` shows both",
        runbook="DpdNoDecoder",
    ),
    Failure(
        id="router-full",
        topic=Topic.ANSWER,
        seen=seen.router_full,
        cause="other clients have filled the router's limits of requests or bytes",
        rules=(),
        fix="prove again without load, or raise `routing.max_concurrent_requests`",
    ),
    Failure(
        id="prompt-refused",
        topic=Topic.ANSWER,
        seen=seen.refused,
        cause="another model name or context length than deployed, or a missing API key",
        rules=("DPD-SRV-005",),
        fix="ask `/v1/models` for the name; give the key that the endpoint wants",
    ),
    Failure(
        id="prefill-queue",
        topic=Topic.ANSWER,
        seen=seen.prefill_queue,
        cause="more prompts arrive than the prefillers compute, or they are much slower than planned",
        rules=("DPD-SRV-004",),
        fix="prove again without load; add prefillers (`dpd plan` says how many) or raise the threshold",
        runbook="DpdPrefillQueueGrowing",
    ),
    Failure(
        id="no-answer",
        topic=Topic.ANSWER,
        seen=seen.no_answer,
        cause="the router or a worker hangs; LMCache 0.4.3 waits for a dead decoder without a limit",
        rules=("DPD-SRV-108",),
        fix="look at the router's log for the request, restart the worker that it waits for",
        runbook="DpdPrefillerHung",
    ),
    Failure(
        id="bad-answer",
        topic=Topic.ANSWER,
        seen=seen.bad_answer,
        cause="a worker fails, or what answers is not this deployment",
        rules=(),
        fix="look at the workers' logs",
    ),
    Failure(
        id="threshold-inverted",
        topic=Topic.SHORT,
        seen=seen.short_disaggregated,
        cause="the router's threshold is 0 or far below the deployed one; in llm-d 0 means never, here it means always",
        rules=("DPD-SRV-406", "DPD-LINT-406"),
        fix="restore the router's `--threshold`",
        runbook="DpdDecisionsOneSided",
    ),
    Failure(
        id="short-unknown",
        topic=Topic.SHORT,
        seen=seen.short_unknown,
        cause="what counts prompts could not be read, or began anew while the prompt was there",
        rules=("DPD-LINT-501",),
        fix="prove again; look at the pods that are named",
    ),
    Failure(
        id="threshold-out-of-reach",
        topic=Topic.LONG,
        seen=seen.out_of_reach,
        cause="the threshold is as high as the context is long, so that nothing is ever handed over",
        rules=("DPD-LINT-407",),
        fix="lower `routing.threshold_tokens`, or raise the context length",
        runbook="DpdDecisionsOneSided",
    ),
    Failure(
        id="threshold-too-high",
        topic=Topic.LONG,
        seen=seen.kept_local,
        cause="the router runs with a higher threshold than deployed, or with `never`, or finds no prefillers",
        rules=("DPD-LINT-407", "DPD-SRV-406"),
        fix="restore the router's `--threshold` (operator: `routingThreshold`)",
        runbook="DpdDecisionsOneSided",
    ),
    Failure(
        id="buffer-too-small",
        topic=Topic.LONG,
        seen=seen.exceeds_buffer,
        cause="the PD buffer of the decoders does not hold the chunks of one long prompt, or others fill it",
        rules=("DPD-SRV-104", "DPD-SRV-004"),
        fix="raise `serving.transfer.pd_buffer_gib` until `dpd check` finds nothing, for both roles",
        runbook="DpdPdBufferLeak",
    ),
    Failure(
        id="buffer-unlike-deployed",
        topic=Topic.LONG,
        seen=seen.buffer_unlike,
        cause="router and decoders were deployed with different PD buffers, and the sender finds no room",
        rules=("DPD-LINT-403", "DPD-SRV-104"),
        fix="deploy router and workers from the same rendering",
        runbook="DpdTransferStuck",
    ),
    Failure(
        id="buffer-lost",
        topic=Topic.LONG,
        seen=seen.buffer_leaked,
        cause="a decoder reports hits and does not load them (second model runner), or a killed router left hand-offs behind",
        rules=("DPD-SRV-515", "DPD-SRV-115"),
        fix="restart the decoders; restore `VLLM_USE_V2_MODEL_RUNNER=0` and `skip_last_n_tokens: 1`",
        runbook="DpdPdBufferLost",
    ),
    Failure(
        id="other-router",
        topic=Topic.LONG,
        seen=seen.other_router,
        cause="the router of before finishes long answers, or a second router runs in the deployment's namespace",
        rules=("DPD-LINT-402",),
        fix="prove again when its pod is gone; without one, look for a second Deployment of the router",
    ),
    Failure(
        id="pair-broken",
        topic=Topic.LONG,
        seen=seen.pair_broken,
        cause="a decoder restarted at its old address and ports, and prefillers hold the old connection",
        rules=("DPD-SRV-112",),
        fix="prove again in a minute; if it stays, restart the decoders",
        runbook="DpdPairBroken",
    ),
    Failure(
        id="no-prefiller",
        topic=Topic.LONG,
        seen=seen.no_prefiller,
        cause="no prefiller is ready, or a policy keeps the router from them",
        rules=("DPD-LINT-501",),
        fix="look at the prefill pods and their events",
        runbook="DpdPrefillWorkersMissing",
    ),
    Failure(
        id="models-differ",
        topic=Topic.LONG,
        seen=seen.models_differ,
        cause="prefillers and decoders serve different models or names",
        rules=("DPD-SRV-005", "DPD-SRV-215"),
        fix="deploy both roles from the same rendering",
        runbook="DpdKvNotReused",
    ),
    Failure(
        id="wrong-role-prefill",
        topic=Topic.LONG,
        seen=seen.wrong_prefiller,
        cause="what is called a prefiller is no sender: wrong role, or no KV connector",
        rules=("DPD-LINT-124", "DPD-LINT-125"),
        fix=_LOOK_ROLE,
        runbook="DpdTransferStuck",
    ),
    Failure(
        id="wrong-role-decode",
        topic=Topic.LONG,
        seen=seen.wrong_decoder,
        cause="what is called a decoder is no receiver: wrong role, or no KV connector",
        rules=("DPD-LINT-124", "DPD-LINT-125"),
        fix=_LOOK_ROLE,
        runbook="DpdKvNotReused",
    ),
    Failure(
        id="prefiller-hung",
        topic=Topic.LONG,
        seen=seen.prefiller_hung,
        cause="the prefiller waits for an answer of a decoder that is gone (LMCache 0.4.3 without a limit)",
        rules=("DPD-SRV-108",),
        fix="restart the prefiller",
        runbook="DpdPrefillerHung",
    ),
    Failure(
        id="prefill-failed",
        topic=Topic.LONG,
        seen=seen.prefill_failed,
        cause="prefillers refuse or break the router's request: another version, role or model",
        rules=("DPD-SRV-109", "DPD-LINT-124"),
        fix="look at the prefillers' logs",
        runbook="DpdPrefillWorkersMissing",
    ),
    Failure(
        id="notification-lost",
        topic=Topic.LONG,
        seen=seen.notification_lost,
        cause="the bytes arrive and the router is not told: `pd_proxy_host` or its port is wrong, or a policy closes it",
        rules=("DPD-SRV-112", "DPD-SRV-111", "DPD-LINT-501"),
        fix="compare `pd_proxy_host` and `pd_proxy_port` with the router's Service; look at the policies",
        runbook="DpdTransferStuck",
    ),
    Failure(
        id="transfer-failed",
        topic=Topic.LONG,
        seen=seen.transfer_failed,
        cause="NIXL runs UCX instead of LIBFABRIC, EFA was not requested, a policy closes the decoder's PD ports, or the "
        "decoder has no room",
        rules=("DPD-SRV-006", "DPD-SRV-301", "DPD-LINT-501", "DPD-SRV-104"),
        fix="look for `NIXL_ERR` and `Failed to allocate` in the prefillers' logs",
        runbook="DpdTransferStuck",
    ),
    Failure(
        id="decoder-died",
        topic=Topic.LONG,
        seen=seen.decoder_died,
        cause="a decoder ended while it held a hand-off",
        rules=(),
        fix="look at the decoders' previous logs",
        runbook="DpdNoDecoder",
    ),
    Failure(
        id="not-handed-over",
        topic=Topic.LONG,
        seen=seen.not_eligible,
        cause="the router cannot hand this prompt over; its reason says why",
        rules=(),
        fix="look the reason up in router/README.md",
    ),
    Failure(
        id="too-few-notifications",
        topic=Topic.LONG,
        seen=seen.too_few_notifications,
        cause="the router waits for fewer ranks than there are: it asks the decoder before the KV cache is complete",
        rules=("DPD-SRV-103", "DPD-SRV-120"),
        fix="restore the router's `--tensor-parallel`",
        runbook="DpdKvNotReused",
    ),
    Failure(
        id="keys-differ",
        topic=Topic.LONG,
        seen=seen.keys_differ,
        cause="both roles hash differently: `PYTHONHASHSEED` is missing or not the same, or model path or chunk size differ",
        rules=("DPD-SRV-107", "DPD-SRV-005"),
        fix="compare `PYTHONHASHSEED`, `--model` and `chunk_size` of a prefill and a decode pod, and restart both roles",
        runbook="DpdKvNotReused",
    ),
    Failure(
        id="partial-hit",
        topic=Topic.LONG,
        seen=seen.partial,
        cause="the last chunk is dropped (`discard_partial_chunks`), or chunk or block sizes differ",
        rules=("DPD-SRV-116", "DPD-SRV-115", "DPD-SRV-005"),
        fix="restore `discard_partial_chunks: false` and `skip_last_n_tokens: 1`, equal chunk sizes on both roles",
        runbook="DpdPdBufferLeak",
    ),
    Failure(
        id="reported-not-loaded",
        topic=Topic.LONG,
        seen=seen.not_loaded,
        cause="vLLM's second model runner skips the load in full CUDA graphs: answers come from unwritten memory",
        rules=("DPD-SRV-515", "DPD-LINT-216"),
        fix="set the threshold to `never` at once, restore `VLLM_USE_V2_MODEL_RUNNER=0`, restart the decoders",
        runbook="DpdKvReportedNotLoaded",
    ),
    Failure(
        id="use-unknown",
        topic=Topic.LONG,
        seen=seen.unreported,
        cause="decoders run without `--enable-prompt-tokens-details`, and without LMCache's counters",
        rules=("DPD-SRV-005",),
        fix="restore the rendered arguments and `PROMETHEUS_MULTIPROC_DIR`",
        runbook="DpdKvNotReused",
    ),
    Failure(
        id="out-of-time",
        topic=Topic.LONG,
        seen=seen.out_of_time,
        cause="prompts took nearly all the time that the proof has, and LMCache writes its counters every ten seconds",
        rules=(),
        fix="prove again without load, or give the proof more time (`--timeout`)",
    ),
    Failure(
        id="nothing-moved",
        topic=Topic.LONG,
        seen=seen.nothing_moved,
        cause="the router lost its workers meanwhile, or another router answers",
        rules=(),
        fix="prove again; look at the router's log",
    ),
    Failure(
        id="worker-unreadable",
        topic=Topic.LONG,
        seen=seen.unreadable,
        cause="the worker is not ready or began anew, or a policy keeps this program from it",
        rules=("DPD-LINT-501",),
        fix="look at the pod; its part of the proof is missing",
    ),
    Failure(
        id="router-unreadable",
        topic=Topic.LONG,
        seen=seen.router_unreadable,
        cause="what answers at this address is not this project's router, or the router began anew",
        rules=("DPD-LINT-501",),
        fix="give the address of the router itself; prove again",
    ),
    Failure(
        id="silent-tcp",
        topic=Topic.FABRIC,
        seen=seen.silent_tcp,
        cause="NIXL moves the KV cache over TCP: its backend is UCX, or the pods did not request `vpc.amazonaws.com/efa`",
        rules=("DPD-SRV-006", "DPD-SRV-301", "DPD-SRV-211"),
        fix="look for the backend's name in the workers' first log lines, and for EFA devices in the pods' requests",
        runbook="DpdEfaIdle",
    ),
    Failure(
        id="slow-transfer",
        topic=Topic.FABRIC,
        seen=seen.slow_transfer,
        cause="EFA is not used: another zone, or `vpc.amazonaws.com/efa` was not given to the pods",
        rules=("DPD-SRV-301", "DPD-SRV-006"),
        fix="`kubectl describe node` shows the EFA devices that are allocated",
        runbook="DpdEfaIdle",
    ),
    Failure(
        id="efa-unread",
        topic=Topic.FABRIC,
        seen=seen.efa_unread,
        cause="the exporters of the prefillers' nodes are not there, see no EFA device, or a policy keeps this program from "
        "them; the KV cache may cross TCP",
        rules=("DPD-SRV-301", "DPD-LINT-501"),
        fix="look at the `efa-exporter` pods and their logs, and at the nodes' EFA devices",
        runbook="DpdEfaIdle",
    ),
    Failure(
        id="policies-not-enforced",
        topic=Topic.POLICY,
        seen=seen.reachable,
        cause="the CNI does not enforce NetworkPolicies, or another policy opens everything",
        rules=("DPD-K8S-006", "DPD-K8S-002"),
        fix="set `platform.network_policies: enforced` where the add-on's configuration is owned, and restart the nodes' CNI",
    ),
)
"""Every failure that a proof can tell, most telling first within its topic."""
