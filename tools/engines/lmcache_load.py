"""Load LMCache configuration files with LMCache's own loader; run by the Python of an environment that has it.

Reads a JSON list of paths on standard input, writes a JSON list of `{"values": …, "warnings": …, "error": …}`.
"""

import json
import logging
import sys
from typing import Any

from lmcache.v1.config import LMCacheEngineConfig  # type: ignore[import-not-found]


class _Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def _load(path: str) -> dict[str, Any]:
    heard = _Warnings()
    loggers = [
        logging.getLogger(name) for name in logging.root.manager.loggerDict if name.startswith("lmcache")
    ]
    for logger in loggers:
        logger.addHandler(heard)
    try:
        config = LMCacheEngineConfig.from_file(path)
        config.validate()
    except (AssertionError, ValueError, TypeError) as error:
        return {"values": None, "warnings": heard.texts, "error": f"{type(error).__name__}: {error}"}
    finally:
        for logger in loggers:
            logger.removeHandler(heard)
    values = json.loads(json.dumps(config.to_dict(), default=str))
    return {"values": values, "warnings": heard.texts, "error": None}


if __name__ == "__main__":
    answers = [_load(path) for path in json.load(sys.stdin)]
    sys.stdout.write(json.dumps(answers))
