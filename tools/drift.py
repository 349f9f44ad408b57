"""Fail when a generated file differs from what the code would write now.

Every generator is listed here once; `python tools/drift.py --write` runs them in place.
"""

import subprocess
import sys

GENERATORS: tuple[tuple[str, ...], ...] = (
    # (files and folders that are generated, command that rewrites them)
    ("deployments/deployment.schema.json", sys.executable, "-m", "tools.docs_schema"),
    ("docs/reference/rules.md", sys.executable, "-m", "tools.docs_rules"),
    ("docs/reference/deployment.md", sys.executable, "-m", "tools.docs_deployment"),
    ("docs/reference/cli.md", sys.executable, "-m", "tools.docs_cli"),
    ("docs/reference/bindings.md", sys.executable, "-m", "tools.docs_bindings"),
    ("docs/reference/metrics.md", sys.executable, "-m", "tools.docs_metrics"),
    ("docs/reference/library.md", sys.executable, "-m", "tools.docs_library"),
    ("docs/observability", sys.executable, "-m", "tools.docs_dashboards"),
    ("docs/reference/alerts.md", sys.executable, "-m", "tools.docs_alerts"),
    ("docs/reference/proof.md", sys.executable, "-m", "tools.docs_proof"),
    ("docs/evidence/h200-two-gpus.md", sys.executable, "-m", "tools.evidence.table"),
    ("tests/unit/public_api.txt", sys.executable, "-m", "tools.public_api"),
    ("manifests/rendered", sys.executable, "manifests/main.py"),
    ("README.md docs/tutorial.md", sys.executable, "-m", "tools.docs_synth"),
    # after the manifests, which one of the pictures is drawn from
    ("docs/diagrams", sys.executable, "-m", "tools.docs_diagrams"),
)


def main() -> int:
    write = "--write" in sys.argv[1:]
    for name, *command in GENERATORS:
        print(f"generate {name}")
        subprocess.run(command, check=True)
    if write:
        return 0
    paths = [path for names, *_ in GENERATORS for path in names.split()]
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--", *paths], check=True, capture_output=True, text=True
    ).stdout
    if changed:
        print(
            f"error: generated files differ from what the code says:\n{changed}help: commit what this run wrote"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
