"""Profiles: complete renderings of a deployment, one of which is on the cluster at a time."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Literal

from cdk8s import App, Chart

from hyperpod_dpd.derive import RoleFacts, ServingFacts, resolve
from hyperpod_dpd.derive.backend import on_backend
from hyperpod_dpd.observability.jobs import SERVING_JOBS
from hyperpod_dpd.observability.monitors import AlertRules, Monitors
from hyperpod_dpd.observability.rules import rule_groups
from hyperpod_dpd.rules.check import Report, check
from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.admission import WorkerAdmission
from hyperpod_dpd.serving.autoscaling import MetricsAuthentication
from hyperpod_dpd.serving.engine import EngineConfiguration, Variant, engine_configuration
from hyperpod_dpd.serving.engine.values import Peer
from hyperpod_dpd.serving.flows import HandOff, Ports, flows
from hyperpod_dpd.serving.model_delivery import ModelVolume
from hyperpod_dpd.serving.names import Component
from hyperpod_dpd.serving.namespaces import Namespaces
from hyperpod_dpd.serving.network_policies import NetworkPolicies
from hyperpod_dpd.serving.operator import InferenceEndpoint
from hyperpod_dpd.serving.role_workers import RoleWorkers, surge
from hyperpod_dpd.serving.router import Router, RouterIngress
from hyperpod_dpd.serving.router_arguments import router_arguments
from hyperpod_dpd.serving.secrets import Secrets, has_secrets
from hyperpod_dpd.serving.worker import (
    Placement,
    Workers,
    WorkerService,
    WorkerServiceAccount,
    generation_label,
    worker_image,
)
from hyperpod_dpd.spec import Deployment, FsxSource, Role
from hyperpod_dpd.spec.arguments import checked


class Profile(StrEnum):
    """What is rendered of a deployment. All profiles use the same names, so that one replaces the other."""

    SELF_MANAGED = "self-managed"
    """Prefill and decode workers, and the router that hands over between them."""

    BASELINE = "baseline"
    """Colocated workers with vLLM's own defaults on the same GPUs, behind the same router."""

    BASELINE_TUNED = "baseline-tuned"
    """The same with a small token budget per step."""

    OPERATOR = "operator"
    """One custom resource, from which AWS's operator makes prefill and decode workers and its own router."""

    OPERATOR_BASELINE = "operator-baseline"
    """The same resource without its disaggregation, with as many colocated replicas as it had workers."""

    @property
    def backend(self) -> Literal["operator", "self-managed"]:
        """Backend that runs it."""
        return "operator" if self in {Profile.OPERATOR, Profile.OPERATOR_BASELINE} else "self-managed"


def expressible(deployment: Deployment, profile: Profile) -> Report:
    """Return what the rules say about `deployment` on the backend of `profile`.

    A profile of the other backend reads the same file with one word changed. It may be rendered only where the report
    has no errors: what a backend cannot say is refused, never left out.
    """
    return check(on_backend(deployment, profile.backend))


@checked
def profiles_of(deployment: Deployment) -> tuple[Profile, ...]:
    """Return the profiles of both back ends that can say everything that `deployment` says."""
    speaks = {
        backend: not expressible(deployment, profile).errors
        for backend, profile in (("self-managed", Profile.SELF_MANAGED), ("operator", Profile.OPERATOR))
    }
    return tuple(profile for profile in Profile if speaks[profile.backend])


@checked
def profile_of(deployment: Deployment) -> Profile:
    """Return the profile that serves `deployment` on its own backend."""
    return Profile.OPERATOR if deployment.serving.backend == "operator" else Profile.SELF_MANAGED


def chosen_profile(deployment: Deployment, name: str | None) -> Profile:
    """Return the profile called `name`, by default the one that serves.

    Raises:
        ValueError: there is no such profile, or it is the other backend's: that is a migration, not a measurement.
    """
    serving = profile_of(deployment)
    if name is None:
        return serving
    possible = [profile for profile in Profile if profile.backend == serving.backend]
    if name not in possible:
        listed = ", ".join(f"`{profile}`" for profile in possible)
        raise ValueError(
            f"no profile `{name}` of `backend: {deployment.serving.backend}`. help: its profiles are {listed}"
        )
    return Profile(name)


class ProfileCharts:
    """The charts of one profile. A chart is a file: one concept, a page long."""

    @checked
    def __init__(self, app: App, *, deployment: Deployment, profile: Profile) -> None:
        """Add the charts of `profile` to `app`.

        Raises:
            UnresolvedError: something that the deployment names does not exist or does not go together.
            ValueError: the load balancer cannot wait for the longest answer.
        """
        self._app = app
        self._deployment = on_backend(deployment, profile.backend)
        self._facts = resolve(self._deployment)
        match profile:
            case Profile.SELF_MANAGED:
                self._disaggregated()
            case Profile.BASELINE:
                self._colocated(Variant.BASELINE)
            case Profile.BASELINE_TUNED:
                self._colocated(Variant.TUNED)
            case Profile.OPERATOR:
                self._operated(disaggregates=True)
            case Profile.OPERATOR_BASELINE:
                self._operated(disaggregates=False)

    def _chart(self, name: str) -> Chart:
        return Chart(self._app, name, disable_resource_name_hashes=True)

    def _disaggregated(self) -> None:
        engines = {
            component: engine_configuration(self._deployment, Role(component.value))
            for component in (Component.PREFILL, Component.DECODE)
        }
        self._common(engines)
        if any(place.worker.scaling for place in (self._facts.prefill, self._facts.decode)):
            MetricsAuthentication(self._chart("autoscaling"), "authentication", deployment=self._deployment)
        made = [
            RoleWorkers(
                self._chart(component.value),
                "workers",
                deployment=self._deployment,
                role=Role(component.value),
            )
            for component in engines
        ]
        self._router(made, decoders=Component.DECODE, disaggregates=True)

    def _colocated(self, variant: Variant) -> None:
        places = _colocated_places(self._facts)
        engines = [
            engine_configuration(self._deployment, Role.COLOCATED, variant=variant, nodes=place.role)
            for place, _ in places
        ]
        self._common({Component.COLOCATED: engines[0]})
        chart = self._chart(Component.COLOCATED.value)
        self._service(chart, Component.COLOCATED, engines[0])
        made = [
            Workers(
                chart,
                place.role.value,
                deployment=self._deployment,
                component=Component.COLOCATED,
                engine=engine,
                placement=Placement(
                    group=place.group, replicas=replicas, surge=surge(place, replicas, shared=False)
                ),
                # one Deployment per instance group; both are needed where prefill and decode have different nodes
                name=f"{Component.COLOCATED.value}-{place.role.value}" if len(places) > 1 else None,
            )
            for (place, replicas), engine in zip(places, engines, strict=True)
        ]
        self._router(made, decoders=Component.COLOCATED, disaggregates=False)

    def _operated(self, *, disaggregates: bool) -> None:
        """The operator brings workers, policies and router; this project the namespaces and what it knows."""
        deployment = self._deployment
        Namespaces(self._chart("namespaces"), "namespaces", deployment=deployment, operated=True)
        if has_secrets(deployment):
            Secrets(self._chart("secrets"), "secrets", deployment=deployment)
        InferenceEndpoint(
            self._chart("endpoint"),
            "endpoint",
            deployment=deployment,
            facts=self._facts,
            disaggregates=disaggregates,
        )

    def _common(self, engines: dict[Component, EngineConfiguration]) -> None:
        deployment = self._deployment
        Namespaces(self._chart("namespaces"), "namespaces", deployment=deployment)
        images = tuple(dict.fromkeys(worker_image(engine) for engine in engines.values()))
        WorkerAdmission(self._chart("admission"), "admission", deployment=deployment, images=images)
        NetworkPolicies(
            self._chart("network-policies"),
            "policies",
            deployment=deployment,
            flows=flows(deployment, tuple(engines), tuple(_hand_offs(engines))),
        )
        if has_secrets(deployment):
            Secrets(self._chart("secrets"), "secrets", deployment=deployment)
        source = deployment.model.source
        if isinstance(source, FsxSource):
            ModelVolume(self._chart("model"), "model", deployment=deployment, source=source)
        WorkerServiceAccount(self._chart("workers"), "account", deployment=deployment)
        if deployment.platform.scraping == "prometheus-operator":
            self._monitoring(tuple(engines))

    def _monitoring(self, workers: tuple[Component, ...]) -> None:
        """Say how to scrape and when to alert, where a Prometheus operator is there to read it."""
        chart, deployment = self._chart("monitoring"), self._deployment
        places = {
            Component.ROUTER: names.system_namespace(deployment),
            **dict.fromkeys(workers, names.workers_namespace(deployment)),
        }
        jobs = tuple((job, places[job.component]) for job in SERVING_JOBS if job.component in places)
        Monitors(chart, "monitors", deployment=deployment, jobs=jobs)
        groups = rule_groups(deployment, disaggregates=Component.COLOCATED not in workers)
        AlertRules(chart, "rules", deployment=deployment, groups=groups)

    def _service(self, chart: Chart, component: Component, engine: EngineConfiguration) -> None:
        WorkerService(
            chart,
            "service",
            deployment=self._deployment,
            component=component,
            generation=generation_label(engine),
        )

    def _router(
        self, workers: Sequence[Workers | RoleWorkers], *, decoders: Component, disaggregates: bool
    ) -> None:
        chart = self._chart(Component.ROUTER.value)
        arguments = router_arguments(
            self._deployment, self._facts, decoders=decoders, disaggregates=disaggregates
        )
        router = Router(
            chart,
            "router",
            deployment=self._deployment,
            arguments=arguments,
            decoder_within_seconds=max(each.progress_deadline_seconds for each in workers),
        )
        balancer = self._deployment.routing.load_balancer
        if balancer is not None:
            RouterIngress(
                chart, "ingress", deployment=self._deployment, service=router.service, balancer=balancer
            )


def _colocated_places(facts: ServingFacts) -> list[tuple[RoleFacts, int]]:
    """Return where colocated workers run: as many on each instance group as disaggregated serving has there."""
    prefill, decode = facts.prefill, facts.decode
    if prefill.group.name == decode.group.name:
        return [(prefill, prefill.replicas + decode.replicas)]
    return [(prefill, prefill.replicas), (decode, decode.replicas)]


def _hand_offs(engines: dict[Component, EngineConfiguration]) -> Iterator[HandOff]:
    """Yield who connects to whom, from the ports that each engine says are for the other role."""
    for component, engine in engines.items():
        for peer in (Peer.PREFILL, Peer.DECODE):
            ranges = tuple(
                Ports(first=ports.first, last=ports.last) for ports in engine.ports if peer in ports.peers
            )
            if ranges:
                yield HandOff(source=Component(peer.value), destination=component, ports=ranges)
