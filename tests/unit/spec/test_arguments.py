"""A wrong argument is refused where it is given, in words that say what was given, what fits, and what to do."""

import dataclasses
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import annotated_types as at
import pytest

from hyperpod_dpd.spec import Deployment, InstanceGroup, Network, Serving, Worker
from hyperpod_dpd.spec.arguments import checked, checked_fields
from hyperpod_dpd.spec.forms import Label
from hyperpod_dpd.spec.load import load
from hyperpod_dpd.spec.value import NonEmptyStr, PositiveInt
from tests.support.deployments import ROOT, changed, ready

FILE = load(ROOT / "deployments/llama-3.3-70b-p5.yaml")


class Colour(StrEnum):
    DARK_RED = "dark-red"
    BLUE = "blue"


class Paints(Protocol):
    colour: Colour

    def paint(self) -> None: ...


class Brush:
    colour = Colour.BLUE

    def paint(self) -> None: ...


class Stick:
    colour = Colour.BLUE


Paints.__module__ = "hyperpod_dpd.example"


@checked
def use(
    *,
    name: NonEmptyStr = "a",
    label: Label = "a",
    count: PositiveInt = 1,
    share: float = 1,
    on: bool = True,
    mode: Literal["enforced", "rendered-only"] = "enforced",
    texts: Sequence[str] = (),
    some: Annotated[Sequence[int], at.MinLen(1)] = (1,),
    place: str | Path = "a",
    path: Path | None = None,
    colour: Colour = Colour.BLUE,
    deployment: Deployment = FILE.deployment,
    network: Network = FILE.deployment.network,
    table: Mapping[str, int] | None = None,
    paints: Paints | None = None,
    anything: Any = None,
) -> str:
    """Use all of it.

    Args:
        name: who it is; others
            know it.
        count: how many.
    """
    return "used"


@pytest.mark.parametrize(
    ("given", "kind", "says"),
    [
        ({"name": 3}, TypeError, "`use(name=…)` should be text: given `3`. help: give what it is for: who it is; others know it"),
        ({"name": ""}, ValueError, "`use(name=…)` should have at least 1 character: given `''`. help: give what it is for: who it is; others know it"),
        ({"label": "My Name"}, ValueError, "`use(label=…)` should be a name of 1 to 63 lower-case letters, digits or hyphens, no hyphen first or last: given `'My Name'`. help: give one"),
        ({"count": 0}, ValueError, "`use(count=…)` should be at least 1: given `0`. help: give what it is for: how many"),
        ({"count": True}, TypeError, "`use(count=…)` should be a whole number: given `True`. help: give what it is for: how many"),
        ({"share": "1"}, TypeError, "`use(share=…)` should be a number: given `'1'`. help: give a number"),
        ({"on": 1}, TypeError, "`use(on=…)` should be `True` or `False`: given `1`. help: give `True` or `False`"),
        ({"mode": "enforce"}, ValueError, "`use(mode=…)` should be `enforced` or `rendered-only`: given `'enforce'`. help: did you mean `enforced`?"),
        ({"texts": "abc"}, TypeError, "`use(texts=…)` should be several: given `'abc'`. help: put it into a list: `['abc']`"),
        ({"texts": ["a", None]}, TypeError, "`use(texts[1]=…)` should be text: given `None`. help: give text"),
        ({"texts": 4}, TypeError, "`use(texts=…)` should be several: given `4`. help: put them into a list"),
        ({"texts": (each for each in "ab")}, TypeError, "`use(texts=…)` should be several: given a `generator`. help: put them into a list"),
        ({"texts": {"a": 1}}, TypeError, "`use(texts=…)` should be several: given a `dict`. help: put them into a list"),
        ({"table": {1: 2}}, TypeError, "`use(table[1]=…)` should be text: given `1`. help: give text"),
        ({"table": {"a": None}}, TypeError, "`use(table['a']=…)` should be a whole number: given `None`. help: give a whole number"),
        ({"some": []}, ValueError, "`use(some=…)` should have at least 1: given none. help: give one"),
        ({"place": None}, TypeError, "`use(place=…)` should be text or a `Path`: given `None`. help: give text"),
        ({"path": "a"}, TypeError, "`use(path=…)` should be a `Path`: given `'a'`. help: make one with `pathlib.Path(...)`"),
        ({"colour": "dark-red"}, TypeError, "`use(colour=…)` should be a `Colour`: given `'dark-red'`. help: give `Colour.DARK_RED`"),
        ({"colour": "Dark_Red"}, TypeError, "`use(colour=…)` should be a `Colour`: given `'Dark_Red'`. help: give `Colour.DARK_RED`"),
        ({"colour": "green"}, TypeError, "`use(colour=…)` should be a `Colour`: given `'green'`. help: give one of `Colour.DARK_RED`, `Colour.BLUE`"),
        ({"deployment": None}, TypeError, "`use(deployment=…)` should be a `Deployment`: given `None`. help: `load(path).deployment` reads one"),
        ({"deployment": FILE}, TypeError, "`use(deployment=…)` should be a `Deployment`: given a `DeploymentFile`. help: give its `deployment`"),
        ({"network": {}}, TypeError, "`use(network=…)` should be a `Network`: given a `dict`. help: make one with `Network(...)`"),
        ({"network": changed(FILE.deployment, network__egress="none").network}, ValueError, "`use(network.egress=…)` should be `nat` or `closed`: given `'none'`. help: `dpd schema` lists what it can be"),
        ({"table": []}, TypeError, "`use(table=…)` should be a `Mapping`: given a `list`. help: give a `dict`"),
        ({"paints": "x"}, TypeError, "`use(paints=…)` should be a `Paints`: given `'x'`. help: give an object that has `colour`, `paint`"),
        ({"paints": Stick()}, TypeError, "`use(paints=…)` should be a `Paints`: given a `Stick`, which has no `paint`. help: give an object that has `colour`, `paint`"),
    ],
    ids=lambda given: "-".join(given) if isinstance(given, dict) else "",
)  # fmt: skip
def test_a_wrong_argument_is_refused_with_what_to_do(
    given: dict[str, Any], kind: type[Exception], says: str
) -> None:
    with pytest.raises(kind) as refused:
        use(**given)
    assert (refused.type, str(refused.value)) == (kind, says)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"texts": ("a", "b"), "some": [1, 2], "share": 2, "path": Path("a"), "place": Path("a")},
        {"table": {"a": 1}, "paints": Brush(), "anything": object(), "mode": "rendered-only"},
        # what the rules say about a whole deployment is said there, all at once
        {"deployment": changed(ready(), serving__tensor_parallel=-3)},
    ],
)
def test_what_fits_is_passed_on(given: dict[str, Any]) -> None:
    assert use(**given) == "used"


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(TypeError) as refused:
        use(count=0, on="yes", name="")  # type: ignore[arg-type]
    assert [line.partition("=")[0] for line in str(refused.value).splitlines()] == [
        "`use(name",
        "`use(count",
        "`use(on",
    ]


def test_python_says_itself_what_is_missing_or_unknown() -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'colours'"):
        use(colours=1)  # type: ignore[call-arg]


@checked_fields
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    name: NonEmptyStr


def test_fields_of_a_dataclass_are_looked_at_too() -> None:
    assert Named(name="a").name == "a"
    with pytest.raises(ValueError, match=r"^`Named\(name=…\)` should have at least 1 character: given `''`"):
        dataclasses.replace(Named(name="a"), name="")


def test_a_value_object_says_every_argument_that_it_misses() -> None:
    with pytest.raises(TypeError, match=r"^InstanceGroup\(\) misses the arguments `instance_type`, `count`$"):
        InstanceGroup(name="a")  # type: ignore[call-arg]
    with pytest.raises(
        TypeError, match=r"^Serving\(\) has no argument `backed`\. help: did you mean `backend`\?$"
    ):
        Serving(backed="operator")  # type: ignore[call-arg]
    with pytest.raises(
        TypeError,
        match=r"^Worker\(\) has no argument `x`\. help: its arguments are `instance_group`, `replicas`, ",
    ):
        Worker(x=1)  # type: ignore[call-arg]
