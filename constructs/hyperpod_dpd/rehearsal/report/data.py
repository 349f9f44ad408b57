"""The results as plain data."""

import dataclasses
from typing import Any

from hyperpod_dpd.rehearsal.measure import AGREEMENT, Measurement
from hyperpod_dpd.rehearsal.rehearsal import Rehearsal
from hyperpod_dpd.rehearsal.run import ProfileResult


def rehearsal_as_dict(rehearsal: Rehearsal) -> dict[str, Any]:
    """Return everything that was measured, predicted and found."""
    return {
        "deployment": rehearsal.deployment.name,
        "made_at": rehearsal.made_at,
        "agreement": AGREEMENT,
        "profiles": [_profile(result) for result in rehearsal.results],
        "troubles": [each.as_dict() for each in rehearsal.troubles],
    }


def _profile(result: ProfileResult) -> dict[str, Any]:
    outcome = result.outcome
    return {
        "profile": result.profile,
        "folder": result.folder,
        "simulated": result.simulated,
        "replaced": list(result.replaced),
        "compression": result.compression,
        "runs": [_measurement(run) for run in outcome.runs],
        "mixed": None if outcome.mixed is None else _measurement(outcome.mixed),
        "faults": [str(fault) for fault in result.faults],
        "under_faults": None if outcome.under_faults is None else _measurement(outcome.under_faults),
        "chunks_left": {name: list(used) for name, used in outcome.leftover.chunks.items()},
        "hand_offs_left": outcome.leftover.hand_offs,
        "alerts": None if outcome.alerts is None else dict(outcome.alerts),
        "proof": None if outcome.proof is None else outcome.proof.as_dict(),
        "events": list(result.events),
        "exit_codes": {name: list(codes) for name, codes in result.exit_codes.items()},
        "processes_left": list(result.left_behind),
        "lost_seconds": outcome.lost_seconds,
        "blind_seconds": outcome.blind_seconds,
        "real_seconds": result.real_seconds,
        "cpu_seconds": result.cpu_seconds,
        "notes": list(result.notes),
    }


def _measurement(run: Measurement) -> dict[str, Any]:
    predicted = run.predicted
    return {
        "users": run.users,
        "endings": dict(run.endings),
        "decisions": dict(run.decisions),
        "observed": None if run.observed is None else _fields(run.observed),
        "predicted": None
        if predicted is None
        else {
            "tpot_mean_seconds": predicted.tpot_seconds.mean if predicted.tpot_seconds else None,
            "ttft_mean_seconds": predicted.ttft_seconds.mean,
            "e2e_p50_seconds": predicted.e2e_seconds.p50,
            "output_tokens_per_second": predicted.output_tokens_per_second,
        },
        "tpot_difference": run.tpot_difference,
        "real_seconds": run.real_seconds,
    }


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
