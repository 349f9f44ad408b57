"""Print the words that the engine of this environment knows, one a line; run by the environment's own Python.

.engines/vllm-0.25.1/bin/python tools/engines/words.py vllm
.engines/lmcache-0.5.3/bin/python tools/engines/words.py lmcache
"""

import sys
from collections.abc import Iterable


def _vllm() -> Iterable[str]:
    from vllm.entrypoints.openai.cli_args import make_arg_parser  # type: ignore[import-not-found]  # noqa: PLC0415
    from vllm.utils.argparse_utils import FlexibleArgumentParser  # type: ignore[import-not-found]  # noqa: PLC0415

    parser = make_arg_parser(FlexibleArgumentParser())
    return {option for action in parser._actions for option in action.option_strings}  # noqa: SLF001


def _lmcache() -> Iterable[str]:
    from lmcache.v1.config import _CONFIG_DEFINITIONS  # type: ignore[import-not-found]  # noqa: PLC0415

    return set(_CONFIG_DEFINITIONS)


if __name__ == "__main__":
    print("\n".join(sorted({"vllm": _vllm, "lmcache": _lmcache}[sys.argv[1]]())))
