"""A drafted deployment as a commented file."""

import json
import textwrap
from collections.abc import Iterator

from hyperpod_dpd.catalog.instances import instance_type
from hyperpod_dpd.catalog.models import model
from hyperpod_dpd.catalog.regions import region
from hyperpod_dpd.draft.choose import Draft, times
from hyperpod_dpd.planner.report import tables
from hyperpod_dpd.spec import Role

_COLUMNS = 110


def deployment_text(draft: Draft, *, schema: str, command: str) -> str:
    """Return the file.

    Args:
        draft: what to write.
        schema: where editors find the JSON Schema, relative to the file or a URL.
        command: command line that drafts it again.
    """
    return "\n".join([*_head(draft, schema, command), *_body(draft)]) + "\n"


def _comment(text: str, indent: int = 0) -> Iterator[str]:
    margin = " " * indent
    yield from textwrap.wrap(
        text,
        _COLUMNS,
        initial_indent=f"{margin}# ",
        subsequent_indent=f"{margin}# ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _text(value: str) -> str:
    """Return `value` quoted: JSON text is YAML text."""
    return json.dumps(value, ensure_ascii=False)


def _head(draft: Draft, schema: str, command: str) -> Iterator[str]:
    plan, answers = draft.plan, draft.answers
    yield f"# yaml-language-server: $schema={schema}"
    yield from _comment(
        f"Drafted by `{command}`. Every value may be changed; `dpd check` and `dpd plan` answer again."
    )
    yield "#"
    verdict = plan.verdict.text if plan.verdict else "none: the workers do not fit"
    yield from _comment(f"Verdict of the planner, a prediction: {verdict}.")
    yield from _comment(f"At {answers.concurrency} requests in flight: {_traffic(draft)}.")
    yield from _comment(f"Price: {plan.burn}.")
    if plan.quotas:
        yield from _comment(f"Quota needed: {', '.join(map(str, plan.quotas))}.")
    for warning in plan.warnings:
        if not warning.startswith("DPD-"):  # those of rules stand beside their acknowledgement
            yield from _comment(f"Warning: {warning}.")


def _traffic(draft: Draft) -> str:
    """Return the row of the deployed shape in the planner's table, in words."""
    if draft.plan.traffic is None:
        return "not planned"
    table = tables.traffic_table(draft.plan)
    return ", ".join(
        f"{header} {value}" for header, value in zip(table.headers[1:], table.rows[0][1:], strict=True)
    )


def _body(draft: Draft) -> Iterator[str]:
    deployment = draft.deployment
    yield "version: 1"
    yield f"name: {_text(deployment.name)}"
    yield f"region: {deployment.region}"
    for section in (_network, _hyperpod, _model, _serving, _routing, _traffic_section, _slo, _acknowledge):
        lines = list(section(draft))
        if lines:
            yield from ("", *lines)


def _network(draft: Draft) -> Iterator[str]:
    network = draft.deployment.network
    yield "network:"
    yield from _comment("Given. All GPU nodes are in this zone, because EFA does not leave it.", 2)
    yield f"  gpu_zone_id: {network.gpu_zone_id}"
    refused = network.gpu_zone_id not in region(draft.deployment.region).eks_zone_ids
    why = (
        f"EKS takes no interface in `{network.gpu_zone_id}`"
        if refused
        else "the GPU zone, and another of the region"
    )
    yield from _comment(f"EKS needs two zones, and keeps them: {why}.", 2)
    yield f"  cluster_zone_ids: [{', '.join(network.cluster_zone_ids)}]"


def _hyperpod(draft: Draft) -> Iterator[str]:
    yield "hyperpod:"
    yield "  instance_groups:"
    for group in draft.deployment.hyperpod.instance_groups:
        row = instance_type(group.instance_type)
        about = f"{row.gpus} × {row.gpu.name}, {row.efa_devices} EFA devices"
        cost = (
            f"; ${row.price.usd_per_hour:,.2f}/h each"
            if row.price
            else "; no list price: give one under `prices`"
        )
        yield from _comment(f"{about}{cost}.", 4)
        yield f"    - name: {group.name}"
        yield f"      role: {group.name}"
        yield f"      instance_type: {group.instance_type}"
        yield from _comment(_why_count(draft, group.name), 6)
        yield f"      count: {group.count}"


def _why_count(draft: Draft, role: str) -> str:
    sized = draft.sized_by
    worker = draft.deployment.serving.worker(Role(role))
    if sized is None:
        return f"One {role} worker: no shape keeps the promises below, so more nodes would only cost more."
    factor = times(sized, draft.answers)
    again = f", {factor} times" if factor > 1 else ""
    return (
        f"{worker.replicas} of the planner's {sized.shape.label}{again}: one serves {sized.users} requests in flight "
        "within the promises below, on the fewest nodes that were found."
    )


def _model(draft: Draft) -> Iterator[str]:
    chosen = draft.deployment.model
    gated = " The repository asks for an accepted licence." if model(chosen.name).gated else ""
    yield "model:"
    yield f"  name: {chosen.name}"
    yield from _comment(
        f"Given. A commit of {model(chosen.name).repository}, because a branch moves.{gated}", 2
    )
    yield f"  revision: {_text(chosen.revision or '')}"
    if chosen.weights == "fp8":
        yield from _comment(f"With bf16 weights: {_first(draft, 'DPD-SRV-003')}", 2)
    else:
        yield from _comment("The weights fit as they are stored; nothing else keeps the model's quality.", 2)
    yield f"  weights: {chosen.weights}"
    yield from _comment("The deployment creates a bucket; the model is imported into it.", 2)
    yield "  source:"
    yield "    type: s3"


def _first(draft: Draft, rule: str) -> str:
    """Return what `rule` says against the preferred deployment, or all that was said."""
    found = [finding.message for finding in draft.preferred if finding.rule == rule]
    return (found or [finding.message for finding in draft.preferred] or ["refused"])[0]


def _serving(draft: Draft) -> Iterator[str]:
    serving, answers = draft.deployment.serving, draft.answers
    yield "serving:"
    yield from _comment(
        "Our own workers and router: several decoders, versions of our own, one file per object.", 2
    )
    yield f"  backend: {serving.backend}"
    gpus = instance_type(answers.decode_instance_type).gpus
    whole = serving.tensor_parallel == gpus
    why = (
        "a whole node for each worker: the shortest time per token"
        if whole
        else "the widest that the rules allow"
    )
    yield from _comment(f"GPUs that share one replica; {why}.", 2)
    yield f"  tensor_parallel: {serving.tensor_parallel}"
    yield from _comment(
        f"Longest request: {answers.input_tokens:,} + {answers.output_tokens:,} tokens and a quarter more, as a power of "
        f"two; `{answers.model}` goes to {model(answers.model).max_position_tokens:,}.",
        2,
    )
    yield f"  max_model_len_tokens: {serving.max_model_len_tokens}"
    yield from _transfer(draft)
    yield "  prefill:"
    yield f"    replicas: {serving.prefill.replicas}"
    yield "  decode:"
    yield f"    replicas: {serving.decode.replicas}"
    if serving.decode.max_num_seqs is not None and draft.sized_by is not None:
        yield from _comment(
            f"{answers.concurrency} requests in flight over {serving.decode.replicas} decoders, in whole eights; up to "
            f"{draft.sized_by.shape.max_num_seqs} keep the promised time per token.",
            4,
        )
        yield f"    max_num_seqs: {serving.decode.max_num_seqs}"


def _transfer(draft: Draft) -> Iterator[str]:
    transfer = draft.deployment.serving.transfer
    yield "  transfer:"
    if transfer.type == "nixl":
        yield from _comment(f"Not `lmcache-pd`: {_first(draft, 'DPD-SRV-123')}", 4)
    else:
        yield from _comment(
            "The prefiller pushes: the decoder starts as soon as the last chunk has landed.", 4
        )
    yield f"    type: {transfer.type}"
    if transfer.decode_pd_buffer_gib is not None:
        held = draft.plan.transfer.prompts_held
        yield from _comment(
            f"Per GPU of a decoder; holds {held} typical prompts at once, so that the declared load does not wait for room.",
            4,
        )
        yield f"    decode_pd_buffer_gib: {transfer.decode_pd_buffer_gib:g}"


def _routing(draft: Draft) -> Iterator[str]:
    advice = draft.plan.threshold
    yield "routing:"
    if advice is not None:
        yield from _comment(f"Prompts of at least this many tokens are handed over: {advice.reason}.", 2)
    yield f"  threshold_tokens: {draft.deployment.routing.threshold_tokens}"


def _traffic_section(draft: Draft) -> Iterator[str]:
    traffic = draft.deployment.traffic
    yield from _comment("Given. The planner, the rules and the alerts read it; nothing enforces it.")
    yield "traffic:"
    yield f"  input_tokens: {traffic.input_tokens}"
    yield f"  output_tokens: {traffic.output_tokens}"
    yield f"  concurrency: {traffic.concurrency}"


def _slo(draft: Draft) -> Iterator[str]:
    slo = draft.deployment.slo
    yield from _comment("Given. What users were promised; the alerts fire on it.")
    yield "slo:"
    yield f"  ttft_p95_seconds: {slo.ttft_p95_seconds:g}"
    yield f"  tpot_p95_seconds: {slo.tpot_p95_seconds:g}"


def _acknowledge(draft: Draft) -> Iterator[str]:
    if not draft.deployment.acknowledge:
        return
    yield from _comment(
        "Warnings that follow from the answers. Read them; remove the entry and `dpd check` says it again."
    )
    yield "acknowledge:"
    for entry in draft.deployment.acknowledge:
        for finding in draft.report.acknowledged:
            if finding.rule == entry.rule:
                yield from _comment(finding.message, 2)
        yield f"  - rule: {entry.rule}"
        yield f"    reason: {_text(entry.reason)}"
