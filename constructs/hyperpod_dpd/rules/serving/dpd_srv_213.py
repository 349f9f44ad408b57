"""DPD-SRV-213: `extra_args` says nothing that this project computes."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.computed import COMPUTED_FLAG_VARIANTS, COMPUTED_FLAGS
from hyperpod_dpd.rules.serving.subjects import extra_flags
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-213",
    severity=Severity.ERROR,
    title="no computed argument is given again in `extra_args`",
    sources=("argparse: the last one wins without a word",),
    facts=("V4", "V6"),
)
def computed_flags_are_not_repeated(deployment: Deployment) -> Iterator[Problem]:
    """The rules check what is computed: an argument that wins over it is checked by nobody."""
    for path, given, flag in extra_flags(deployment):
        if flag in COMPUTED_FLAGS or flag in COMPUTED_FLAG_VARIANTS:
            reason = COMPUTED_FLAG_VARIANTS.get(flag, "it is computed from the deployment")
            yield Problem(
                path=path,
                says=f"`{flag}` is not an extra argument: {reason}",
                given=f"`{given}`",
                fix="remove it and use the deployment's own field",
            )
