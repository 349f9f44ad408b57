"""Bring what `make synth` prints up to date where README.md and the tutorial show it."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "tutorial.md")
SHOWN = re.compile(r"(\$ make synth\n…\n)(?:.*\n)*?(```)")


def printed() -> str:
    """Return the summary of `make synth`, which the CLI and the manifests follow with a few lines."""
    # as the CLI asks, which then adds a resource to every stack
    flags = {
        **json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"],
        "aws:cdk:version-reporting": True,
    }
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "app.py"],
            cwd=ROOT,
            env={
                **os.environ,
                "CDK_OUTDIR": folder,
                "CDK_CONTEXT_JSON": json.dumps(flags),
                "CDK_VALIDATION": "false",
            },
            capture_output=True,
            text=True,
            check=True,
        )
    return done.stdout


def main() -> int:
    output = printed()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        written, count = SHOWN.subn(lambda found: f"{found[1]}{output}…\n{found[2]}", text)
        if count != 1:
            print(
                f"error: {page.name} shows `make synth` {count} times with its summary",
                file=sys.stderr,
            )
            return 1
        page.write_text(written, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
