"""What one role of a disaggregated deployment has on a cluster: its workers, the Service over them, their scaling."""

from typing import Final, Literal

from constructs import Construct

from hyperpod_dpd.derive import RoleFacts, resolve
from hyperpod_dpd.derive.backend import on_backend
from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.autoscaling import WorkerScaling
from hyperpod_dpd.serving.engine import engine_configuration
from hyperpod_dpd.serving.names import Component
from hyperpod_dpd.serving.worker import Placement, Workers, WorkerService, generation_label
from hyperpod_dpd.spec import Deployment, Role
from hyperpod_dpd.spec.arguments import checked

_OPPOSITE: Final = {Component.PREFILL: Component.DECODE, Component.DECODE: Component.PREFILL}


class RoleWorkers(Construct):
    """The workers of one role, the headless Service that finds them, and their autoscaling where the role scales.

    For a cdk8s chart of your own, beside a router of your own. What the objects rely on is not part of it: namespace,
    ServiceAccount and network policies, and KEDA's TriggerAuthentication where the role scales. `ProfileCharts` has all
    of it, and the router.

    Attributes:
        namespace: namespace of every object.
        service_account: name of the ServiceAccount that the pods want there.
        service: name of the Service; its EndpointSlices list the workers that are ready.
        progress_deadline_seconds: longest time until one of the workers has been replaced and serves.
    """

    namespace: str
    service_account: str
    service: str
    progress_deadline_seconds: int

    @checked
    def __init__(self, scope: Construct, construct_id: str, *, deployment: Deployment, role: Role) -> None:
        """Create the objects.

        Args:
            scope: chart that takes the objects.
            construct_id: id of this construct in `scope`.
            deployment: the deployment, which the rules have let through.
            role: `prefill` or `decode`.

        Raises:
            UnresolvedError: something that the deployment names does not exist or does not go together.
            ValueError: `role` is `colocated`; such workers are part of a baseline.
        """
        super().__init__(scope, construct_id)
        if role is Role.COLOCATED:
            raise ValueError(
                "no workers of one role: given `role: colocated`, limit `prefill` or `decode`. "
                "help: `ProfileCharts` makes the colocated workers of a baseline"
            )
        deployment = on_backend(deployment, "self-managed")
        component = Component(role.value)
        facts = resolve(deployment)
        engine = engine_configuration(deployment, role)
        WorkerService(
            self,
            "service",
            deployment=deployment,
            component=component,
            generation=generation_label(engine),
        )
        workers = Workers(
            self,
            "workers",
            deployment=deployment,
            component=component,
            engine=engine,
            placement=_placement(
                facts.role(role), component, shared=facts.prefill.group == facts.decode.group
            ),
        )
        scaling = facts.role(role).worker.scaling
        if scaling is not None:
            WorkerScaling(
                self,
                "scaling",
                deployment=deployment,
                component=component,
                scaling=scaling,
                drain_seconds=workers.grace_seconds,
            )
        self.namespace = names.workers_namespace(deployment)
        self.service_account = names.WORKER_SERVICE_ACCOUNT
        self.service = names.worker_service(role)
        self.progress_deadline_seconds = workers.progress_deadline_seconds


def surge(place: RoleFacts, replicas: int, *, shared: bool) -> Literal[0, 1]:
    """Return whether the instance group surely holds one more worker.

    A whole-node worker never counts on it: a spare node is for a node that fails. On a group that both roles share,
    the free GPUs may be on a node of the other role.
    """
    slots = place.group.count * place.workers_per_node
    return 1 if not place.whole_node and not shared and slots > replicas else 0


def _placement(place: RoleFacts, component: Component, *, shared: bool) -> Placement:
    scaling = place.worker.scaling
    return Placement(
        group=place.group,
        replicas=place.replicas,
        scaled=scaling is not None,
        surge=surge(place, scaling.maximum if scaling else place.replicas, shared=shared),
        avoids=_OPPOSITE[component],
    )
