"""Parse `vllm serve` command lines with vLLM's own parser; run by the Python of an environment that has it.

Reads a JSON list of argument lists on standard input, writes a JSON list of `{"values": …, "error": …}`.
"""

import contextlib
import io
import json
import sys
from typing import Any

from vllm.entrypoints.openai.cli_args import (  # type: ignore[import-not-found]
    make_arg_parser,
    validate_parsed_serve_args,
)
from vllm.utils.argparse_utils import FlexibleArgumentParser  # type: ignore[import-not-found]


def _parse(parser: Any, arguments: list[str]) -> dict[str, Any]:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            namespace = parser.parse_args(arguments)
            validate_parsed_serve_args(namespace)
    except SystemExit:
        return {"values": None, "error": said.getvalue()}
    except (TypeError, ValueError) as error:
        return {"values": None, "error": str(error)}
    return {"values": json.loads(json.dumps(vars(namespace), default=_plain)), "error": None}


def _plain(value: Any) -> Any:
    return vars(value) if hasattr(value, "kv_connector") else str(value)


if __name__ == "__main__":
    serve = make_arg_parser(FlexibleArgumentParser())
    # progress and warnings of the import belong on the other stream
    print(json.dumps([_parse(serve, arguments) for arguments in json.load(sys.stdin)]))
