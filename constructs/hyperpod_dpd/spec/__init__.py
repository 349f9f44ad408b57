"""The specification: frozen value objects and the edge where text becomes one of them."""

from hyperpod_dpd.spec.cluster import Cluster, DependenciesChart, ExistingCluster, SystemNodes
from hyperpod_dpd.spec.deployment import Acknowledgement, Deployment, Organization, Removal
from hyperpod_dpd.spec.hyperpod import HyperPod, InstanceGroup, OnDemand, Role, Spot, Taint, TrainingPlan
from hyperpod_dpd.spec.model import (
    FolderOrigin,
    FsxSource,
    HubOrigin,
    HuggingFaceSource,
    Model,
    S3Source,
    VolumeSource,
)
from hyperpod_dpd.spec.network import ExistingVpc, Network
from hyperpod_dpd.spec.operator import EndpointCertificate, OperatorEndpoint, SecondCache, Topology
from hyperpod_dpd.spec.platform import Alerts, Images, InferenceOperator, Platform, Schedule
from hyperpod_dpd.spec.routing import LoadBalancer, Price, Routing, Slo, Traffic
from hyperpod_dpd.spec.serving import (
    Baseline,
    Engine,
    RatioLimits,
    Scaling,
    Security,
    Serving,
    Transfer,
    Worker,
)

__all__ = [
    "Acknowledgement",
    "Alerts",
    "Baseline",
    "Cluster",
    "DependenciesChart",
    "Deployment",
    "EndpointCertificate",
    "Engine",
    "ExistingCluster",
    "ExistingVpc",
    "FolderOrigin",
    "FsxSource",
    "HubOrigin",
    "HuggingFaceSource",
    "HyperPod",
    "Images",
    "InferenceOperator",
    "InstanceGroup",
    "LoadBalancer",
    "Model",
    "Network",
    "OnDemand",
    "OperatorEndpoint",
    "Organization",
    "Platform",
    "Price",
    "RatioLimits",
    "Removal",
    "Role",
    "Routing",
    "S3Source",
    "Scaling",
    "Schedule",
    "SecondCache",
    "Security",
    "Serving",
    "Slo",
    "Spot",
    "SystemNodes",
    "Taint",
    "Topology",
    "Traffic",
    "TrainingPlan",
    "Transfer",
    "VolumeSource",
    "Worker",
]
