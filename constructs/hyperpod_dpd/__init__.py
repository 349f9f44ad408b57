"""Disaggregated Prefill and Decode on Amazon SageMaker HyperPod with EKS.

What is listed here is the library; everything else may move (docs/explanation/stability.md). A name is imported when it
is first used, so that reading, checking and planning a deployment start no CDK:

    $ python -c "from hyperpod_dpd import check, load; print(check(load('deployment.yaml').deployment).errors)"
    ()
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hyperpod_dpd._version import __version__ as __version__
    from hyperpod_dpd.builds.runner import BuildRunner as BuildRunner
    from hyperpod_dpd.catalog.row import UnknownCatalogEntryError as UnknownCatalogEntryError
    from hyperpod_dpd.cluster.cluster import DpdCluster as DpdCluster
    from hyperpod_dpd.cluster.dependencies_chart.chart import HyperPodDependencies as HyperPodDependencies
    from hyperpod_dpd.cluster.handle import ClusterHandle as ClusterHandle
    from hyperpod_dpd.cluster.kubectl import Kubectl as Kubectl
    from hyperpod_dpd.derive.obstacle import UnresolvedError as UnresolvedError
    from hyperpod_dpd.derive.serving import RoleFacts as RoleFacts
    from hyperpod_dpd.derive.serving import ServingFacts as ServingFacts
    from hyperpod_dpd.derive.serving import resolve as resolve
    from hyperpod_dpd.evidence.proof_job import render_proof as render_proof
    from hyperpod_dpd.hyperpod.cluster import HyperPodCluster as HyperPodCluster
    from hyperpod_dpd.images.mirror import PublicImageMirror as PublicImageMirror
    from hyperpod_dpd.images.project_images import ProjectImages as ProjectImages
    from hyperpod_dpd.lint.check import LintReport as LintReport
    from hyperpod_dpd.lint.check import lint_manifests as lint_manifests
    from hyperpod_dpd.lint.read import UnreadableManifestError as UnreadableManifestError
    from hyperpod_dpd.network.efa import EfaSecurityGroup as EfaSecurityGroup
    from hyperpod_dpd.network.endpoints import InterfaceEndpoints as InterfaceEndpoints
    from hyperpod_dpd.network.interface import ClusterNetwork as ClusterNetwork
    from hyperpod_dpd.network.interface import ExistingNetwork as ExistingNetwork
    from hyperpod_dpd.network.network import DpdNetwork as DpdNetwork
    from hyperpod_dpd.observability.alert_topic import AlertTopic as AlertTopic
    from hyperpod_dpd.observability.managed_grafana.workspace import ManagedGrafana as ManagedGrafana
    from hyperpod_dpd.observability.managed_rules import ManagedRules as ManagedRules
    from hyperpod_dpd.observability.metrics_workspace import MetricsWorkspace as MetricsWorkspace
    from hyperpod_dpd.observability.platform import PlatformCharts as PlatformCharts
    from hyperpod_dpd.observability.watch.construct import ClusterWatch as ClusterWatch
    from hyperpod_dpd.planner.cost import HourlyBurn as HourlyBurn
    from hyperpod_dpd.planner.cost import UndatedPriceError as UndatedPriceError
    from hyperpod_dpd.planner.cost import hourly_burn as hourly_burn
    from hyperpod_dpd.planner.plan import Plan as Plan
    from hyperpod_dpd.planner.plan import make_plan as make_plan
    from hyperpod_dpd.planner.unplannable import UnplannableError as UnplannableError
    from hyperpod_dpd.readiness.gone import Gone as Gone
    from hyperpod_dpd.readiness.readiness import Readiness as Readiness
    from hyperpod_dpd.readiness.requirements import JobComplete as JobComplete
    from hyperpod_dpd.readiness.requirements import Requirement as Requirement
    from hyperpod_dpd.readiness.requirements import Rollout as Rollout
    from hyperpod_dpd.readiness.requirements import nodes_of as nodes_of
    from hyperpod_dpd.readiness.wait import Wait as Wait
    from hyperpod_dpd.rules.check import DeploymentRefusedError as DeploymentRefusedError
    from hyperpod_dpd.rules.check import Report as Report
    from hyperpod_dpd.rules.check import check as check
    from hyperpod_dpd.rules.check import check_template as check_template
    from hyperpod_dpd.rules.check import refuse_unless_valid as refuse_unless_valid
    from hyperpod_dpd.rules.finding import Finding as Finding
    from hyperpod_dpd.rules.finding import Problem as Problem
    from hyperpod_dpd.rules.finding import Severity as Severity
    from hyperpod_dpd.rules.registry import deployment_rule as deployment_rule
    from hyperpod_dpd.rules.registry import template_rule as template_rule
    from hyperpod_dpd.scaling.budget import MonthlyBudget as MonthlyBudget
    from hyperpod_dpd.scaling.nights_off import NightsOff as NightsOff
    from hyperpod_dpd.security.identities import PodIdentity as PodIdentity
    from hyperpod_dpd.security.logs import logs_key as logs_key
    from hyperpod_dpd.security.rules import TemplateRules as TemplateRules
    from hyperpod_dpd.security.rules import apply_rules as apply_rules
    from hyperpod_dpd.security.rules import warning_id as warning_id
    from hyperpod_dpd.security.secrets import DeploymentSecrets as DeploymentSecrets
    from hyperpod_dpd.serving.bindings import Binding as Binding
    from hyperpod_dpd.serving.bindings import BindingError as BindingError
    from hyperpod_dpd.serving.bindings import bind as bind
    from hyperpod_dpd.serving.helm_chart import required_bindings as required_bindings
    from hyperpod_dpd.serving.helm_chart import write_chart as write_chart
    from hyperpod_dpd.serving.profile import Profile as Profile
    from hyperpod_dpd.serving.profile import ProfileCharts as ProfileCharts
    from hyperpod_dpd.serving.profile import profile_of as profile_of
    from hyperpod_dpd.serving.profile import profiles_of as profiles_of
    from hyperpod_dpd.serving.release import Release as Release
    from hyperpod_dpd.serving.render import Rendering as Rendering
    from hyperpod_dpd.serving.render import render as render
    from hyperpod_dpd.serving.render import render_platform as render_platform
    from hyperpod_dpd.serving.render import write_platform as write_platform
    from hyperpod_dpd.serving.render import write_profiles as write_profiles
    from hyperpod_dpd.serving.role_workers import RoleWorkers as RoleWorkers
    from hyperpod_dpd.serving.rollouts import requirements_of as requirements_of
    from hyperpod_dpd.serving.rollouts import rollout_seconds as rollout_seconds
    from hyperpod_dpd.serving.worker_identity import WorkerIdentity as WorkerIdentity
    from hyperpod_dpd.spec.cluster import Cluster as Cluster
    from hyperpod_dpd.spec.cluster import DependenciesChart as DependenciesChart
    from hyperpod_dpd.spec.cluster import ExistingCluster as ExistingCluster
    from hyperpod_dpd.spec.cluster import SystemNodes as SystemNodes
    from hyperpod_dpd.spec.deployment import Acknowledgement as Acknowledgement
    from hyperpod_dpd.spec.deployment import Deployment as Deployment
    from hyperpod_dpd.spec.deployment import Organization as Organization
    from hyperpod_dpd.spec.deployment import Removal as Removal
    from hyperpod_dpd.spec.hyperpod import HyperPod as HyperPod
    from hyperpod_dpd.spec.hyperpod import InstanceGroup as InstanceGroup
    from hyperpod_dpd.spec.hyperpod import OnDemand as OnDemand
    from hyperpod_dpd.spec.hyperpod import Role as Role
    from hyperpod_dpd.spec.hyperpod import Spot as Spot
    from hyperpod_dpd.spec.hyperpod import Taint as Taint
    from hyperpod_dpd.spec.hyperpod import TrainingPlan as TrainingPlan
    from hyperpod_dpd.spec.load import DeploymentFile as DeploymentFile
    from hyperpod_dpd.spec.load import Mistake as Mistake
    from hyperpod_dpd.spec.load import UnreadableDeploymentError as UnreadableDeploymentError
    from hyperpod_dpd.spec.load import load as load
    from hyperpod_dpd.spec.model import FolderOrigin as FolderOrigin
    from hyperpod_dpd.spec.model import FsxSource as FsxSource
    from hyperpod_dpd.spec.model import HubOrigin as HubOrigin
    from hyperpod_dpd.spec.model import HuggingFaceSource as HuggingFaceSource
    from hyperpod_dpd.spec.model import Model as Model
    from hyperpod_dpd.spec.model import S3Source as S3Source
    from hyperpod_dpd.spec.model import VolumeSource as VolumeSource
    from hyperpod_dpd.spec.network import ExistingVpc as ExistingVpc
    from hyperpod_dpd.spec.network import Network as Network
    from hyperpod_dpd.spec.operator import EndpointCertificate as EndpointCertificate
    from hyperpod_dpd.spec.operator import OperatorEndpoint as OperatorEndpoint
    from hyperpod_dpd.spec.operator import SecondCache as SecondCache
    from hyperpod_dpd.spec.operator import Topology as Topology
    from hyperpod_dpd.spec.platform import Alerts as Alerts
    from hyperpod_dpd.spec.platform import Images as Images
    from hyperpod_dpd.spec.platform import InferenceOperator as InferenceOperator
    from hyperpod_dpd.spec.platform import Platform as Platform
    from hyperpod_dpd.spec.platform import Schedule as Schedule
    from hyperpod_dpd.spec.routing import LoadBalancer as LoadBalancer
    from hyperpod_dpd.spec.routing import Price as Price
    from hyperpod_dpd.spec.routing import Routing as Routing
    from hyperpod_dpd.spec.routing import Slo as Slo
    from hyperpod_dpd.spec.routing import Traffic as Traffic
    from hyperpod_dpd.spec.schema import json_schema as json_schema
    from hyperpod_dpd.spec.serving import Baseline as Baseline
    from hyperpod_dpd.spec.serving import Engine as Engine
    from hyperpod_dpd.spec.serving import RatioLimits as RatioLimits
    from hyperpod_dpd.spec.serving import Scaling as Scaling
    from hyperpod_dpd.spec.serving import Security as Security
    from hyperpod_dpd.spec.serving import Serving as Serving
    from hyperpod_dpd.spec.serving import Transfer as Transfer
    from hyperpod_dpd.spec.serving import Worker as Worker
    from hyperpod_dpd.storage.bucket import AccessLogs as AccessLogs
    from hyperpod_dpd.storage.lifecycle_scripts import LifecycleScripts as LifecycleScripts
    from hyperpod_dpd.storage.model_file_system import ModelFileSystem as ModelFileSystem
    from hyperpod_dpd.storage.model_import.construct import ModelImport as ModelImport
    from hyperpod_dpd.storage.model_store import ModelStore as ModelStore

_EXPORTS = {
    "__version__": "hyperpod_dpd._version",
    "BuildRunner": "hyperpod_dpd.builds.runner",
    "UnknownCatalogEntryError": "hyperpod_dpd.catalog.row",
    "DpdCluster": "hyperpod_dpd.cluster.cluster",
    "HyperPodDependencies": "hyperpod_dpd.cluster.dependencies_chart.chart",
    "ClusterHandle": "hyperpod_dpd.cluster.handle",
    "Kubectl": "hyperpod_dpd.cluster.kubectl",
    "UnresolvedError": "hyperpod_dpd.derive.obstacle",
    "RoleFacts": "hyperpod_dpd.derive.serving",
    "ServingFacts": "hyperpod_dpd.derive.serving",
    "resolve": "hyperpod_dpd.derive.serving",
    "render_proof": "hyperpod_dpd.evidence.proof_job",
    "HyperPodCluster": "hyperpod_dpd.hyperpod.cluster",
    "PublicImageMirror": "hyperpod_dpd.images.mirror",
    "ProjectImages": "hyperpod_dpd.images.project_images",
    "LintReport": "hyperpod_dpd.lint.check",
    "lint_manifests": "hyperpod_dpd.lint.check",
    "UnreadableManifestError": "hyperpod_dpd.lint.read",
    "EfaSecurityGroup": "hyperpod_dpd.network.efa",
    "InterfaceEndpoints": "hyperpod_dpd.network.endpoints",
    "ClusterNetwork": "hyperpod_dpd.network.interface",
    "ExistingNetwork": "hyperpod_dpd.network.interface",
    "DpdNetwork": "hyperpod_dpd.network.network",
    "AlertTopic": "hyperpod_dpd.observability.alert_topic",
    "ManagedGrafana": "hyperpod_dpd.observability.managed_grafana.workspace",
    "ManagedRules": "hyperpod_dpd.observability.managed_rules",
    "MetricsWorkspace": "hyperpod_dpd.observability.metrics_workspace",
    "PlatformCharts": "hyperpod_dpd.observability.platform",
    "ClusterWatch": "hyperpod_dpd.observability.watch.construct",
    "HourlyBurn": "hyperpod_dpd.planner.cost",
    "UndatedPriceError": "hyperpod_dpd.planner.cost",
    "hourly_burn": "hyperpod_dpd.planner.cost",
    "Plan": "hyperpod_dpd.planner.plan",
    "make_plan": "hyperpod_dpd.planner.plan",
    "UnplannableError": "hyperpod_dpd.planner.unplannable",
    "Gone": "hyperpod_dpd.readiness.gone",
    "Readiness": "hyperpod_dpd.readiness.readiness",
    "JobComplete": "hyperpod_dpd.readiness.requirements",
    "Requirement": "hyperpod_dpd.readiness.requirements",
    "Rollout": "hyperpod_dpd.readiness.requirements",
    "nodes_of": "hyperpod_dpd.readiness.requirements",
    "Wait": "hyperpod_dpd.readiness.wait",
    "DeploymentRefusedError": "hyperpod_dpd.rules.check",
    "Report": "hyperpod_dpd.rules.check",
    "check": "hyperpod_dpd.rules.check",
    "check_template": "hyperpod_dpd.rules.check",
    "refuse_unless_valid": "hyperpod_dpd.rules.check",
    "Finding": "hyperpod_dpd.rules.finding",
    "Problem": "hyperpod_dpd.rules.finding",
    "Severity": "hyperpod_dpd.rules.finding",
    "deployment_rule": "hyperpod_dpd.rules.registry",
    "template_rule": "hyperpod_dpd.rules.registry",
    "MonthlyBudget": "hyperpod_dpd.scaling.budget",
    "NightsOff": "hyperpod_dpd.scaling.nights_off",
    "PodIdentity": "hyperpod_dpd.security.identities",
    "logs_key": "hyperpod_dpd.security.logs",
    "TemplateRules": "hyperpod_dpd.security.rules",
    "apply_rules": "hyperpod_dpd.security.rules",
    "warning_id": "hyperpod_dpd.security.rules",
    "DeploymentSecrets": "hyperpod_dpd.security.secrets",
    "Binding": "hyperpod_dpd.serving.bindings",
    "BindingError": "hyperpod_dpd.serving.bindings",
    "bind": "hyperpod_dpd.serving.bindings",
    "required_bindings": "hyperpod_dpd.serving.helm_chart",
    "write_chart": "hyperpod_dpd.serving.helm_chart",
    "Profile": "hyperpod_dpd.serving.profile",
    "ProfileCharts": "hyperpod_dpd.serving.profile",
    "profile_of": "hyperpod_dpd.serving.profile",
    "profiles_of": "hyperpod_dpd.serving.profile",
    "Release": "hyperpod_dpd.serving.release",
    "Rendering": "hyperpod_dpd.serving.render",
    "render": "hyperpod_dpd.serving.render",
    "render_platform": "hyperpod_dpd.serving.render",
    "write_platform": "hyperpod_dpd.serving.render",
    "write_profiles": "hyperpod_dpd.serving.render",
    "RoleWorkers": "hyperpod_dpd.serving.role_workers",
    "requirements_of": "hyperpod_dpd.serving.rollouts",
    "rollout_seconds": "hyperpod_dpd.serving.rollouts",
    "WorkerIdentity": "hyperpod_dpd.serving.worker_identity",
    "Cluster": "hyperpod_dpd.spec.cluster",
    "DependenciesChart": "hyperpod_dpd.spec.cluster",
    "ExistingCluster": "hyperpod_dpd.spec.cluster",
    "SystemNodes": "hyperpod_dpd.spec.cluster",
    "Acknowledgement": "hyperpod_dpd.spec.deployment",
    "Deployment": "hyperpod_dpd.spec.deployment",
    "Organization": "hyperpod_dpd.spec.deployment",
    "Removal": "hyperpod_dpd.spec.deployment",
    "HyperPod": "hyperpod_dpd.spec.hyperpod",
    "InstanceGroup": "hyperpod_dpd.spec.hyperpod",
    "OnDemand": "hyperpod_dpd.spec.hyperpod",
    "Role": "hyperpod_dpd.spec.hyperpod",
    "Spot": "hyperpod_dpd.spec.hyperpod",
    "Taint": "hyperpod_dpd.spec.hyperpod",
    "TrainingPlan": "hyperpod_dpd.spec.hyperpod",
    "DeploymentFile": "hyperpod_dpd.spec.load",
    "Mistake": "hyperpod_dpd.spec.load",
    "UnreadableDeploymentError": "hyperpod_dpd.spec.load",
    "load": "hyperpod_dpd.spec.load",
    "FolderOrigin": "hyperpod_dpd.spec.model",
    "FsxSource": "hyperpod_dpd.spec.model",
    "HubOrigin": "hyperpod_dpd.spec.model",
    "HuggingFaceSource": "hyperpod_dpd.spec.model",
    "Model": "hyperpod_dpd.spec.model",
    "S3Source": "hyperpod_dpd.spec.model",
    "VolumeSource": "hyperpod_dpd.spec.model",
    "ExistingVpc": "hyperpod_dpd.spec.network",
    "Network": "hyperpod_dpd.spec.network",
    "EndpointCertificate": "hyperpod_dpd.spec.operator",
    "OperatorEndpoint": "hyperpod_dpd.spec.operator",
    "SecondCache": "hyperpod_dpd.spec.operator",
    "Topology": "hyperpod_dpd.spec.operator",
    "Alerts": "hyperpod_dpd.spec.platform",
    "Images": "hyperpod_dpd.spec.platform",
    "InferenceOperator": "hyperpod_dpd.spec.platform",
    "Platform": "hyperpod_dpd.spec.platform",
    "Schedule": "hyperpod_dpd.spec.platform",
    "LoadBalancer": "hyperpod_dpd.spec.routing",
    "Price": "hyperpod_dpd.spec.routing",
    "Routing": "hyperpod_dpd.spec.routing",
    "Slo": "hyperpod_dpd.spec.routing",
    "Traffic": "hyperpod_dpd.spec.routing",
    "json_schema": "hyperpod_dpd.spec.schema",
    "Baseline": "hyperpod_dpd.spec.serving",
    "Engine": "hyperpod_dpd.spec.serving",
    "RatioLimits": "hyperpod_dpd.spec.serving",
    "Scaling": "hyperpod_dpd.spec.serving",
    "Security": "hyperpod_dpd.spec.serving",
    "Serving": "hyperpod_dpd.spec.serving",
    "Transfer": "hyperpod_dpd.spec.serving",
    "Worker": "hyperpod_dpd.spec.serving",
    "AccessLogs": "hyperpod_dpd.storage.bucket",
    "LifecycleScripts": "hyperpod_dpd.storage.lifecycle_scripts",
    "ModelFileSystem": "hyperpod_dpd.storage.model_file_system",
    "ModelImport": "hyperpod_dpd.storage.model_import.construct",
    "ModelStore": "hyperpod_dpd.storage.model_store",
}
"""Module of every public name; the block above says the same to type checkers, and a test compares the two."""

__all__ = list(_EXPORTS)


if not TYPE_CHECKING:  # for a type checker it would make every misspelled name an `object`

    def __getattr__(name: str) -> object:
        module = _EXPORTS.get(name)
        if module is None:
            raise AttributeError(f"module `hyperpod_dpd` has no `{name}`")
        found = getattr(import_module(module), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
