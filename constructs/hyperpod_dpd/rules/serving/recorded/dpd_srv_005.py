"""DPD-SRV-005: what both roles must have in common exists once."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-005",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="hash seed, chunk size, dtype, block size, model revision, image and versions are equal on both roles",
    why="A difference makes every lookup miss, or the handshake of the connectors fail. They are values of the "
    "deployment, not of a role, and a change of one replaces both roles together (generation label).",
    sources=(
        "LMCache/LMCache PR 1133, issues 1403 and 2511",
        "vLLM NIXL connector documentation; vllm-project/vllm issue 49238",
        "SageMaker DG sagemaker-hyperpod-model-deployment-dpd",
    ),
    facts=("L7", "V7"),
)
