"""DPD-SRV-206: what happens when loading fails is said where vLLM reads it."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-206",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="`kv_load_failure_policy: fail` is at the top level of the connector",
    why="Inside the extra configuration it is inert. `recompute` would hide a failed load from the router, which "
    "owns the fallback.",
    sources=("aws/deep-learning-containers test/efa/scripts/nixl_disagg_pd.sh", "vLLM scheduler source"),
    facts=("V6",),
)
