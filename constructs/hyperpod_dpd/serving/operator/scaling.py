"""`pdSpec.autoScalingSpec`: limits and signals of each role, in the custom resource's own spelling."""

from typing import Any, Final

from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.serving.load_signals import Signal, signals
from hyperpod_dpd.serving.names import workers_namespace
from hyperpod_dpd.spec import Deployment, Role, Scaling

_FIELDS: Final = {Role.PREFILL: "prefillAutoScaling", Role.DECODE: "decodingAutoScaling"}
"""The custom resource says `decoding`, not `decode`."""


def auto_scaling_spec(deployment: Deployment) -> dict[str, Any] | None:
    """Return `autoScalingSpec`, or None where no role is scaled."""
    roles = {
        field: _role(deployment, role, scaling)
        for role, field in _FIELDS.items()
        if (scaling := deployment.serving.worker(role).scaling) is not None
    }
    return roles or None


def _role(deployment: Deployment, role: Role, scaling: Scaling) -> dict[str, Any]:
    return {
        "minReplicaCount": scaling.minimum,
        "maxReplicaCount": scaling.maximum,
        "scaleUpStabilizationTime": scaling.scale_up_stabilization_seconds,
        "scaleDownStabilizationTime": scaling.stabilization_seconds,
        "prometheusTriggerList": [_trigger(deployment, role, signal) for signal in signals(scaling)],
    }


def _trigger(deployment: Deployment, role: Role, signal: Signal) -> dict[str, Any]:
    return {
        "name": signal.name,
        "metricType": "Average",
        "serverAddress": Binding.AMP_WORKSPACE_URL.placeholder,
        "query": signal.query(_selector(deployment, role)),
        "targetValue": signal.target,
    }


def _selector(deployment: Deployment, role: Role) -> str:
    """The operator scrapes its own pods, which it calls by their role; it does not know this project's labels."""
    return f'namespace="{workers_namespace(deployment)}",pod=~"{role.value}-.*"'
