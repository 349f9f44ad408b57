"""What follows from a deployment: resolved once here, read by rules, rendering and plan."""

from hyperpod_dpd.derive.engine import EffectiveEngine, effective_engine
from hyperpod_dpd.derive.geometry import UnreadableModelError, geometry_of, read_config
from hyperpod_dpd.derive.obstacle import Obstacle, UnresolvedError
from hyperpod_dpd.derive.ports import DecodePorts, decode_ports
from hyperpod_dpd.derive.serving import RoleFacts, ServingFacts, resolve, resolve_or_none

__all__ = [
    "DecodePorts",
    "EffectiveEngine",
    "Obstacle",
    "RoleFacts",
    "ServingFacts",
    "UnreadableModelError",
    "UnresolvedError",
    "decode_ports",
    "effective_engine",
    "geometry_of",
    "read_config",
    "resolve",
    "resolve_or_none",
]
