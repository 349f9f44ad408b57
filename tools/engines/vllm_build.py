"""Build vLLM's engine configuration from `vllm serve` command lines; run by the Python of an environment that has it.

That is further than parsing: vLLM reads the model's `config.json` and checks one argument against another.
Reads a JSON list of argument lists on standard input, writes a JSON list of `{"values": …, "error": …}`.
"""

import json
import sys
from typing import Any

from vllm.engine.arg_utils import AsyncEngineArgs  # type: ignore[import-not-found]
from vllm.entrypoints.openai.cli_args import make_arg_parser  # type: ignore[import-not-found]
from vllm.usage.usage_lib import UsageContext  # type: ignore[import-not-found]
from vllm.utils.argparse_utils import FlexibleArgumentParser  # type: ignore[import-not-found]


def _build(parser: Any, arguments: list[str]) -> dict[str, Any]:
    namespace = parser.parse_args(arguments)
    # what `vllm serve` does with its positional argument
    namespace.model = namespace.model_tag
    try:
        config = AsyncEngineArgs.from_cli_args(namespace).create_engine_config(
            usage_context=UsageContext.OPENAI_API_SERVER
        )
    except ValueError as error:
        return {"values": None, "error": str(error)}
    connector = config.kv_transfer_config.kv_connector if config.kv_transfer_config else None
    values = {
        "connector": connector,
        "tensor_parallel": config.parallel_config.tensor_parallel_size,
        "max_model_len": config.model_config.max_model_len,
        "max_num_batched_tokens": config.scheduler_config.max_num_batched_tokens,
        "max_num_seqs": config.scheduler_config.max_num_seqs,
        "prefix_caching": config.cache_config.enable_prefix_caching,
        "dtype": str(config.model_config.dtype),
        "kv_heads_per_rank": config.model_config.get_num_kv_heads(config.parallel_config),
        "layers": config.model_config.get_total_num_hidden_layers()
        if hasattr(config.model_config, "get_total_num_hidden_layers")
        else config.model_config.hf_text_config.num_hidden_layers,
        "head_size": config.model_config.get_head_size(),
    }
    return {"values": values, "error": None}


if __name__ == "__main__":
    serve = make_arg_parser(FlexibleArgumentParser())
    # progress and warnings of the import belong on the other stream
    print(json.dumps([_build(serve, arguments) for arguments in json.load(sys.stdin)]))
