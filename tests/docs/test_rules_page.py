"""The page of rules is what the code says, and says it about every rule."""

import re

from hyperpod_dpd.rules import Subject, rules
from hyperpod_dpd.rules.registry import rules_about
from tests.support.deployments import ROOT
from tools.docs_rules import AREAS, PAGE, page


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make drift`"


def test_every_rule_is_on_the_page_once() -> None:
    listed = re.findall(r"^### (DPD-[A-Z0-9]+-\d+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(listed) == sorted(rules())


def test_every_area_has_a_title() -> None:
    assert {rule.split("-")[1] for rule in rules()} == AREAS.keys()


def test_the_readme_promises_no_more_rules_than_a_check_runs() -> None:
    promised = re.search(r"more than (\d+) checked rules", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert promised is not None
    assert int(promised[1]) < len(rules_about(Subject.DEPLOYMENT))
