"""What runs inside a worker: command, arguments, configuration files, environment, ports, resources and probes.

Pure Python: no Kubernetes object is made here. One object per role, computed from the deployment alone.
"""

from hyperpod_dpd.serving.engine.configuration import engine_configuration
from hyperpod_dpd.serving.engine.values import (
    ConfigFile,
    EngineConfiguration,
    EnvironmentVariable,
    PortRange,
    Probe,
    Probes,
    Resources,
    ScratchDirectory,
    Variant,
)

__all__ = [
    "ConfigFile",
    "EngineConfiguration",
    "EnvironmentVariable",
    "PortRange",
    "Probe",
    "Probes",
    "Resources",
    "ScratchDirectory",
    "Variant",
    "engine_configuration",
]
