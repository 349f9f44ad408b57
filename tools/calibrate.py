"""Reproduce the measured constants of `catalog/calibration.py` from measurements of one H200.

    .venv/bin/python tools/calibrate.py [FOLDER]

FOLDER holds `calib.jsonl` with rows `prefill_alone` (isl, ms_median) and `decode_step` (b, ctx, tpot_ms_median),
measured with a model that is one of eight tensor-parallel ranks of Llama 3.3 70B. Nothing else is fitted; what the
two series cannot tell apart is set before and printed as such. Exit code 1: a constant differs from the catalog's.
"""

import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from hyperpod_dpd.catalog.calibration import HAND_OFF, MEASURED
from hyperpod_dpd.catalog.instances import instance_type
from hyperpod_dpd.catalog.models import model
from hyperpod_dpd.planner.predict import one_rank_of
from hyperpod_dpd.planner.step import StepModel, step_model

RANK = one_rank_of(model("llama-3.3-70b-instruct"), 8)
GPU = instance_type("ml.p5en.48xlarge").gpu
BUDGET = 8192
"""Token budget of the server that was measured."""

FEW_CACHED_TOKENS = 16_384
"""Above this the decode series cannot calibrate a cache rate: from 8 sequences of 16,384 tokens on it would need 5.2 to
6.0 TB/s from a memory of 4.8 TB/s, so those sequences were served by the L2 cache, which distinct prompts are not."""

TOLERANCE = 0.01
"""Constants are written with three digits."""


@dataclass(frozen=True)
class Fit:
    layer_seconds: float
    bf16_efficiency: float
    attention_efficiency: float
    request_seconds: float


def fit(prefill: Sequence[tuple[int, float]], decode: Sequence[tuple[int, int, float]]) -> Fit:
    """Fit the constants.

    Args:
        prefill: (prompt tokens, seconds of one request with one output token).
        decode: (sequences, context tokens of each, seconds per output token).
    """
    bare = _times(layer_seconds=0.0)
    layer_seconds = fmean(
        (seconds - bare.decode_step_seconds(sequences, context)) / RANK.layers
        for sequences, context, seconds in decode
        if sequences * context <= FEW_CACHED_TOKENS
    )
    return Fit(layer_seconds, *_fit_prefill(prefill, layer_seconds))


def _times(*, layer_seconds: float) -> StepModel:
    return step_model(
        RANK,
        GPU,
        tensor_parallel=1,
        # the host of this series launched a step of 1,024 tokens in less than its kernels take
        calibration=dataclasses.replace(MEASURED, layer_seconds=layer_seconds, launch_layer_seconds=0.0),
    )


def _fit_prefill(prefill: Sequence[tuple[int, float]], layer_seconds: float) -> tuple[float, float, float]:
    """Least squares of relative errors in: multiplications and attention at the datasheet's rate, one constant."""
    ideal = step_model(
        RANK,
        GPU,
        tensor_parallel=1,
        calibration=dataclasses.replace(MEASURED, bf16_efficiency=1.0, attention_efficiency=1.0),
    )
    rows = []
    for tokens, seconds in prefill:
        steps = -(-tokens // BUDGET)
        known = steps * RANK.layers * layer_seconds + tokens * HAND_OFF.request_seconds_per_token
        known += MEASURED.sequence_seconds
        multiplying = tokens * ideal.linear_seconds_per_token + ideal.head_seconds_per_sequence
        attending = tokens * (tokens + 1) / 2 * ideal.attention_seconds_per_pair
        rows.append(([multiplying / seconds, attending / seconds, 1 / seconds], (seconds - known) / seconds))
    multiply, attend, constant = _least_squares(rows)
    return 1 / multiply, 1 / attend, constant


def _least_squares(rows: Sequence[tuple[Sequence[float], float]]) -> list[float]:
    """Solve the normal equations by Gaussian elimination; three unknowns need no library."""
    size = len(rows[0][0])
    matrix = [[sum(a[i] * a[j] for a, _ in rows) for j in range(size)] for i in range(size)]
    right = [sum(a[i] * b for a, b in rows) for i in range(size)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(matrix[row][column]))
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        right[column], right[pivot] = right[pivot], right[column]
        for row in range(column + 1, size):
            factor = matrix[row][column] / matrix[column][column]
            matrix[row] = [a - factor * b for a, b in zip(matrix[row], matrix[column], strict=True)]
            right[row] -= factor * right[column]
    solution = [0.0] * size
    for row in reversed(range(size)):
        known = sum(matrix[row][other] * solution[other] for other in range(row + 1, size))
        solution[row] = (right[row] - known) / matrix[row][row]
    return solution


def read(folder: Path) -> tuple[list[tuple[int, float]], list[tuple[int, int, float]]]:
    """Return the two series of `folder`, in seconds."""
    rows = [json.loads(line) for line in (folder / "calib.jsonl").read_text(encoding="utf-8").splitlines()]
    return (
        [(row["isl"], row["ms_median"] / 1e3) for row in rows if row["tag"] == "prefill_alone"],
        [(row["b"], row["ctx"], row["tpot_ms_median"] / 1e3) for row in rows if row["tag"] == "decode_step"],
    )


def main() -> int:
    folder = (
        Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "shared/measurements/h200"
    )
    if not (folder / "calib.jsonl").exists():
        print(f"no measurements in {folder}: nothing to reproduce")
        return 0
    prefill, decode = read(folder)
    fitted = fit(prefill, decode)
    catalog = Fit(
        MEASURED.layer_seconds,
        MEASURED.bf16_efficiency,
        MEASURED.attention_efficiency,
        HAND_OFF.request_seconds,
    )
    print(
        "set before: memory and cache efficiency, host work per sequence, seconds per prompt token of a request"
    )
    differs = False
    for name in ("layer_seconds", "bf16_efficiency", "attention_efficiency", "request_seconds"):
        found, written = getattr(fitted, name), getattr(catalog, name)
        error = found / written - 1
        differs |= abs(error) > TOLERANCE
        print(f"{name:<22} fitted {found:.4g}  catalog {written:.4g}  {error:+.1%}")
    times = _times(layer_seconds=fitted.layer_seconds)
    print("residuals, prefill alone:")
    for tokens, seconds in prefill:
        predicted = times.prefill_seconds(tokens, BUDGET) + (
            HAND_OFF.request_seconds + tokens * HAND_OFF.request_seconds_per_token
        )
        print(f"  {tokens:>6} tokens  measured {seconds * 1e3:7.1f} ms  model {predicted / seconds - 1:+.1%}")
    print("residuals, decode step:")
    for sequences, context, seconds in decode:
        predicted = times.decode_step_seconds(sequences, context)
        note = "" if sequences * context <= FEW_CACHED_TOKENS else "  (not fitted)"
        print(
            f"  {sequences:>2} × {context:>6}  measured {seconds * 1e3:6.2f} ms  model {predicted / seconds - 1:+.1%}{note}"
        )
    return int(differs)


if __name__ == "__main__":
    raise SystemExit(main())
