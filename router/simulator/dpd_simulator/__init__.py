"""Simulated vLLM engines with LMCache and NIXL prefill-decode hand-off."""

from dpd_simulator.clock import Clock
from dpd_simulator.cluster import NOTIFICATION_PORT, ROUTER_HTTP_PORT, SimulatedCluster
from dpd_simulator.config import (
    GIB,
    KV_BYTES_PER_TOKEN_PER_RANK,
    EngineConfig,
    LMCacheConfig,
    NixlConfig,
    Role,
)
from dpd_simulator.faults import Fault, FaultKind
from dpd_simulator.process import SimulatedEngine
from dpd_simulator.step_times import ConstantStepTimes, StepShape, StepTimes, TabulatedStepTimes
from dpd_simulator.tokenizer import Vocabulary, shared_vocabulary

__all__ = [
    "GIB",
    "KV_BYTES_PER_TOKEN_PER_RANK",
    "NOTIFICATION_PORT",
    "ROUTER_HTTP_PORT",
    "Clock",
    "ConstantStepTimes",
    "EngineConfig",
    "Fault",
    "FaultKind",
    "LMCacheConfig",
    "NixlConfig",
    "Role",
    "SimulatedCluster",
    "SimulatedEngine",
    "StepShape",
    "StepTimes",
    "TabulatedStepTimes",
    "Vocabulary",
    "shared_vocabulary",
]
