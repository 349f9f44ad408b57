"""What `hyperpod_dpd` exports is the library; a change of it is seen, named and documented."""

import inspect

import pytest
from constructs import Construct

import hyperpod_dpd
from hyperpod_dpd import json_schema, spec
from tools.public_api import FILE, text


def test_public_surface_is_the_recorded_one() -> None:
    recorded, now = FILE.read_text(encoding="utf-8").splitlines(), text().splitlines()
    gone, new = sorted(set(recorded) - set(now)), sorted(set(now) - set(recorded))
    assert (gone, new) == ([], []), (
        "the public surface changed: run `make generate`, read docs/explanation/stability.md, add a news fragment"
    )
    assert recorded == now


def test_every_parameter_and_result_has_a_type() -> None:
    assert [line for line in text().splitlines() if "?" in line] == []


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
