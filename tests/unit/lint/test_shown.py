"""What lint says about AWS's example, about our own manifests, and about faults that were reported in public."""

import re
from pathlib import Path

import pytest

from hyperpod_dpd.lint import lint_manifests
from hyperpod_dpd.lint.check import Linted, lint_documents
from hyperpod_dpd.lint.read import read
from hyperpod_dpd.rules import Subject, rules

_ROOT = Path(__file__).parents[3]
_SETS = Path(__file__).parent / "sets"
_FAULTS = sorted((Path(__file__).parent / "faults").glob("*.yaml"))
_WITHOUT_ENGINE = {"platform", "proof"}
"""Monitors and dashboards; the Job that looks at what is installed beside it."""

_RENDERED = sorted(path for path in (_ROOT / "manifests/rendered").glob("*/*") if path.is_dir())


def _linted(path: Path) -> Linted:
    return lint_documents(read([path]))


def test_aws_s_own_example_has_warnings_only() -> None:
    report = _linted(_SETS / "aws-dpd-example.yaml")
    assert report.errors == ()
    assert {finding.rule for finding in report.warnings} == {
        "DPD-LINT-414",  # `worker.resources` is ignored beside `pdSpec`
        "DPD-LINT-416",  # 16 prompts of full length exceed 8 GiB
        "DPD-LINT-508",  # prefix caching is left on
        "DPD-LINT-512",  # LMCache 0.4.3 blocks inside a step
    }
    assert [worker.role.value for worker in report.manifests.workers] == ["prefill", "decode"]
    assert report.notes == ()


def test_one_path_is_enough_and_may_be_text() -> None:
    path = _SETS / "aws-dpd-example.yaml"
    assert lint_manifests(str(path)) == lint_manifests(path) == lint_manifests([path])


def test_what_cannot_be_accepted_is_said_at_once() -> None:
    with pytest.raises(ValueError, match="unknown rule") as refused:
        lint_manifests(_SETS / "aws-dpd-example.yaml", accept=["DPD-NET-003", "DPD-LINT-101", "DPD-LINT-508"])
    said = str(refused.value).splitlines()
    assert [line.partition(". help: ")[0] for line in said] == [
        "an error cannot be accepted: `DPD-LINT-101`",
        "unknown rule `DPD-NET-003`",
    ]


def test_an_error_is_never_accepted() -> None:
    (faults,) = (path for path in _FAULTS if path.name.startswith("01-"))
    report = lint_documents(read([faults]), accept={"DPD-LINT-101"})
    assert "DPD-LINT-101" in {finding.rule for finding in report.errors}
    assert report.accepted == ()


@pytest.mark.parametrize("folder", _RENDERED, ids=lambda path: "/".join(path.parts[-2:]))
def test_rendered_profile_has_no_error_and_nothing_unknown(folder: Path) -> None:
    report = _linted(folder)
    assert [str(finding) for finding in report.errors] == []
    assert report.manifests.unknown == ()
    assert report.manifests.unresolved == ()
    assert bool(list(report.manifests.workers)) == (folder.name not in _WITHOUT_ENGINE)


@pytest.mark.parametrize("folder", _RENDERED, ids=lambda path: "/".join(path.parts[-2:]))
def test_rendered_profile_warns_of_what_the_deployment_acknowledges_and_of_nothing_else(folder: Path) -> None:
    expected: set[str] = set()
    if folder.name in _WITHOUT_ENGINE:
        expected = {"DPD-LINT-006"}
    elif folder.name == "operator":
        expected = {"DPD-LINT-414", "DPD-LINT-416", "DPD-LINT-512"}
    elif folder.name == "self-managed" and "p5-p5en" in folder.parent.name:
        expected = {"DPD-LINT-303"}  # 32 and 16 EFA devices
    assert {finding.rule for finding in lint_manifests([folder]).findings} == expected


@pytest.mark.parametrize("name", ["lmcache-pair", "nixl-pair"])
def test_sets_written_as_public_ones_are_clean(name: str) -> None:
    report = _linted(_SETS / name)
    assert [str(finding) for finding in report.findings] == []
    assert {worker.role.value for worker in report.manifests.workers} == {"prefill", "decode"}


@pytest.mark.parametrize("path", _FAULTS, ids=lambda path: path.stem)
def test_fault_from_public_is_named_and_nothing_else_is(path: Path) -> None:
    header = re.search(r"^# expects: (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert header
    report = lint_manifests([path])
    assert sorted({finding.rule for finding in report.errors}) == header.group(1).split(", ")
    lines = len(path.read_text(encoding="utf-8").split("\n"))
    for finding in report.findings:
        assert finding.file == str(path)
        assert finding.line is not None
        assert 1 <= finding.line <= lines
        assert finding.problem.given
        assert finding.problem.fix


def test_there_are_more_than_ten_faults_with_a_public_source() -> None:
    assert len(_FAULTS) > 10
    for path in _FAULTS:
        source = path.read_text(encoding="utf-8").split("\n", 1)[0]
        assert source.startswith("# source: "), path
        assert len(source) > len("# source: ")


def test_a_finding_stands_where_the_mistake_is_written() -> None:
    report = lint_manifests([_FAULTS[0]])
    text = _FAULTS[0].read_text(encoding="utf-8").split("\n")
    at = [text[finding.line - 1].strip() for finding in report.errors if finding.line is not None]
    assert at == ["pd_peer_init_port: 7300", "pd_peer_alloc_port: 7400"]


def test_problems_read_as_sentences() -> None:
    for path in _FAULTS:
        for finding in lint_manifests([path]).findings:
            problem = finding.problem
            assert problem.says[0].islower() or problem.says[0] == "`" or problem.says.split()[0] in _NAMES
            assert not problem.says.endswith(".")
            assert not problem.fix.endswith(".")


_NAMES = {"Deployment", "EFA", "LMCache", "Service", "vLLM", "NCCL", "NetworkPolicy"}


def test_rules_about_manifests_have_an_id_of_their_own() -> None:
    about = [rule for rule in rules().values() if rule.subject is Subject.MANIFEST]
    assert len(about) > 60
    assert [rule.id for rule in about if not rule.id.startswith("DPD-LINT-")] == []
