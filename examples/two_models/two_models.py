"""Two models on one cluster: each has nodes, namespaces and a router of its own, and they share all the rest.

`llama.yaml` owns the cluster and lists the groups of both models; `qwen.yaml` names that cluster as existing. Deploy them
in this order: `make synth DEPLOYMENT=examples/two_models/llama.yaml`, then the other.
"""

import sys
from pathlib import Path

from hyperpod_dpd import (
    Deployment,
    Profile,
    hourly_burn,
    load,
    refuse_unless_valid,
    render,
)

FOLDER = Path(__file__).parent


class MissingGroupError(ValueError):
    """A deployment uses an instance group that the owner of the cluster does not have."""


def read() -> tuple[Deployment, Deployment]:
    """Return the owner of the cluster and its guest.

    Raises:
        DeploymentRefusedError: a rule found an error in one of them.
        MissingGroupError: the guest's groups are not the owner's.
    """
    owner, guest = (load(FOLDER / name).deployment for name in ("llama.yaml", "qwen.yaml"))
    for deployment in (owner, guest):
        refuse_unless_valid(deployment)
    there = {(group.name, group.instance_type, group.count) for group in owner.hyperpod.instance_groups}
    for group in guest.hyperpod.instance_groups:
        if (group.name, group.instance_type, group.count) not in there:
            raise MissingGroupError(f"`{owner.name}` has no group `{group.name}` like that")
    return owner, guest


def main() -> int:
    """Print the namespaces and the price of both."""
    owner, guest = read()
    for deployment in (owner, guest):
        objects = render(deployment, Profile.SELF_MANAGED).objects
        namespaces = [entry["metadata"]["name"] for entry in objects if entry["kind"] == "Namespace"]
        print(f"{deployment.name}: {', '.join(namespaces)}")
    print(f"the cluster of both: {hourly_burn(owner).usd_per_hour:.2f} USD an hour at list price")
    return 0


if __name__ == "__main__":
    sys.exit(main())
