"""What a rehearsal would start, and everything that is wrong with it, before anything is started."""

from collections.abc import Sequence
from pathlib import Path

from hyperpod_dpd.lint.check import lint_documents
from hyperpod_dpd.lint.model import ManifestSet, Router, Worker
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.lint.read import read
from hyperpod_dpd.rehearsal.budgets import refused_budgets
from hyperpod_dpd.rehearsal.nodes import Placement, nodes_of, schedule
from hyperpod_dpd.rehearsal.pods import SECRET_VALUE, PodPlan, read_pods
from hyperpod_dpd.rehearsal.trouble import Kind, Trouble
from hyperpod_dpd.rehearsal.wiring import ServicePlan, services, wiring
from hyperpod_dpd.rules.finding import Finding
from hyperpod_dpd.spec import Deployment, Role
from hyperpod_dpd.spec.value import record


@record
class RehearsalPlan:
    """One profile, read."""

    folder: str
    manifests: ManifestSet
    placements: tuple[Placement, ...]
    services: tuple[ServicePlan, ...]
    troubles: tuple[Trouble, ...]
    """Everything that is wrong. Nothing is started while there is one."""

    notes: tuple[str, ...]
    """What is left out or stands in for something."""

    @property
    def pods(self) -> tuple[PodPlan, ...]:
        """Pods of every workload that has a node."""
        return tuple(placement.plan for placement in self.placements)

    @property
    def workers(self) -> tuple[tuple[Worker, int], ...]:
        """Its engines, each with how many pods have it."""
        return tuple((each.worker, each.replicas) for each in self.pods if each.worker is not None)

    @property
    def routers(self) -> tuple[Router, ...]:
        """What clients talk to."""
        return tuple(each.router for each in self.pods if each.router is not None)

    @property
    def roles(self) -> frozenset[Role]:
        """Roles of its engines."""
        return frozenset(worker.role for worker, _ in self.workers)

    @property
    def disaggregates(self) -> bool:
        """Whether anything is handed over."""
        return Role.PREFILL in self.roles

    @property
    def served_model(self) -> str:
        """Name under which the engines serve their model."""
        first, _ = self.workers[0]
        return first.arguments.value("--served-model-name") or ""

    @property
    def api_key(self) -> str | None:
        """Key that a router asks its clients for; None where none does."""
        asks = any(router.arguments.last("--api-keys-file") is not None for router in self.routers)
        return SECRET_VALUE if asks else None


def plan_rehearsal(folders: Sequence[Path], deployment: Deployment) -> RehearsalPlan:
    """Read the manifests below `folders` as one set, and schedule them on the nodes of `deployment`.

    Raises:
        UnreadableManifestError: with every file that is not YAML text.
    """
    return plan_documents(read(folders), deployment, folder=", ".join(map(str, folders)))


def plan_documents(documents: tuple[Node, ...], deployment: Deployment, *, folder: str) -> RehearsalPlan:
    """Plan documents that were read already, from `folder`."""
    report = lint_documents(documents)
    manifests = report.manifests
    pods = read_pods(manifests)
    placements, unplaced = schedule(pods.plans, nodes_of(deployment))
    found, leading_nowhere = services(manifests, pods.plans)
    return RehearsalPlan(
        folder=folder,
        manifests=manifests,
        placements=tuple(placements),
        services=tuple(found),
        troubles=(
            *map(_from_finding, report.errors),
            *pods.troubles,
            *unplaced,
            *leading_nowhere,
            *wiring(manifests, pods.plans, found),
            *refused_budgets(manifests),
            *_without_pods(manifests, folder, pods.plans),
        ),
        notes=pods.notes,
    )


def _from_finding(finding: Finding) -> Trouble:
    says, _, fix = finding.message.partition(". help: ")
    return Trouble(
        kind=Kind.RULE, says=says, fix=fix, file=finding.file, line=finding.line, rule=finding.rule
    )


def _without_pods(manifests: ManifestSet, folder: str, plans: Sequence[object]) -> tuple[Trouble, ...]:
    if plans:
        return ()
    operated = ", ".join(f"`{each.name}`" for each in manifests.operator_endpoints)
    says = (
        f"the pods of {operated} are made by the HyperPod inference operator, which does not run here"
        if operated
        else "there is no Deployment, StatefulSet or Pod to start"
    )
    return (
        Trouble(
            kind=Kind.ELSEWHERE,
            says=says,
            fix="rehearse the profile `self-managed` or `baseline` of the same deployment",
            file=folder,
        ),
    )
