"""What the plan says, as tables and sentences that terminal and page share."""

from collections.abc import Sequence
from dataclasses import dataclass

from hyperpod_dpd.physics import GIB
from hyperpod_dpd.planner.capacity import Capacity
from hyperpod_dpd.planner.plan import Plan, TrafficRow
from hyperpod_dpd.planner.workbench import Evaluation

_NOTHING = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table with a title; the first column is text, the others are numbers."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def heading(plan: Plan) -> str:
    """Return what is planned, in one line."""
    model, facts = plan.deployment.model, plan.facts
    return (
        f"{plan.deployment.name}: {facts.geometry.name}, {model.weights} weights, {model.kv_cache} KV cache, "
        f"tensor parallel {facts.tensor_parallel}, vLLM {facts.engine.vllm}, "
        f"{plan.deployment.serving.backend} backend"
    )


def fit_table(plan: Plan) -> Table:
    """Return how the memory of one GPU of each role is divided."""
    rows = []
    for row in plan.fit:
        memory = row.memory
        rows.append(
            (
                f"{row.worker} on {row.instance.removeprefix('ml.')}",
                _gib(memory.weights_bytes),
                _gib(memory.reserve_bytes),
                _gib(max(0, memory.kv_bytes)),
                _gib(memory.pd_buffer_bytes),
                _gib(memory.free_bytes),
                f"{memory.gpu_memory_utilization:.2f}",
                f"{memory.kv_tokens:,}",
                "yes" if memory.fits else "no",
            )
        )
    return Table(
        title="Memory of one GPU, GiB",
        headers=(
            "worker",
            "weights",
            "reserve",
            "KV cache",
            "PD buffer",
            "free",
            "utilization",
            "KV tokens",
            "fits",
        ),
        rows=tuple(rows),
        note="reserve: activations, CUDA graphs, NCCL and context inside vLLM's share",
    )


def fit_text(plan: Plan) -> str:
    """Return why the workers do not fit and what would."""
    tight = next((row for row in plan.fit if not row.memory.fits), plan.fit[0])
    memory = tight.memory
    says = (
        f"{tight.worker} worker does not fit: weights {_gib(memory.weights_bytes)} GiB + one "
        f"{memory.sequence_tokens:,}-token sequence {_gib(memory.sequence_bytes)} GiB + PD buffer "
        f"{_gib(memory.pd_buffer_bytes)} GiB + reserve {_gib(memory.reserve_bytes)} GiB = "
        f"{_gib(memory.needed_bytes)} GiB; `{tight.instance}` has {_gib(memory.hbm_bytes)} GiB per GPU, of which "
        f"`gpu_memory_utilization: {memory.gpu_memory_utilization:.2f}` gives vLLM {_gib(memory.share_bytes)} GiB"
    )
    if tight.memory.fits:
        longest = plan.facts.decode.pd_buffer.longest_prompt_tokens
        says = (
            f"the PD buffer holds prompts of at most {longest:,} tokens, fewer than "
            f"`max_model_len_tokens: {plan.facts.max_model_len_tokens}`"
        )
    if plan.nearest is None:
        return f"{says}. help: choose a smaller model; no change of shape is enough"
    return f"{says}. help: the nearest that fits is {plan.nearest.change}"


def transfer_lines(plan: Plan) -> tuple[str, ...]:
    """Return what a hand-over moves, and how long that takes."""
    moved = plan.transfer
    seconds = moved.seconds
    per_token = (
        f"KV cache {moved.kv_bytes_per_token / 1024:,.0f} KiB per token, "
        f"{moved.kv_bytes_per_token_per_rank / 1024:,.0f} KiB on each of {plan.facts.tensor_parallel} ranks"
    )
    per_prompt = (
        f"{moved.prompt_tokens:,} tokens: {moved.prompt_bytes_per_rank / 1e6:,.0f} MB per rank, "
        f"{seconds.expected * 1e3:.1f} ms with {plan.deployment.serving.transfer.backend} ({seconds.low * 1e3:.1f} to {seconds.high * 1e3:.1f} ms)"
    )
    lines = [per_token, per_prompt]
    if moved.prompts_held is not None:
        buffer = plan.facts.decode.pd_buffer
        rounded = (
            f", {buffer.rounded_off_bytes / 1024**2:,.0f} MiB rounded off" if buffer.rounded_off_bytes else ""
        )
        lines.append(
            f"PD buffer of {buffer.chunks:,} chunks per rank holds {moved.prompts_held} such prompts at once{rounded}"
        )
    return tuple(lines)


def traffic_table(plan: Plan) -> Table:
    """Return the comparison at the deployment's own traffic, each figure with its band."""
    assert plan.traffic is not None
    mixed = plan.facts.prefill.instance != plan.facts.decode.instance
    return Table(
        title=f"At your traffic: {plan.traffic.description}",
        headers=(
            "shape",
            "nodes",
            "TPOT ms",
            "TTFT P50 s",
            "TTFT P95 s",
            "tokens/s/node",
            "$/M tokens",
            "in limits",
        ),
        rows=tuple(_traffic_row(row, mixed=mixed) for row in plan.traffic.rows),
        note="bands: constants measured on one H200, and constants fitted to public runs; "
        f"limits: {limits_text(plan)}; $ per million output tokens, {price_text(plan)}",
    )


def capacity_table(plan: Plan) -> Table:
    """Return what each shape serves within the promises, cheapest first."""
    assert plan.search is not None
    return Table(
        title=f"Most that each shape serves within the limits ({limits_text(plan)})",
        headers=(
            "shape",
            "on",
            "nodes",
            "users",
            "TPOT P95 ms",
            "TTFT P95 s",
            "tokens/s/node",
            "$/M tokens",
            "max seqs",
            "operator",
        ),
        rows=tuple(_capacity_row(one) for one in plan.search.capacities),
        note="users: requests in flight, each sent when the last is answered; shapes with the same ratio scale alike; "
        f"disaggregated shapes hand over prompts from {plan.search.threshold_tokens:,} tokens on; "
        "max seqs: `--max-num-seqs` of decoders or colocated workers; operator: whether that backend can have it",
    )


def recommendation_lines(plan: Plan) -> tuple[str, ...]:
    """Return which shape to take, and what each backend can have."""
    search = plan.search
    assert search is not None
    if search.recommended is None:
        tried = len(search.space.instances)
        kinds = "instance type" if tried == 1 else "instance types"
        none = (
            f"no shape up to {search.space.most_nodes} nodes on {tried} {kinds} keeps the limits. "
            "help: relax `slo`, or search further with `--full`"
        )
        return (none,)
    lines = [f"recommended: {_capacity_text(search.recommended)}, {search.recommended.shape.flags}"]
    equal = search.equal_hardware
    for kind, found in (("disaggregated", equal.disaggregated), ("colocated", equal.colocated)):
        text = _capacity_text(found) if found is not None else "none keeps the limits"
        lines.append(f"on {_nodes(equal.nodes)}, best {kind}: {text}")
    operator = search.operator
    lines.append(
        f"best disaggregated on the operator backend (one decoder): {_capacity_text(operator) if operator else 'none'}"
    )
    balanced = search.balance
    lines.append(
        f"one prefiller computes {balanced.prefill_requests_per_second:.1f} prompts/s, one decoder answers "
        f"{balanced.decode_requests_per_second:.1f}/s at most within the limits: "
        f"{balanced.prefillers_per_decoder:.1f} prefillers per full decoder"
    )
    best = search.self_managed
    if best is not None and best != operator:
        lines.append(f"best disaggregated, self-managed only: {_capacity_text(best)}")
    return tuple(lines)


def threshold_lines(plan: Plan) -> tuple[str, ...]:
    """Return the recommended routing threshold and what set it."""
    advice = plan.threshold
    assert advice is not None
    configured = "never" if advice.configured_tokens is None else f"{advice.configured_tokens:,}"
    return (
        f"threshold {configured}, recommended {advice.recommended_tokens:,}: {advice.reason}",
        "break-even "
        + (f"{advice.break_even_tokens:,} tokens" if advice.break_even_tokens is not None else "nowhere")
        + "; promised gap "
        + (f"{advice.gap_tokens:,} tokens" if advice.gap_tokens is not None else "kept by the token budget")
        + "; prefill capacity "
        + (f"{advice.capacity_tokens:,} tokens" if advice.capacity_tokens is not None else "sets no bound"),
    )


def cost_lines(plan: Plan) -> tuple[str, ...]:
    """Return the hourly cost, and the quotas without which AWS starts nothing."""
    quotas = ", ".join(str(need) for need in plan.quotas)
    return (str(plan.burn), f"quota needed: {quotas}") if quotas else (str(plan.burn),)


def limits_text(plan: Plan) -> str:
    """Return the promises in words."""
    slo = plan.deployment.slo
    return f"TTFT P95 ≤ {slo.ttft_p95_seconds:g} s, TPOT P95 ≤ {slo.tpot_p95_seconds * 1e3:g} ms"


def price_text(plan: Plan) -> str:
    """Return the prices used, with date and kind."""
    prices = dict.fromkeys(
        f"{group.instance_type.removeprefix('ml.')} {group.price}"
        if group.price
        else f"{group.instance_type} no price"
        for group in plan.burn.groups
    )
    return ", ".join(prices)


def milliseconds(seconds: float) -> str:
    """Return `seconds` in milliseconds with one digit."""
    return f"{seconds * 1e3:.1f}"


def _traffic_row(row: TrafficRow, *, mixed: bool) -> tuple[str, ...]:
    shape = row.evaluation.shape
    place = f" on {shape.place}" if mixed else ""
    both = (row.evaluation, row.public)
    summaries = [one.summary for one in both]
    return (
        f"{shape.label}{place} ({row.role})",
        str(shape.nodes),
        _band([one.tpot_seconds.mean * 1e3 for one in summaries if one.tpot_seconds], ".1f"),
        _band([one.ttft_seconds.p50 for one in summaries], ".2f"),
        _band([one.ttft_seconds.p95 for one in summaries], ".2f"),
        _band([one.output_tokens_per_second_per_node for one in both], ",.0f"),
        _band(_dollars(both), ".1f"),
        _kept(both),
    )


def _dollars(evaluations: Sequence[Evaluation]) -> list[float]:
    return [
        one.usd_per_million_output_tokens
        for one in evaluations
        if one.usd_per_million_output_tokens is not None
    ]


def _kept(evaluations: Sequence[Evaluation]) -> str:
    kept = {one.meets_slo for one in evaluations}
    if any(one.saturated for one in evaluations):
        return "overloaded"
    return "undecided" if len(kept) > 1 else "yes" if kept == {True} else "no"


def _band(values: Sequence[float], pattern: str) -> str:
    texts = list(dict.fromkeys(format(value, pattern) for value in sorted(values)))
    return "–".join((texts[0], texts[-1])) if len(texts) > 1 else texts[0] if texts else _NOTHING


def _capacity_row(one: Capacity) -> tuple[str, ...]:
    evaluation, shape = one.evaluation, one.shape
    summary = evaluation.summary
    dollars = evaluation.usd_per_million_output_tokens
    return (
        shape.label,
        shape.place,
        str(shape.nodes),
        str(one.users),
        milliseconds(summary.tpot_seconds.p95) if summary.tpot_seconds else _NOTHING,
        f"{summary.ttft_seconds.p95:.2f}",
        f"{evaluation.output_tokens_per_second_per_node:,.0f}",
        f"{dollars:.1f}" if dollars is not None else _NOTHING,
        str(shape.max_num_seqs),
        "yes" if "operator" in shape.backends else "no",
    )


def _capacity_text(one: Capacity) -> str:
    evaluation = one.evaluation
    dollars = evaluation.usd_per_million_output_tokens
    cost = f", ${dollars:.1f}/M tokens" if dollars is not None else ""
    return (
        f"{one.shape.label} on {one.shape.place} ({_nodes(one.shape.nodes)}): {one.users} users, "
        f"{evaluation.summary.output_tokens_per_second:,.0f} tokens/s{cost}"
    )


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _gib(size: float) -> str:
    return f"{size / GIB:.1f}"
