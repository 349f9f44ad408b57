"""Every way in which a deployment is broken for the proof, and what it must say."""

from dataclasses import dataclass, field
from typing import Any

from dpd_simulator import ConstantStepTimes, EngineConfig, FaultKind, LMCacheConfig
from dpd_simulator.config import NixlConfig, Role
from tests.evidence.rig import NO_NOTIFICATION, NO_PREFILL, Inject, Rig, Setting


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A broken deployment.

    Attributes:
        finding: id of the finding that must come, alone.
        setting: how it was deployed.
        inject: what breaks before the proof.
        target: what the proof is told otherwise.
        says: part of the text.
    """

    finding: str
    setting: Setting = field(default_factory=Setting)
    inject: Inject | None = None
    target: dict[str, Any] = field(default_factory=dict)
    says: str = ""


def fault(kind: FaultKind, role: str, **values: Any) -> Inject:
    async def inject(rig: Rig) -> None:
        await rig.fault(kind, role, **values)

    return inject


async def decoder_down(rig: Rig) -> None:
    await rig.cluster.decoders[0].stop()


async def prefiller_down(rig: Rig) -> None:
    await rig.cluster.prefillers[0].stop()


SMALL_BUFFER = LMCacheConfig(buffer_bytes=3 * LMCacheConfig().chunk_bytes, allocation_timeout_seconds=0.5)
ONE_AT_A_TIME = EngineConfig(max_num_seqs=1)
PREFILL_TAKES_TIME = ConstantStepTimes(prefill_seconds_per_token=0.0005)
BLIND = {"router_metrics": False}

SCENARIOS: dict[str, Scenario] = {
    "silent TCP": Scenario(
        finding="silent-tcp", setting=Setting(silent_fabric=True), says="0.0 MB crossed the EFA"
    ),
    "notifications are lost": Scenario(
        finding="notification-lost",
        setting=Setting(router=NO_NOTIFICATION),
        inject=fault(FaultKind.NOTIFICATION_LOST, "prefill"),
        says="had arrived when they were cleared away",
    ),
    "transfers fail behind a 200": Scenario(
        finding="transfer-failed",
        setting=Setting(router=NO_NOTIFICATION),
        inject=fault(FaultKind.TRANSFER_FAILED, "prefill"),
        says="nothing was there",
    ),
    "KV cache is not reused": Scenario(finding="keys-differ", inject=fault(FaultKind.KV_MISS, "decode")),
    "hash seeds differ": Scenario(
        finding="keys-differ",
        setting=Setting(lmcache=LMCacheConfig(hash_seed=None)),
        says="computed it again; they looked for",
    ),
    "decoder reports what it does not load": Scenario(
        finding="reported-not-loaded", inject=fault(FaultKind.RETRIEVAL_SKIPPED, "decode")
    ),
    "prefill queue grows": Scenario(
        finding="prefill-queue",
        setting=Setting(engine=ONE_AT_A_TIME, step_times=PREFILL_TAKES_TIME),
        # eight of them take 19 s
        inject=fault(FaultKind.SLOW, "prefill", factor=8.0),
        target={"request_seconds": 12},
    ),
    "decoder down": Scenario(
        finding="no-decoder", inject=decoder_down, says="1 of 1 decoders cannot be read"
    ),
    "prefiller down": Scenario(finding="no-prefiller", inject=prefiller_down),
    "prefiller hangs": Scenario(
        finding="prefiller-hung",
        setting=Setting(router=NO_PREFILL),
        inject=fault(FaultKind.HANG, "prefill"),
        says="none waits",
    ),
    "buffer is smaller than a prompt": Scenario(
        finding="buffer-too-small", setting=Setting(lmcache=SMALL_BUFFER), says="a decoder's buffer has 3"
    ),
    "router believes in a larger buffer": Scenario(
        finding="buffer-unlike-deployed",
        setting=Setting(lmcache=SMALL_BUFFER, router={**NO_NOTIFICATION, "decoder-buffer-chunks": "100"}),
        says="for 100 chunks; deployed are 3",
    ),
    "threshold above every prompt": Scenario(
        finding="threshold-too-high", setting=Setting(router={"threshold": "100000"})
    ),
    "threshold as high as the context is long": Scenario(
        finding="threshold-out-of-reach",
        setting=Setting(engine=EngineConfig(max_model_len=540)),
        says="the longest that fit into a context of 540 tokens",
    ),
    "threshold `never`": Scenario(
        finding="threshold-too-high", setting=Setting(router={"threshold": "never"})
    ),
    "threshold 0": Scenario(
        finding="threshold-inverted",
        setting=Setting(
            router={"threshold": "0", "chunk-tokens": "16"}, lmcache=LMCacheConfig(chunk_size_tokens=16)
        ),
        target={"chunk_tokens": 16},
    ),
    "prefiller is a decoder": Scenario(
        finding="wrong-role-prefill",
        setting=Setting(prefill_role=Role.DECODE, router=NO_NOTIFICATION),
        says="handed none of them to LMCache",
    ),
    "prefiller has no connector": Scenario(
        finding="wrong-role-prefill", setting=Setting(prefill_role=Role.COLOCATED), says="no LMCache at all"
    ),
    "decoder has no connector": Scenario(
        finding="wrong-role-decode",
        setting=Setting(decode_role=Role.COLOCATED, router={**NO_NOTIFICATION, **NO_PREFILL}),
        says="1 of 1 decoders show no LMCache",
    ),
    "NixlConnector: transfers fail": Scenario(
        finding="transfer-failed",
        setting=Setting(engine=EngineConfig(nixl=NixlConfig()), router={"transfer": "nixl"}),
        inject=fault(FaultKind.TRANSFER_FAILED, "decode"),
        target={"transfer": "nixl", "expects_efa": False},
        says="transfers of",
    ),
    "operator: KV cache is not reused": Scenario(
        finding="keys-differ", setting=Setting(lmcache=LMCacheConfig(hash_seed=None)), target=BLIND
    ),
    "operator: threshold above every prompt": Scenario(
        finding="threshold-too-high", setting=Setting(router={"threshold": "100000"}), target=BLIND
    ),
    "operator: decoder reports what it does not load": Scenario(
        finding="reported-not-loaded", inject=fault(FaultKind.RETRIEVAL_SKIPPED, "decode"), target=BLIND
    ),
    "operator: prefiller has no connector": Scenario(
        finding="wrong-role-prefill", setting=Setting(prefill_role=Role.COLOCATED), target=BLIND
    ),
    "operator: silent TCP": Scenario(finding="silent-tcp", setting=Setting(silent_fabric=True), target=BLIND),
}
"""By what is broken."""
