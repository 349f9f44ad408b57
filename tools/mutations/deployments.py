"""Wrong edits of the shipped deployment files: typing mistakes, and every failing case of a rule's own examples."""

import importlib
import json
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from hyperpod_dpd.rules import Subject, rules
from tests.unit.rules import examples
from tests.unit.rules.example import DEFAULT, Bad, Example, changed_data
from tools.mutations.edit import ROOT, Edit

DEFAULT_FILE = DEFAULT.relative_to(ROOT)
UNREADABLE = "unreadable"
"""Expected of an edit that makes the file no deployment at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The failing case of a rule, written into the shipped file."""

    expects: str
    case: Mapping[str, Any]

    @property
    def says(self) -> str:
        """What is changed, on one line."""
        return ", ".join(f"{path}: {_shown(value)}" for path, value in self.case.items())

    def text(self) -> str:
        """Return the deployment file with the change."""
        return yaml.safe_dump(changed_data(self.case), sort_keys=False)


def _shown(value: object) -> str:
    text = json.dumps(value, default=lambda _: "removed")
    return text if len(text) <= 60 else f"{text[:59]}…"


def changes() -> Iterator[Change]:
    """Yield every failing case of every rule about deployments, those with the fewest changes first."""
    known = rules()
    for module in pkgutil.iter_modules(examples.__path__):
        example: Example
        for example in importlib.import_module(f"{examples.__name__}.{module.name}").EXAMPLES:
            if known[example.rule].subject is not Subject.DEPLOYMENT:
                continue
            cases: list[Bad] = sorted(example.bad, key=lambda bad: len(bad.case))
            # what the shipped file violates and acknowledges is no edit, and stays acknowledged with one
            yield from (
                Change(expects=example.rule, case=bad.case)
                for bad in cases
                if bad.case and example.rule not in _ACKNOWLEDGED
            )


def edits() -> Iterator[Edit]:
    """Yield mistakes of the kind that a keyboard makes, and acknowledgements that are forgotten or invented."""
    for old, new in _TYPING:
        yield Edit(expects=UNREADABLE, base=DEFAULT_FILE, old=old, new=new)
    for expects, old, new in _ACKNOWLEDGEMENTS:
        yield Edit(expects=expects, base=DEFAULT_FILE, old=old, new=new)


_ACKNOWLEDGED = frozenset({"DPD-EKS-001"})
_ACKNOWLEDGEMENTS = (
    ("DPD-EKS-001", "  - rule: DPD-EKS-001", "  - rule: DPD-EKS-007"),
    ("DPD-ACK-001", "  - rule: DPD-EKS-001", "  - rule: DPD-EKS-999"),
    ("DPD-ACK-002", "  - rule: DPD-EKS-001", "  - rule: DPD-SRV-004"),
    ("DPD-ACK-003", "  - rule: DPD-EKS-001", "  - rule: DPD-NET-003"),
)


_TYPING = (
    ("name: llama-3-3-70b-p5", "nmae: llama-3-3-70b-p5"),
    ("name: llama-3-3-70b-p5", "name: llama-3-3-70b-p5\nname: other"),
    ("region: us-east-1", "region: [us-east-1]"),
    ("region: us-east-1", "region:"),
    ("region: us-east-1", "\tregion: us-east-1"),
    ("region: us-east-1", "region: &region us-east-1\naccount: *region"),
    ("region: us-east-1", "region: !!python/object us-east-1"),
    ("region: us-east-1", "region: us-east-1\n---\nregion: us-east-2"),
    ("tensor_parallel: 8", 'tensor_parallel: "8"'),
    ("tensor_parallel: 8", "tensor_parallel: eight"),
    ("tensor_parallel: 8", "tensor_parallel: 0"),
    ("tensor_parallel: 8", "tensor_parallel: 8.5"),
    ("tensor_parallel: 8", "tensor_paralel: 8"),
    ("tensor_parallel: 8", "tensor_parallel: -8"),
    ("tensor_parallel: 8", "tensor_parallel: .nan"),
    ("instance_groups:", "instance_group:"),
    ("role: prefill", "role: prefiller"),
)
