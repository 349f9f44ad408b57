"""What `hyperpod_dpd` exports is the library; a change of it is seen, named and documented."""

import builtins
import dataclasses
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, ClassVar

import pytest
from constructs import Construct

import hyperpod_dpd
from hyperpod_dpd import ClusterHandle, ExistingNetwork, JobComplete, Rollout, json_schema, spec
from tools import public_api
from tools.public_api import FILE, attributes, describe, exports, handed_out, text

_EXPORTS = exports()


def _qualified(lines: list[str]) -> Iterator[str]:
    """Yield every line with the class that it belongs to."""
    owner = ""
    for line in lines:
        if line.startswith("    "):
            yield f"{owner}: {line.strip()}"
        else:
            owner = line.removeprefix("class ").partition("(")[0]
            yield line


def test_public_surface_is_the_recorded_one() -> None:
    recorded, now = FILE.read_text(encoding="utf-8").splitlines(), text().splitlines()
    before, after = list(_qualified(recorded)), list(_qualified(now))
    changed = [f"- {line}" for line in before if line not in after]
    changed += [f"+ {line}" for line in after if line not in before]
    assert recorded == now, (
        "the public surface changed:\n"
        + "\n".join(changed or ["the order of its lines"])
        + "\nhelp: a name, a parameter or an attribute that is gone or has another type breaks its users (see "
        "docs/explanation/stability.md). Where that is meant, run `make generate` and add a fragment to `changelog.d/`"
    )


def test_every_parameter_result_and_attribute_has_a_type() -> None:
    untyped = [line for line in _qualified(text().splitlines()) if re.search(r"\?(?!\w)", line)]
    assert untyped == [], (
        "no type is declared. help: annotate it, attributes of a construct in the body of its class"
    )


def _describes_its_attributes(thing: object) -> bool:
    """Tell classes with a section of attributes from those that say below each field what it is."""
    return (
        inspect.isclass(thing)
        and not dataclasses.is_dataclass(thing)
        and not vars(thing).get("_is_protocol")
        and bool(attributes(thing))
    )


@pytest.mark.parametrize("name", [name for name in _EXPORTS if _describes_its_attributes(_EXPORTS[name])])
def test_every_attribute_says_what_it_is(name: str) -> None:
    thing = _EXPORTS[name]
    described = {
        attribute
        for each in thing.__mro__
        if each.__module__.startswith("hyperpod_dpd.")
        for section in re.findall(r"^Attributes:\n((?: {4}.*\n?)+)", inspect.getdoc(each) or "", re.MULTILINE)
        for attribute in re.findall(r"^ {4}(\w+):", section, re.MULTILINE)
    }
    assert described == set(attributes(thing)), "help: list it under `Attributes:` of the docstring"


def test_what_is_handed_out_is_recorded_with_what_it_hands_out() -> None:
    found = handed_out()
    # a plan's verdict, of its comparisons, of their capacities
    assert {"Verdict", "Comparison", "Capacity", "Shape"} <= found.keys()
    assert found.keys().isdisjoint(hyperpod_dpd.__all__)


def test_whatever_a_user_has_to_pass_is_exported() -> None:
    results = {
        each
        for name, thing in handed_out().items()
        if inspect.isclass(thing)
        for each in (name, thing.__name__)
    }
    passed = [
        line
        for line in _qualified([line for name in _EXPORTS for line in describe(name, _EXPORTS[name])])
        if (parameters := re.search(r"\((?!StrEnum|Enum)(.*)\)", line)) and not line.startswith("class ")
        if results & set(re.findall(r"\w+", re.sub(r"\w+: ", "", parameters[1])))
    ]
    assert passed == []


class _Base:
    inherited: int


class _Example(_Base):
    """Declares some of what it has."""

    declared: tuple[str, ...]
    shared: ClassVar[str] = "shared"
    assigned = 1

    def __init__(self, *, given: str) -> None:
        self.declared = (given,)
        self.set, self._private = given, given

    @property
    def computed(self) -> float:
        return 1.0

    @classmethod
    def made(cls, times: int) -> "_Example":
        return cls(given="made" * times)


def test_declared_attributes_have_their_type_and_others_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_api, "_LIBRARY", __name__)
    assert list(describe("Example", _Example)) == [
        "class Example(_Base)",
        "    __init__(*, given: str) -> None",
        "    inherited: int",
        "    declared: tuple[str, ...]",
        "    shared: ClassVar[str]",
        "    assigned: ?",
        "    set: ?",
        "    computed: float",
        "    made(times: int) -> _Example",
    ]


def _takes_arguments(thing: object) -> bool:
    if inspect.isclass(thing):
        made_by_the_library = issubclass(thing, BaseException | Enum) or vars(thing).get("_is_protocol")
        return "__init__" in vars(thing) and not made_by_the_library and not _is_result_or_value(thing)
    return inspect.isfunction(thing) and bool(inspect.signature(thing).parameters)


def _is_result_or_value(thing: type) -> bool:
    """Tell what the library returns and what the rules judge from dataclasses that users pass to constructs."""
    return dataclasses.is_dataclass(thing) and thing not in {
        ClusterHandle,
        ExistingNetwork,
        JobComplete,
        Rollout,
    }


@pytest.mark.parametrize("name", [name for name, thing in _EXPORTS.items() if _takes_arguments(thing)])
def test_wrong_arguments_are_refused_where_they_are_given(name: str) -> None:
    thing = _EXPORTS[name]
    called = thing.__init__ if inspect.isclass(thing) else thing
    assert hasattr(called, "__wrapped__"), "help: decorate it with `hyperpod_dpd.spec.arguments.checked`"


def test_every_error_that_is_raised_is_public_or_built_in() -> None:
    unknown = []
    for name, thing in _EXPORTS.items():
        functions: list[Any] = (
            [thing, *vars(thing).values()] if inspect.isclass(thing) else [thing] if callable(thing) else []
        )
        for function in functions:
            section = re.search(r"^Raises:\n((?: {4}.*\n?)+)", inspect.getdoc(function) or "", re.MULTILINE)
            raised = re.findall(r"^ {4}(\w+):", section[1], re.MULTILINE) if section else []
            unknown += [
                f"{name}: {error}"
                for error in raised
                if error not in _EXPORTS and not hasattr(builtins, error)
            ]
    assert unknown == [], "help: export the error, or document the built-in one that it is"


@pytest.mark.parametrize("name", hyperpod_dpd.__all__)
def test_every_public_name_says_what_it_is(name: str) -> None:
    thing = getattr(hyperpod_dpd, name)
    if inspect.isclass(thing) or inspect.isfunction(thing):
        assert (inspect.getdoc(thing) or "").strip(), name


def test_every_construct_accepts_interfaces_and_keyword_only_options() -> None:
    concrete = {"vpc: Vpc", "bucket: Bucket", "key: Key", "topic: Topic", "role: Role"}
    wrong = []
    constructs = {
        name: thing
        for name in hyperpod_dpd.__all__
        if inspect.isclass(thing := getattr(hyperpod_dpd, name)) and issubclass(thing, Construct)
    }
    assert {"DpdNetwork", "HyperPodCluster"} <= constructs.keys()
    for name, thing in constructs.items():
        parameters = list(inspect.signature(thing.__init__).parameters.values())
        wrong += [
            f"{name}: {parameter.name}"
            for parameter in parameters[3:]
            if parameter.kind is not parameter.KEYWORD_ONLY
        ]
        wrong += [
            f"{name}: {parameter.name}"
            for parameter in parameters
            if f"{parameter.name}: {getattr(parameter.annotation, '__name__', '')}" in concrete
            and parameter.annotation.__module__.startswith("aws_cdk.")
        ]
    assert wrong == []


def test_every_value_of_the_deployment_file_is_public() -> None:
    assert set(spec.__all__) - set(hyperpod_dpd.__all__) == set()
    sections = set(json_schema()["$defs"])
    assert sections - set(hyperpod_dpd.__all__) == set()
