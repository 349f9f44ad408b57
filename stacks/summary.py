"""What a synthesis says about itself: resources per stack, hourly list price of the instance groups."""

from aws_cdk import cx_api

from hyperpod_dpd.planner.cost import GroupCost, hourly_burn
from hyperpod_dpd.spec import Deployment


def summary(deployment: Deployment, assembly: cx_api.CloudAssembly) -> str:
    """Return the summary of `deployment` synthesized into `assembly`, a few lines of text."""
    stacks = [(stack.stack_name, len(stack.template["Resources"])) for stack in assembly.stacks]
    burn = hourly_burn(deployment)
    rows = [(f"stack {name}", f"{count} resources", "") for name, count in stacks]
    rows += [
        (f"group {group.group}", f"{group.count} x {group.instance_type}", _usd(group))
        for group in burn.groups
    ]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"  {a:<{widths[0]}}  {b:<{widths[1]}}  {c}".rstrip() for a, b, c in rows]
    total = f"${burn.usd_per_hour:,.2f}/h, ${burn.usd_per_month:,.0f}/month"
    if burn.unpriced:
        total += f", without {', '.join(burn.unpriced)}"
    return "\n".join(
        [f"{deployment.name} in {deployment.region}", *lines, f"  instance groups at list price: {total}"]
    )


def _usd(group: GroupCost) -> str:
    if group.usd_per_hour is None:
        return "price unknown: give one under `prices`"
    return f"${group.usd_per_hour:,.2f}/h, {group.price}"
