"""The page of rules is what the code says, and says it about every rule."""

import re

from hyperpod_dpd.rules import rules
from tools.docs_rules import AREAS, PAGE, page


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make drift`"


def test_every_rule_is_on_the_page_once() -> None:
    listed = re.findall(r"\*\*(DPD-[A-Z0-9]+-\d+)\*\*", PAGE.read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(rules())


def test_every_area_has_a_title() -> None:
    assert {rule.split("-")[1] for rule in rules()} == AREAS.keys()
