"""Ask aiconfigurator-core's kernel tables for step times; run by the Python of an environment that has it.

Reads a JSON list of `{"system": …, "weights": …, "tensor_parallel": …, "prompt": …, "batches": […], "context": …}` on
standard input, writes a JSON list of `{"prefill_ms": …, "decode_ms": {"batch": …}}`. The model is Llama 3.1 70B, whose
shape is that of 3.3.
"""

import json
import sys
from typing import Any

from aiconfigurator_core.sdk.engine import EngineHandle  # type: ignore[import-not-found]

_MODEL = "meta-llama/Meta-Llama-3.1-70B"
_QUANTIZATION = {"bf16": "bfloat16", "fp8": "fp8"}


def _steps(question: dict[str, Any]) -> dict[str, Any]:
    handle = EngineHandle.compile(
        _MODEL,
        question["system"],
        "vllm",
        tp_size=question["tensor_parallel"],
        gemm_quant_mode=_QUANTIZATION[question["weights"]],
    )
    return {
        "prefill_ms": handle.predict_prefill_latency(1, question["prompt"]),
        "decode_ms": {
            str(batch): handle.predict_decode_latency(batch, question["context"], 2)
            for batch in question["batches"]
        },
    }


if __name__ == "__main__":
    answers = [_steps(question) for question in json.load(sys.stdin)]
    sys.stdout.write(json.dumps(answers))
