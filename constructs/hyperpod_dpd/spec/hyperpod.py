"""The HyperPod cluster and its instance groups."""

from enum import StrEnum
from typing import Annotated, Literal

import annotated_types as at
from pydantic import Field

from hyperpod_dpd.spec.forms import KmsKeyArn
from hyperpod_dpd.spec.value import NonEmptyStr, NonNegativeInt, value


class Role(StrEnum):
    """What a group or a worker does in disaggregated serving."""

    PREFILL = "prefill"
    DECODE = "decode"
    COLOCATED = "colocated"


@value
class OnDemand:
    """Capacity that AWS may or may not have when the cluster asks for it."""

    type: Literal["on-demand"] = "on-demand"


@value
class Spot:
    """Spare capacity that AWS may take back; the worker drains and its requests fall back."""

    type: Literal["spot"]


@value
class TrainingPlan:
    """Capacity reserved through a SageMaker flexible training plan."""

    type: Literal["training-plan"]

    arn: NonEmptyStr
    """ARN of the training plan; the plan's zone must be the deployment's GPU zone."""


Capacity = OnDemand | Spot | TrainingPlan


@value
class Taint:
    """A Kubernetes taint of a group's nodes."""

    key: NonEmptyStr
    """Key, with an optional DNS prefix and `/`."""

    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    """What happens to pods that do not tolerate it."""

    value: str = ""
    """Value that a toleration has to name."""


DeepHealthCheck = Literal["InstanceStress", "InstanceConnectivity"]


@value
class InstanceGroup:
    """Nodes of one instance type that serve one role."""

    name: NonEmptyStr
    """Group name, 1 to 63 letters, digits and hyphens."""

    instance_type: NonEmptyStr
    """HyperPod instance type with its `ml.` prefix."""

    count: NonNegativeInt
    """Nodes that the group shall have."""

    role: Role | None = None
    """Role of the group's nodes."""

    minimum: NonNegativeInt | None = None
    """Nodes below which the group stays `Creating`. Not met within 3 hours, HyperPod resets it to zero."""

    zone_id: NonEmptyStr | None = None
    """Availability-zone id; by default the deployment's GPU zone."""

    capacity: Annotated[Capacity, Field(discriminator="type")] = OnDemand()
    """How the nodes are obtained."""

    labels: dict[NonEmptyStr, str] | None = None
    """Kubernetes labels of the nodes."""

    taints: tuple[Taint, ...] = ()
    """Kubernetes taints of the nodes."""

    volume_gib: Annotated[int, at.Ge(1), at.Le(16384)] = 500
    """Secondary EBS volume in GiB, mounted at /opt/sagemaker."""

    volumes_kms_key_arn: KmsKeyArn | None = None
    """Customer managed key of both EBS volumes of every node, best one for each group; absent: AWS's own. It cannot be
    changed later."""

    threads_per_core: Literal[1, 2] = 2
    """Hardware threads per core. HyperPod takes 1 when absent, which halves the vCPUs of a p5."""

    deep_health_checks: tuple[DeepHealthCheck, ...] = ("InstanceStress", "InstanceConnectivity")
    """Checks a node must pass before it joins; they add minutes to hours."""

    placement_group: NonEmptyStr | None = None
    """Name of an EC2 placement group; cannot go with a reservation."""


@value
class HyperPod:
    """The SageMaker HyperPod cluster."""

    instance_groups: Annotated[tuple[InstanceGroup, ...], at.MinLen(1), at.MaxLen(100)]
    """GPU groups; prefill and decode have at least one each when the backend disaggregates."""

    cluster_name: NonEmptyStr | None = None
    """Explicit cluster name, so that CloudFormation refuses a replacement; by default the deployment's name."""

    node_recovery: Literal["automatic", "none"] = "automatic"
    """Whether HyperPod replaces unhealthy nodes by itself."""

    continuous_provisioning: bool = True
    """Create the cluster before its nodes exist and keep trying; without it one failed node fails everything."""

    tiered_storage_memory_percent: Annotated[int, at.Ge(1), at.Le(100)] | None = None
    """Share of node memory given to HyperPod's tiered storage (managed KV cache); off when absent."""
