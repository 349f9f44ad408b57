"""The page about lint names rules that exist."""

import re

from hyperpod_dpd.rules import rules
from tests.support.deployments import ROOT

_PAGE = (ROOT / "docs/how-to/lint.md").read_text(encoding="utf-8")


def test_rules_that_the_page_names_exist() -> None:
    named = set(re.findall(r"DPD-LINT-\d+", _PAGE))
    assert named
    assert named <= rules().keys()
