"""DPD-SRV-107: the hash seed is one that Python accepts."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment

LARGEST_HASH_SEED: Final = 4294967295


@deployment_rule(
    "DPD-SRV-107",
    severity=Severity.ERROR,
    title="PYTHONHASHSEED is a number from 0 to 4294967295",
    sources=("Python documentation, PYTHONHASHSEED", "LMCache/LMCache PR 1133"),
    facts=("L7",),
)
def hash_seed_is_accepted(deployment: Deployment) -> Iterator[Problem]:
    """Python ends at once with a seed outside its range."""
    seed = deployment.serving.transfer.hash_seed
    if seed > LARGEST_HASH_SEED:
        yield Problem(
            path="serving.transfer.hash_seed",
            says="the hash seed is outside of what Python accepts",
            given=f"`hash_seed: {seed}`",
            limit=str(LARGEST_HASH_SEED),
            fix="use a smaller number; 0 is fine",
        )
