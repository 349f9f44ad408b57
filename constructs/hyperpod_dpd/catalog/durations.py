"""How long a first deployment of each stack takes."""

from typing import Literal

from hyperpod_dpd.catalog.row import Source
from hyperpod_dpd.spec.value import record

Part = Literal["network", "cluster", "hyperpod", "platform"]
"""A stack by the last part of its name. The serving stack takes as long as its workers may take to start."""


@record
class StackDuration:
    """Minutes from the first resource to the last."""

    least_minutes: int
    most_minutes: int
    """Above which something is late, not wrong: CloudFormation's own limits are longer."""

    source: Source

    def __str__(self) -> str:
        return f"{self.least_minutes} to {self.most_minutes} min"


DURATIONS: dict[Part, StackDuration] = {
    "network": StackDuration(
        least_minutes=2,
        most_minutes=6,
        source=Source(text="estimate: NAT gateway and endpoints", as_of="2026-11-30", confirmed=False),
    ),
    "cluster": StackDuration(
        least_minutes=13,
        most_minutes=25,
        source=Source(
            text="control plane 13 to 16 min in 21 regions (easontechtalk.com), nodes and add-ons estimated",
            as_of="2026-11-30",
            confirmed=False,
        ),
    ),
    "hyperpod": StackDuration(
        least_minutes=5,
        most_minutes=50,
        source=Source(
            text="estimate; the chart's build fails after 50 min, nodes are not waited for",
            as_of="2026-11-30",
            confirmed=False,
        ),
    ),
    "platform": StackDuration(
        least_minutes=20,
        most_minutes=720,
        source=Source(
            text="nodes: as long as capacity and deep health checks take, 12 h at most (CloudFormation's wait)",
            as_of="2026-11-30",
        ),
    ),
}
"""By part. None was measured in an account by this project."""

EXISTING_NETWORK = StackDuration(
    least_minutes=1,
    most_minutes=4,
    source=Source(
        text="estimate: a security group, and endpoints where they are asked for",
        as_of="2026-11-30",
        confirmed=False,
    ),
)
"""The network stack in a VPC that is there already."""
