"""The one source of truth: everything else is computed from it."""

from typing import Annotated, Literal

import annotated_types as at

from hyperpod_dpd.spec.cluster import Cluster
from hyperpod_dpd.spec.forms import BootstrapQualifier, PolicyName
from hyperpod_dpd.spec.hyperpod import HyperPod, InstanceGroup, Role
from hyperpod_dpd.spec.model import Model
from hyperpod_dpd.spec.network import Network
from hyperpod_dpd.spec.platform import Platform
from hyperpod_dpd.spec.routing import Price, Routing, Slo, Traffic
from hyperpod_dpd.spec.serving import Serving
from hyperpod_dpd.spec.value import NonEmptyStr, value


@value
class Acknowledgement:
    """A warning that somebody has read and accepts."""

    rule: NonEmptyStr
    """Rule id."""

    reason: Annotated[str, at.MinLen(10)]
    """Why it is acceptable here."""


@value
class Removal:
    """What may be deleted. Deleting data takes both acts."""

    delete_data_on_destroy: bool = False
    """First act: buckets, file systems and workspaces may be removed with their stacks."""

    confirm: str | None = None
    """Second act: the deployment's name once more."""


@value
class Organization:
    """What your organization asks of every stack in the account."""

    permissions_boundary: PolicyName | None = None
    """Managed policy of the account that bounds every role of the stacks; absent: none, or what `cdk.json` says."""

    bootstrap_qualifier: BootstrapQualifier | None = None
    """Qualifier of the account's CDK bootstrap; absent: the CDK's own, or what `cdk.json` says."""


@value
class Deployment:
    """Disaggregated serving of one model on one HyperPod cluster."""

    version: Literal[1] = 1
    """Version of this file's format."""

    name: Annotated[str, at.MinLen(1), at.MaxLen(40)]
    """Name of the deployment: lower-case letters, digits and hyphens. What it owns carries it."""

    region: NonEmptyStr
    """AWS region."""

    account: Annotated[str, at.MinLen(12), at.MaxLen(12)] | None = None
    """AWS account; absent: whichever account the CDK CLI deploys to."""

    network: Network
    """Addresses and zones."""

    cluster: Cluster = Cluster()
    """EKS."""

    hyperpod: HyperPod
    """Instance groups."""

    model: Model
    """What is served."""

    serving: Serving = Serving()
    """How it is served."""

    routing: Routing = Routing()
    """Which requests are disaggregated."""

    traffic: Traffic = Traffic()
    """Expected load."""

    slo: Slo = Slo()
    """Promises."""

    platform: Platform = Platform()
    """What the cluster offers."""

    prices: tuple[Price, ...] = ()
    """Prices that replace the catalog's."""

    organization: Organization = Organization()
    """What your organization asks of every stack in the account."""

    tags: dict[NonEmptyStr, str] | None = None
    """Cost-allocation tags for everything that tolerates tags."""

    removal: Removal = Removal()
    """What may be deleted."""

    acknowledge: tuple[Acknowledgement, ...] = ()
    """Accepted warnings."""

    @property
    def cluster_name(self) -> str:
        """Name of the HyperPod cluster."""
        return self.hyperpod.cluster_name or self.name

    @property
    def deletes_data(self) -> bool:
        """Whether stateful resources may go with their stacks: both acts were done."""
        return self.removal.delete_data_on_destroy and self.removal.confirm == self.name

    def groups(self, role: Role) -> tuple[InstanceGroup, ...]:
        """Return the instance groups of `role` in the order of the file."""
        return tuple(group for group in self.hyperpod.instance_groups if group.role is role)

    def zone_id(self, group: InstanceGroup) -> str:
        """Return the availability-zone id in which `group` runs."""
        return group.zone_id or self.network.gpu_zone_id
