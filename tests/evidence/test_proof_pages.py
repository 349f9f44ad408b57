"""The pages about the proof say what the tests show."""

import re

from tests.evidence.scenarios import SCENARIOS
from tests.support.deployments import ROOT
from tools.docs_proof import PAGE, page


def test_the_reference_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make generate`"


def test_the_table_of_what_is_broken_is_that_of_the_tests() -> None:
    text = (ROOT / "docs/how-to/prove.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| `([a-z-]+)` \|$", text, re.MULTILINE)
    assert rows == [(name, scenario.finding) for name, scenario in SCENARIOS.items()]
