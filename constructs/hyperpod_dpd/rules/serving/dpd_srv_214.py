"""DPD-SRV-214: `environment` says nothing that this project computes."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.computed import COMPUTED_ENVIRONMENT, COMPUTED_LMCACHE_KEYS
from hyperpod_dpd.rules.serving.subjects import role_environment
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-214",
    severity=Severity.ERROR,
    title="no computed variable is given again in `environment`",
    sources=(
        "LMCache: environment wins over the file",
        "ai-dynamo/dynamo PR 9712 (FI_EFA_ENABLE_SHM_TRANSFER)",
    ),
    facts=("L7", "L12", "L13", "V2", "E8"),
)
def computed_variables_are_not_repeated(deployment: Deployment) -> Iterator[Problem]:
    """A second value wins or loses by the order of a list, and differs from the other role's."""
    for path, name, value in role_environment(deployment):
        key = name.removeprefix("LMCACHE_").lower() if name.startswith("LMCACHE_") else None
        if name in COMPUTED_ENVIRONMENT or key in COMPUTED_LMCACHE_KEYS:
            yield Problem(
                path=path,
                says=f"`{name}` is computed from the deployment",
                given=f"`{name}: {value}`",
                fix="remove it and use the deployment's own field",
            )
