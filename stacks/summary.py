"""What a synthesis says about itself: deploy order, size and time of the stacks, hourly list price of the groups."""

import math
from collections.abc import Iterator

from aws_cdk import cx_api

from hyperpod_dpd.catalog.durations import DURATIONS, EXISTING_NETWORK
from hyperpod_dpd.derive.addons import recorded_addons
from hyperpod_dpd.derive.secrets import named_secrets
from hyperpod_dpd.planner.cost import GroupCost, hourly_burn
from hyperpod_dpd.security.acknowledgements import Part
from hyperpod_dpd.spec import Deployment
from stacks.build import DeploymentStacks

_SECONDS_PER_MINUTE = 60


def summary(deployment: Deployment, stacks: DeploymentStacks, assembly: cx_api.CloudAssembly) -> str:
    """Return the summary of `deployment`, whose `stacks` were synthesized into `assembly`, a few lines of text."""
    lines = [
        f"{deployment.name} in {deployment.region}",
        *_aligned(_stack_rows(deployment, stacks, assembly)),
        *_aligned(_group_rows(deployment)),
    ]
    said = (
        *_shared_network(deployment),
        *_recorded(deployment),
        *_to_fill(deployment),
        *_locked_out(deployment),
        *_unheard(deployment),
    )
    lines += [f"  {each}" for each in said]
    return "\n".join([*lines, f"  instance groups at list price: {_total(deployment)}"])


def _stack_rows(
    deployment: Deployment, stacks: DeploymentStacks, assembly: cx_api.CloudAssembly
) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for number, (part, stack) in enumerate(stacks.by_part.items(), start=1):
        count = len(assembly.get_stack_by_name(stack.stack_name).template["Resources"])
        rows.append(
            (
                f"{number}. stack {stack.stack_name}",
                f"{count} resources",
                *_duration(part, deployment, stacks),
            )
        )
    return rows


def _duration(part: Part, deployment: Deployment, stacks: DeploymentStacks) -> tuple[str, str]:
    """Return how long the stack of `part` takes, and where that is from."""
    if part == "serving":
        minutes = math.ceil(stacks.serving.most_seconds / _SECONDS_PER_MINUTE)
        return f"at most {minutes} min", "probes of the workers, one replica after the other"
    made_before = part == "network" and deployment.network.existing is not None
    row = EXISTING_NETWORK if made_before else DURATIONS[part]
    return str(row), row.source.text


def _group_rows(deployment: Deployment) -> list[tuple[str, ...]]:
    if deployment.cluster.existing is not None:
        return []
    return [
        (f"group {group.group}", f"{group.count} x {group.instance_type}", _usd(group))
        for group in hourly_burn(deployment).groups
    ]


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _shared_network(deployment: Deployment) -> Iterator[str]:
    """Yield a line where nothing here made the network: it has to be as the file says when the stacks are deployed."""
    existing = deployment.network.existing
    if existing is not None and deployment.cluster.existing is None:
        yield f"network: `{existing.vpc_id}` is there already, `dpd preflight` asks whether it is as the file says"


def _recorded(deployment: Deployment) -> Iterator[str]:
    """Yield a line where versions are pinned of which nobody has asked the region: EKS has other builds elsewhere."""
    names = recorded_addons(deployment) if deployment.cluster.existing is None else ()
    if names:
        yield (
            f"versions of {len(names)} add-ons are from public records: `dpd preflight` asks EKS whether "
            f"{deployment.region} has them"
        )


def _to_fill(deployment: Deployment) -> Iterator[str]:
    """Yield a line for each secret that the platform stack makes empty."""
    for name in dict.fromkeys(secret.name for secret in named_secrets(deployment) if secret.own):
        yield f"secret to fill: `dpd secret set {name} --region {deployment.region}`"


def _locked_out(deployment: Deployment) -> Iterator[str]:
    """Yield a line where nobody may use kubectl: CloudFormation makes the cluster, and whoever deploys does not."""
    cluster = deployment.cluster
    if cluster.existing is None and not cluster.administrators:
        yield "kubectl lets nobody in: give `cluster.administrators` the ARN of your IAM role"


def _unheard(deployment: Deployment) -> Iterator[str]:
    """Yield a line where alerts arrive at a topic to which nobody is subscribed."""
    alerts = deployment.platform.alerts
    if not alerts.email_addresses and not alerts.topic_arn:
        yield "alerts reach nobody: give `platform.alerts.email_addresses`, or subscribe to the topic"


def _total(deployment: Deployment) -> str:
    if deployment.cluster.existing is not None:
        return "those of the cluster's owner"
    burn = hourly_burn(deployment)
    total = f"${burn.usd_per_hour:,.2f}/h, ${burn.usd_per_month:,.0f}/month"
    return f"{total}, without {', '.join(burn.unpriced)}" if burn.unpriced else total


def _usd(group: GroupCost) -> str:
    return f"at {group.price}" if group.price else "price unknown: give one under `prices`"
