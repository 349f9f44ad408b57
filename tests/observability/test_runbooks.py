"""Every alert leads to a page that exists, and the pages lead somewhere."""

import re
from pathlib import Path

import pytest

from hyperpod_dpd.observability.rules import Severity
from tests.observability.test_alerts import variants
from tests.observability.test_live import SCENARIOS
from tests.observability.test_metrics import known
from tests.support.deployments import ROOT
from tools.docs_alerts import PAGE, page

RUNBOOKS = sorted((ROOT / "docs" / "runbooks").glob("*.md"))


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    alerts = {each.name: each for groups in variants().values() for group in groups for each in group.alerts}
    assert {path.stem for path in RUNBOOKS} == set(alerts)
    for alert in alerts.values():
        assert (ROOT / alert.runbook).is_file()


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda path: path.stem)
def test_a_runbook_says_what_to_look_at_and_what_to_do(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith(f"# {path.stem}\n")
    assert re.search(r"^## Look at\n\n1\. ", text, re.MULTILINE)
    assert re.search(r"^## Do\n\n- ", text, re.MULTILINE)
    for target in re.findall(r"\]\(([^)#]+)", text):
        assert (path.parent / target).is_file(), target


def test_the_page_of_alerts_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make drift`"


def test_anchors_into_the_page_exist() -> None:
    headings = {line[3:].lower() for line in page().splitlines() if line.startswith("## ")}
    for path in RUNBOOKS:
        for anchor in re.findall(r"alerts\.md#(\w+)", path.read_text(encoding="utf-8")):
            assert anchor in headings


def test_the_table_of_faults_is_that_of_the_tests() -> None:
    text = (ROOT / "docs" / "observability.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| `(Dpd\w+)` \| (\d+) min \|$", text, re.MULTILINE)
    assert sorted(rows) == sorted((each.alert, f"{each.within_minutes}") for each in SCENARIOS.values())


def commands(path: Path) -> list[str]:
    """Return the lines that a runbook gives to be run."""
    blocks = re.findall(
        r"^ *```bash\n(.*?)^ *```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    return [line.strip() for block in blocks for line in block.splitlines()]


def test_whoever_is_called_at_night_finds_the_next_command() -> None:
    critical = {
        each.name
        for groups in variants().values()
        for group in groups
        for each in group.alerts
        if each.severity is Severity.CRITICAL
    }
    assert {path.stem for path in RUNBOOKS if commands(path)} >= critical


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda path: path.stem)
def test_what_a_command_looks_for_is_what_the_router_says(path: Path) -> None:
    sources = sorted((ROOT / "router" / "dpd_router").rglob("*.py"))
    text = "\n".join(source.read_text(encoding="utf-8") for source in sources)
    metrics = known()
    for line in commands(path):
        assert line.startswith(("kubectl ", "dpd ", "curl "))
        if "deploy/router" in line and (pattern := re.search(r"grep -E '([^']+)'", line)):
            assert [each for each in pattern[1].split("|") if each not in text] == []
        for names in re.findall(r"grep -E '\^\((dpd_router_[^)]+)\)'", line):
            assert set(names.split("|")) <= metrics
