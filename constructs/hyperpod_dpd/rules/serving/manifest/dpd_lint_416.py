"""DPD-LINT-416: prompts in flight fit into the operator's buffer."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.vllm_defaults import VLLM_DEFAULTS
from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.lint.operator import BUFFER_VARIABLE
from hyperpod_dpd.physics import GIB, worst_case_in_flight_bytes
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-416",
    severity=Severity.WARNING,
    title="the prompts that may be in flight fit into the PD buffer",
    sources=(
        "LMCache/LMCache issues 1990, 2365, 1337, 2080, 1339",
        "SageMaker DG DPD troubleshooting (16 or 32 GiB)",
    ),
    facts=("L5",),
)
def in_flight_prompts_fit(manifests: ManifestSet) -> Iterator[Fault]:
    """The operator's router reserves nothing: a full buffer makes senders wait inside the forward pass."""
    for endpoint in manifests.endpoints:
        for prefill, decode in endpoint.pairs:
            buffer, longest = decode.buffer, prefill.max_model_len_tokens
            if not prefill.operator or buffer is None or longest is None:
                continue
            sequences = prefill.arguments.number("--max-num-seqs") or VLLM_DEFAULTS.max_num_seqs
            worst = worst_case_in_flight_bytes(sequences, longest, buffer.chunk_bytes // buffer.chunk_tokens)
            if worst > buffer.usable_bytes:
                yield fault(
                    decode.at("pd_buffer_size"),
                    says="the prompts in flight can exceed the PD buffer, and the operator's router reserves no room",
                    given=f"`--max-num-seqs {sequences}` × `--max-model-len {longest}` per prefiller",
                    computed=f"{worst / GIB:.1f} GiB in the worst case",
                    limit=f"{buffer.usable_bytes / GIB:.1f} GiB per rank",
                    fix=f"raise `{BUFFER_VARIABLE}`, or lower `--max-num-seqs` of `prefillSpec`",
                )
