"""DPD-K8S-002: flows are opened one by one."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-K8S-002",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="every namespace denies by default, and each flow that exists is opened",
    why="vLLM's API key covers a part of its endpoints, and NIXL's side channel and LMCache's ports ask for none.",
    sources=("vllm-project/vllm issues 42591 and 29922",),
)
