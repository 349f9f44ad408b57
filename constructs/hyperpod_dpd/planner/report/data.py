"""The plan as plain data for programs."""

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from hyperpod_dpd.physics import Band, MemoryFit
from hyperpod_dpd.planner.capacity import Capacity
from hyperpod_dpd.planner.plan import Curve, Plan
from hyperpod_dpd.planner.shape import Shape
from hyperpod_dpd.planner.summary import Spread, Summary
from hyperpod_dpd.planner.verdict import Comparison
from hyperpod_dpd.planner.workbench import Evaluation


def plan_as_dict(plan: Plan) -> dict[str, Any]:
    """Return `plan` as plain data. Units are in the names; every number is finite."""
    facts = plan.facts
    data: dict[str, Any] = {
        "deployment": plan.deployment.name,
        "model": facts.geometry.name,
        "tensor_parallel": facts.tensor_parallel,
        "fits": plan.fits,
        "nearest_that_fits": plan.nearest.change if plan.nearest else None,
        "memory": [
            {"worker": row.worker, "instance_type": row.instance, **_memory(row.memory)} for row in plan.fit
        ],
        "transfer": {
            "kv_bytes_per_token": plan.transfer.kv_bytes_per_token,
            "kv_bytes_per_token_per_rank": plan.transfer.kv_bytes_per_token_per_rank,
            "prompt_tokens": plan.transfer.prompt_tokens,
            "prompt_bytes_per_rank": plan.transfer.prompt_bytes_per_rank,
            "prompts_held": plan.transfer.prompts_held,
            "seconds": _flat(plan.transfer.seconds),
        },
        "cost": {
            "usd_per_hour": plan.burn.usd_per_hour,
            "usd_per_month": plan.burn.usd_per_month,
            "unpriced": list(plan.burn.unpriced),
            "groups": [
                {
                    "group": group.group,
                    "instance_type": group.instance_type,
                    "count": group.count,
                    "capacity": group.capacity,
                    "price": _flat(group.price) if group.price else None,
                }
                for group in plan.burn.groups
            ],
        },
        "quotas": [_flat(need) for need in plan.quotas],
        "warnings": list(plan.warnings),
    }
    data |= _timed(plan)
    _refuse_unless_finite(data)
    return data


def _timed(plan: Plan) -> dict[str, Any]:
    if plan.traffic is None or plan.search is None or plan.verdict is None or plan.threshold is None:
        return {}
    search = plan.search
    return {
        "traffic": {
            "description": plan.traffic.description,
            "shapes": [
                {"role": row.role, "measured": _evaluation(row.evaluation), "public": _evaluation(row.public)}
                for row in plan.traffic.rows
            ],
        },
        "search": {
            "threshold_tokens": search.threshold_tokens,
            "capacities": [_capacity(one) for one in search.capacities],
            "recommended": _capacity(search.recommended),
            "equal_hardware": {
                "nodes": search.equal_hardware.nodes,
                "disaggregated": _capacity(search.equal_hardware.disaggregated),
                "colocated": _capacity(search.equal_hardware.colocated),
            },
            "operator": _capacity(search.operator),
            "self_managed": _capacity(search.self_managed),
            "prefillers_per_decoder": search.balance.prefillers_per_decoder,
        },
        "threshold": _flat(plan.threshold),
        "verdict": {
            "text": plan.verdict.text,
            "settled": plan.verdict.settled,
            "measured": _comparison(plan.verdict.measured),
            "public": _comparison(plan.verdict.public),
        },
        "curves": [_curve(curve) for curve in plan.curves],
    }


def _flat(value: Any) -> dict[str, Any]:
    return {
        field.name: list(found) if isinstance(found := getattr(value, field.name), tuple) else found
        for field in fields(value)
    }


def _memory(memory: MemoryFit) -> dict[str, Any]:
    return _flat(memory) | {
        "kv_bytes": memory.kv_bytes,
        "kv_tokens": memory.kv_tokens,
        "needed_bytes": memory.needed_bytes,
        "free_bytes": memory.free_bytes,
        "fits": memory.fits,
    }


def _shape(shape: Shape) -> dict[str, Any]:
    return {
        "label": shape.label,
        "prefillers": shape.prefillers,
        "decoders": shape.decoders,
        "nodes": shape.nodes_by_type,
        "max_num_batched_tokens": shape.max_num_batched_tokens,
        "max_num_seqs": shape.max_num_seqs,
        "backends": list(shape.backends),
    }


def _summary(summary: Summary) -> dict[str, Any]:
    return {
        name: _flat(found) if isinstance(found, Spread | Band) else found
        for name, found in _flat(summary).items()
    }


def _evaluation(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "shape": _shape(evaluation.shape),
        **_summary(evaluation.summary),
        "output_tokens_per_second_per_node": evaluation.output_tokens_per_second_per_node,
        "usd_per_hour": evaluation.usd_per_hour,
        "usd_per_million_output_tokens": evaluation.usd_per_million_output_tokens,
        "saturated": evaluation.saturated,
        "meets_slo": evaluation.meets_slo,
    }


def _capacity(one: Capacity | None) -> dict[str, Any] | None:
    return None if one is None else {"users": one.users, **_evaluation(one.evaluation)}


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "answer": comparison.answer.value,
        "cost_ratio": comparison.cost_ratio,
        "disaggregated": _capacity(comparison.disaggregated),
        "colocated": _capacity(comparison.colocated),
    }


def _curve(curve: Curve) -> dict[str, Any]:
    return {
        "label": curve.label,
        "points": [{"users": point.users, **_evaluation(point.evaluation)} for point in curve.points],
    }


def _refuse_unless_finite(data: Any) -> None:
    """JSON has no words for infinity and NaN, and a plan has no use for them."""
    if isinstance(data, Mapping):
        for found in data.values():
            _refuse_unless_finite(found)
    elif isinstance(data, list):
        for found in data:
            _refuse_unless_finite(found)
    elif isinstance(data, float) and not math.isfinite(data):
        raise ValueError(f"the plan holds `{data}`, which is not a number")
