"""Autoscaling of self-managed workers with KEDA, on metrics in Amazon Managed Service for Prometheus."""

from typing import Any, Final

from constructs import Construct

from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.serving.load_signals import Signal, scraped_selector, signals
from hyperpod_dpd.serving.names import Component
from hyperpod_dpd.serving.objects import api_object
from hyperpod_dpd.spec import Deployment, Role, Scaling

API_VERSION: Final = "keda.sh/v1alpha1"

AUTHENTICATION: Final = "managed-prometheus"
"""TriggerAuthentication that every ScaledObject of a deployment refers to."""

_POLLING_SECONDS: Final = 30
"""As often as the metrics are scraped; asking more often reads the same sample."""

_FAILED_QUERIES: Final = 3
"""Queries without an answer after which the fallback holds: a minute and a half, longer than a restart of AMP's
collector."""

_LONGEST_PERIOD_SECONDS: Final = 1800
"""Kubernetes' limit of `periodSeconds` in a scaling policy."""


class MetricsAuthentication(Construct):
    """How KEDA signs its queries: with the role of its own ServiceAccount (SigV4), without a key in the cluster."""

    def __init__(self, scope: Construct, construct_id: str, *, deployment: Deployment) -> None:
        super().__init__(scope, construct_id)
        api_object(
            self,
            "authentication",
            api_version=API_VERSION,
            kind="TriggerAuthentication",
            name=AUTHENTICATION,
            namespace=names.workers_namespace(deployment),
            labels=names.labels(deployment),
            spec={"podIdentity": {"provider": "aws", "identityOwner": "keda"}},
        )


class WorkerScaling(Construct):
    """Scales the workers of one role between two limits.

    More workers come as soon as load has stayed high; fewer come one by one, each after the time that one may take
    to drain: the pod's own preStop hook waits until nothing that it works on would be lost. Without metrics the role
    keeps its workers, and at least those that the deployment names.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        component: Component,
        scaling: Scaling,
        drain_seconds: int,
    ) -> None:
        """Create the ScaledObject.

        Args:
            scope: chart that takes the object.
            construct_id: id of this construct in `scope`.
            deployment: the deployment.
            component: role of the workers, `prefill` or `decode`.
            scaling: the limits.
            drain_seconds: longest time that a worker may take to end.
        """
        super().__init__(scope, construct_id)
        role = Role(component.value)
        api_object(
            self,
            "scaled-object",
            api_version=API_VERSION,
            kind="ScaledObject",
            name=component.value,
            namespace=names.workers_namespace(deployment),
            labels=names.labels(deployment, component),
            spec={
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": component.value},
                "minReplicaCount": scaling.minimum,
                "maxReplicaCount": scaling.maximum,
                "pollingInterval": _POLLING_SECONDS,
                "fallback": {
                    "failureThreshold": _FAILED_QUERIES,
                    "replicas": deployment.serving.worker(role).replicas,
                    # metrics that are gone say nothing about the load: never end a worker for it
                    "behavior": "currentReplicasIfHigher",
                },
                "advanced": {
                    "restoreToOriginalReplicaCount": False,
                    "horizontalPodAutoscalerConfig": {"behavior": _behavior(scaling, drain_seconds)},
                },
                "triggers": [_trigger(deployment, role, signal) for signal in signals(scaling)],
            },
        )


def _behavior(scaling: Scaling, drain_seconds: int) -> dict[str, Any]:
    one_by_one = {"type": "Pods", "value": 1, "periodSeconds": min(drain_seconds, _LONGEST_PERIOD_SECONDS)}
    return {
        "scaleUp": {"stabilizationWindowSeconds": scaling.scale_up_stabilization_seconds},
        "scaleDown": {
            "stabilizationWindowSeconds": scaling.stabilization_seconds,
            "policies": [one_by_one],
        },
    }


def _trigger(deployment: Deployment, role: Role, signal: Signal) -> dict[str, Any]:
    return {
        "type": "prometheus",
        "name": signal.name,
        # the sum over all workers divided by their number; KEDA's fallback works with no other type
        "metricType": "AverageValue",
        "authenticationRef": {"name": AUTHENTICATION},
        "metadata": {
            "serverAddress": Binding.AMP_WORKSPACE_URL.placeholder,
            "awsRegion": deployment.region,
            "query": signal.query(scraped_selector(deployment.name, role)),
            "threshold": f"{signal.target:g}",
            # KEDA's own default reads an empty answer as 0 and would end workers that nobody scrapes
            "ignoreNullValues": "false",
        },
    }
