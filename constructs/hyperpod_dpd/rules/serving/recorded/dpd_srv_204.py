"""DPD-SRV-204: the connector has only fields that every supported vLLM accepts."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-204",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="`--kv-transfer-config` has no `kv_rank`, `kv_parallel_size`, `kv_buffer_size` or `kv_ip`",
    why="Newer vLLM exits on them; older articles still show them. The whole argument is computed.",
    sources=("vLLM 0.33 `vllm/config/kv_transfer.py`, run",),
    facts=("V4",),
)
