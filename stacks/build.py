"""All stacks of one deployment, and what holds for each of them."""

from collections.abc import Mapping
from dataclasses import dataclass

import aws_cdk as cdk

from hyperpod_dpd.security.acknowledgements import Part, acknowledge
from hyperpod_dpd.serving.profile import Profile
from hyperpod_dpd.spec import Deployment, Organization
from stacks.cluster import ClusterStack
from stacks.hyperpod import HyperPodStack
from stacks.network import NetworkStack
from stacks.platform import PlatformStack
from stacks.serving import ServingStack

# a stack's own tags reach every resource
_STACK = "aws:cdk:stack"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentStacks:
    """The stacks of a deployment, in the order in which they are deployed.

    The first three are None on a cluster that somebody else owns.
    """

    network: NetworkStack | None = None
    cluster: ClusterStack | None = None
    hyperpod: HyperPodStack | None = None
    platform: PlatformStack
    serving: ServingStack

    @property
    def by_part(self) -> dict[Part, cdk.Stack]:
        """Every stack that there is, by the last part of its name."""
        stacks: dict[Part, cdk.Stack | None] = {
            "network": self.network,
            "cluster": self.cluster,
            "hyperpod": self.hyperpod,
            "platform": self.platform,
            "serving": self.serving,
        }
        return {part: stack for part, stack in stacks.items() if stack is not None}

    @property
    def all(self) -> tuple[cdk.Stack, ...]:
        """Every stack that there is."""
        return tuple(self.by_part.values())

    @property
    def first(self) -> cdk.Stack:
        """The stack that is deployed first."""
        return next(iter(self.by_part.values()))


def build(app: cdk.App, deployment: Deployment, *, profile: Profile | None = None) -> DeploymentStacks:
    """Add the stacks of `deployment` to `app`: five, or two on a cluster that somebody else owns.

    The deployment's rules are not run here; `refuse_unless_valid` does that before.

    Args:
        app: the application.
        deployment: the deployment.
        profile: what the serving stack installs; by default the profile of the deployment's backend.

    Raises:
        BindingError: an object needs a value that neither the deployment nor a stack gives.
        DeploymentRefusedError: the profile belongs to the other backend, which cannot say what the deployment says.
        ValueError: something cannot be built; the message says what.
    """
    _apply(deployment.organization, app)
    stacks = (_owning if deployment.cluster.existing is None else _sharing)(app, deployment, profile)
    for part, stack in stacks.by_part.items():
        stack.termination_protection = not deployment.deletes_data
        acknowledge(stack, part, deployment)
    own, asked = {"hyperpod-dpd:deployment": deployment.name}, deployment.tags or {}
    # a public CDK application had to take the tags off its HyperPod cluster again, while its schema says that it takes
    # them: without being asked nobody is made to find out who is right
    for tags, untagged in ((own, [_STACK, "AWS::SageMaker::Cluster"]), (asked, [_STACK])):
        for key, value in tags.items():
            cdk.Tags.of(app).add(key, value, exclude_resource_types=untagged)
    for stack in stacks.all:
        _tag_untyped(stack, {**own, **asked})
    return stacks


def _tag_untyped(stack: cdk.Stack, tags: Mapping[str, str]) -> None:
    """Tag the resources of aws-cdk-lib's own helpers, which `Tags` does not reach: they have no type in CDK."""
    for resource in stack.node.find_all():
        if not isinstance(resource, cdk.CfnResource) or cdk.TagManager.is_taggable(resource):
            continue
        if resource.cfn_resource_type in ("AWS::IAM::Role", "AWS::Lambda::Function"):
            listed = [{"Key": key, "Value": value} for key, value in sorted(tags.items())]
            resource.add_property_override("Tags", listed)
        elif resource.cfn_resource_type == "AWS::SSM::Parameter":
            resource.add_property_override("Tags", dict(tags))


def _apply(organization: Organization, app: cdk.App) -> None:
    """Say to every stack that is made after this what the organization asks; what it does not ask, `cdk.json` may."""
    if organization.permissions_boundary is not None:
        boundary = {"name": organization.permissions_boundary}
        app.node.set_context("@aws-cdk/core:permissionsBoundary", boundary)
    if organization.bootstrap_qualifier is not None:
        app.node.set_context("@aws-cdk/core:bootstrapQualifier", organization.bootstrap_qualifier)


def _owning(app: cdk.App, deployment: Deployment, profile: Profile | None) -> DeploymentStacks:
    name = deployment.name
    network = NetworkStack(app, f"{name}-network", deployment=deployment)
    cluster = ClusterStack(app, f"{name}-cluster", deployment=deployment, network=network.network)
    hyperpod = HyperPodStack(
        app, f"{name}-hyperpod", deployment=deployment, network=network.network, cluster=cluster.cluster
    )
    platform = PlatformStack(
        app,
        f"{name}-platform",
        deployment=deployment,
        network=network.network,
        cluster=cluster.cluster,
        hyperpod=hyperpod.hyperpod,
    )
    serving = ServingStack(app, f"{name}-serving", deployment=deployment, platform=platform, profile=profile)
    return DeploymentStacks(
        network=network, cluster=cluster, hyperpod=hyperpod, platform=platform, serving=serving
    )


def _sharing(app: cdk.App, deployment: Deployment, profile: Profile | None) -> DeploymentStacks:
    platform = PlatformStack(app, f"{deployment.name}-platform", deployment=deployment)
    serving = ServingStack(
        app, f"{deployment.name}-serving", deployment=deployment, platform=platform, profile=profile
    )
    return DeploymentStacks(platform=platform, serving=serving)
