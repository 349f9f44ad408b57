"""What several rules about serving look at."""

import re
from collections import Counter
from collections.abc import Iterator

from hyperpod_dpd.catalog.row import UnknownCatalogEntryError
from hyperpod_dpd.derive import EffectiveEngine, effective_engine, resolve_or_none
from hyperpod_dpd.spec import Deployment, Role

ROLES = (Role.PREFILL, Role.DECODE)

_FLAG = re.compile(r"-{1,2}[A-Za-z][\w.-]*")


def engine_or_none(deployment: Deployment) -> EffectiveEngine | None:
    """Return the declared engine, or None where the rule about unresolvable deployments speaks."""
    try:
        return effective_engine(deployment.serving)
    except (UnknownCatalogEntryError, ValueError):
        return None


def hands_over_through_lmcache(deployment: Deployment) -> bool:
    """Whether prefill pushes into LMCache's PD buffer."""
    return deployment.serving.transfer.type == "lmcache-pd"


def self_managed(deployment: Deployment) -> bool:
    """Whether this project renders the workers itself."""
    return deployment.serving.backend == "self-managed"


def nodes_taken(deployment: Deployment) -> Counter[str] | None:
    """Return how many nodes of each group the workers take at their highest number, or None where that is unknown."""
    facts = resolve_or_none(deployment)
    if facts is None:
        return None
    # prefill and decode never share a node: EFA has no loopback within one
    nodes = Counter[str]()
    for role in ROLES:
        place = facts.role(role)
        scaling = place.worker.scaling
        replicas = max(place.replicas, scaling.maximum if scaling is not None else 0)
        nodes[place.group.name] += -(-replicas // place.workers_per_node)
    return nodes


def extra_flags(deployment: Deployment) -> Iterator[tuple[str, str, str]]:
    """Yield path, text as given and flag as vLLM spells it, for every flag in `extra_args`."""
    for role in ROLES:
        for index, given in enumerate(deployment.serving.worker(role).extra_args):
            flag = spelled_flag(given)
            if flag is not None:
                yield f"serving.{role.value}.extra_args[{index}]", given, flag


def environment(deployment: Deployment) -> Iterator[tuple[str, str, str]]:
    """Yield path, name and value of every variable that the deployment adds to workers."""
    yield from role_environment(deployment)
    if not self_managed(deployment):
        for name, value in (deployment.serving.operator.environment or {}).items():
            yield f"serving.operator.environment.{name}", name, value


def role_environment(deployment: Deployment) -> Iterator[tuple[str, str, str]]:
    """Yield path, name and value of every variable that the deployment adds to one role."""
    for role in ROLES:
        for name, value in (deployment.serving.worker(role).environment or {}).items():
            yield f"serving.{role.value}.environment.{name}", name, value


def spelled_flag(argument: str) -> str | None:
    """Return the flag in `argument` as vLLM spells it, or None where it is a value.

    vLLM takes underscores for hyphens, and a dot begins a key inside the value.
    """
    flag = argument.split("=", 1)[0]
    if not _FLAG.fullmatch(flag):
        return None
    return flag.replace("_", "-").split(".", 1)[0] if flag.startswith("--") else flag
