"""DPD-SRV-515: LMCache's connector runs under vLLM's first model runner."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-515",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="workers that hand off through LMCache do not use vLLM's second model runner",
    why="In a full CUDA graph the second runner calls the connector outside of a forward context: LMCache skips the load "
    "without a word, the hit is still counted, the answer is computed from unwritten memory, and every chunk of the "
    "decoder's buffer leaks until disaggregation ends.",
    sources=(
        "vLLM 0.25.1 source (v1/worker/gpu/model_runner.py) and LMCache 0.5.3 source (vllm_v1_adapter.py)",
        "measured on NVIDIA H200, 2026-11-30: docs/evidence/h200-handoff-strategies.md",
    ),
    facts=("H14",),
)
