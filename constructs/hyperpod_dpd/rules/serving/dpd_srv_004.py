"""DPD-SRV-004: the PD buffer holds what is expected to be on its way at once."""

from collections.abc import Iterator

from hyperpod_dpd.derive import ServingFacts, resolve_or_none
from hyperpod_dpd.physics import GIB, worst_case_in_flight_bytes
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import self_managed
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-004",
    severity=Severity.WARNING,
    title="the prompts expected in flight fit into the decoders' PD buffers",
    sources=(
        "LMCache/LMCache issues 1990, 2365, 1337, 2080, 1339",
        "SageMaker DG DPD troubleshooting (16 or 32 GiB)",
    ),
    facts=("L5",),
)
def expected_transfers_fit(deployment: Deployment) -> Iterator[Problem]:
    """A full buffer makes hand-offs wait; the router then decodes directly, and without it senders retry for ever."""
    facts = resolve_or_none(deployment)
    # no buffer with NIXL; DPD-SRV-106 speaks of one without a chunk
    if facts is None or facts.decode.pd_buffer.chunks == 0:
        return
    yield from _expected(deployment, facts) if self_managed(deployment) else _worst_case(facts)


def _expected(deployment: Deployment, facts: ServingFacts) -> Iterator[Problem]:
    """The router reserves whole prompts, so only the declared load can be too much, never a burst."""
    traffic = deployment.traffic
    if traffic.concurrency is None:
        return
    prompt_tokens = min(traffic.input_tokens, facts.max_model_len_tokens)
    buffer = facts.decode.pd_buffer
    held = buffer.transfers(prompt_tokens) * facts.decode.replicas
    if traffic.concurrency > held:
        yield Problem(
            path="serving.transfer.pd_buffer_gib",
            says="the declared load does not fit into the PD buffers at once",
            given=f"`concurrency: {traffic.concurrency}` prompts of {prompt_tokens:,} tokens, "
            f"`serving.decode.replicas: {facts.decode.replicas}`",
            computed=f"{held} such prompts fit ({buffer.chunks_for(prompt_tokens)} of {buffer.chunks:,} chunks each)",
            fix="raise `decode_pd_buffer_gib` or `serving.decode.replicas`",
        )


def _worst_case(facts: ServingFacts) -> Iterator[Problem]:
    """The operator's router reserves nothing, so every prefill sequence may be on its way at full length."""
    buffer = facts.decode.pd_buffer
    worst = worst_case_in_flight_bytes(
        facts.prefill.max_num_seqs, facts.max_model_len_tokens, facts.kv_bytes_per_token_per_rank
    )
    if worst > buffer.usable_bytes:
        yield Problem(
            path="serving.transfer.pd_buffer_gib",
            says="the prompts in flight can exceed the PD buffer, and the operator's router reserves no room",
            given=f"`max_num_seqs: {facts.prefill.max_num_seqs}` × `max_model_len_tokens: "
            f"{facts.max_model_len_tokens}` per prefiller",
            computed=f"{worst / GIB:.1f} GiB in the worst case; {buffer.transfers(facts.max_model_len_tokens)} "
            "prompts of full length fit",
            limit=f"{buffer.usable_bytes / GIB:.1f} GiB per rank",
            fix="raise `pd_buffer_gib`, or acknowledge it: AWS's own reference values exceed it, too",
        )
