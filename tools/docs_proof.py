"""Write `docs/reference/proof.md`: every failure that a proof can tell, with cause, rules, runbook and what to do."""

from collections.abc import Iterator
from pathlib import Path

from hyperpod_dpd.evidence.proof.failures import FAILURES, Failure

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "proof.md"

INTRODUCTION = """\
# What a proof can tell

Generated from the code by `make generate`. [How to prove a deployment](../how-to/prove.md) says how to run one. Of each
topic, the first failure that applies is told: a hand-off whose keys differ also loads nothing, and only the former is
worth reading.
"""


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    topics = dict.fromkeys(failure.topic for failure in FAILURES)
    lines = [INTRODUCTION]
    for topic in topics:
        lines.append(f"## {topic.value.capitalize()}\n")
        for failure in FAILURES:
            if failure.topic is topic:
                lines.extend(_failure(failure))
    return "\n".join(lines).rstrip() + "\n"


def _failure(failure: Failure) -> Iterator[str]:
    says = (failure.seen.__doc__ or "").partition("\n")[0]
    yield f"### {failure.id}\n"
    shown = says.removeprefix("Say that ").removeprefix("Say ")
    yield f"{shown[0].upper()}{shown[1:]}\n"
    yield f"- Likely cause: {failure.cause}."
    if failure.rules:
        yield f"- Prevented by: {', '.join(map(_rule, failure.rules))}."
    yield f"- Do: {failure.fix}."
    if failure.runbook:
        yield f"- Goes on in: [{failure.runbook}](../runbooks/{failure.runbook}.md)."
    yield ""


def _rule(name: str) -> str:
    return f"[{name}](rules.md#{name.lower()})"


if __name__ == "__main__":
    main()
