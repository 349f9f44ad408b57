"""Write deployments/deployment.schema.json, which editors read by the first line of a deployment file."""

import json
import sys
from pathlib import Path

from hyperpod_dpd.spec.schema import json_schema

FILE = Path(__file__).resolve().parent.parent / "deployments" / "deployment.schema.json"


def text() -> str:
    """Return what `dpd schema` prints."""
    return json.dumps(json_schema(), indent=2) + "\n"


def main() -> int:
    FILE.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
