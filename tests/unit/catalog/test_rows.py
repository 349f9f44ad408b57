"""Every fact has a source and a date, and the figures hang together."""

import dataclasses
from collections.abc import Iterator
from datetime import UTC, date, datetime

import pytest

from hyperpod_dpd.catalog import engines, instances, models
from hyperpod_dpd.catalog.row import Source, UnknownCatalogEntryError
from hyperpod_dpd.catalog.system_nodes import (
    families,
    is_accelerated,
    is_arm,
    system_instance,
)


def _sources(value: object) -> Iterator[Source]:
    if isinstance(value, Source):
        yield value
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _sources(getattr(value, field.name))


_ROWS = [*instances.instance_types(), *models.models(), *engines.engines()]


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: row.name)
def test_row_has_a_source_with_a_date(row: object) -> None:
    sources = list(_sources(row))
    assert sources
    for source in sources:
        assert source.text
        # a machine whose clock is behind has not read the first rows in the future
        latest = max(datetime.now(tz=UTC).date(), date(2026, 11, 30))
        assert date(2024, 1, 1) <= date.fromisoformat(source.as_of) <= latest


@pytest.mark.parametrize("row", instances.instance_types(), ids=lambda row: row.name)
def test_devices_of_an_instance_divide_among_its_gpus(row: instances.InstanceType) -> None:
    assert row.efa_devices % row.gpus == 0
    assert row.efa_bytes_per_second_per_gpu == pytest.approx(50e9)
    # one network card carries the pods' 50 addresses, every other EFA device takes one
    assert row.addresses_per_node == 50 + row.efa_devices - 1


def test_facts_of_the_two_required_types() -> None:
    p5, p5en = instances.instance_type("ml.p5.48xlarge"), instances.instance_type("ml.p5en.48xlarge")
    assert (p5.gpu.name, p5en.gpu.name) == ("H100 SXM 80 GB", "H200 SXM 141 GB")
    assert (p5.efa_devices, p5en.efa_devices) == (32, 16)
    assert (p5.addresses_per_node, p5en.addresses_per_node) == (81, 65)
    assert p5.max_pods == 49
    assert p5.price is not None
    assert p5.price.derived, "no `ml.` price is public; the figure must say that it was scaled"


@pytest.mark.parametrize(
    ("kind", "look_up"),
    [
        ("instance type", instances.instance_type),
        ("model", models.model),
        ("engine", engines.engine),
    ],
)
def test_unknown_name_lists_the_known_ones(kind: str, look_up) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UnknownCatalogEntryError) as refusal:
        look_up("nothing")
    assert kind in str(refusal.value)
    assert "`nothing`" in str(refusal.value)
    assert refusal.value.known
    assert all(f"`{name}`" in str(refusal.value) for name in refusal.value.known)
    assert ". help: " in str(refusal.value)


def test_a_misspelled_name_is_told_what_was_probably_meant() -> None:
    with pytest.raises(UnknownCatalogEntryError, match=r"help: did you mean `ml\.p5en\.48xlarge`"):
        instances.instance_type("ml.p5en.48xlarg")


@pytest.mark.parametrize(
    ("name", "vcpus", "memory_gib", "max_pods"),
    [
        # eni-max-pods.txt: 29, 58, 234 and 737; a managed node group stops at 110 below 30 vCPUs and at 250 above
        ("m6i.large", 2, 8, 29),
        ("m6i.xlarge", 4, 16, 58),
        ("c7i.2xlarge", 8, 16, 58),
        ("r6a.4xlarge", 16, 128, 110),
        ("m5.8xlarge", 32, 128, 234),
        ("m7i.24xlarge", 96, 384, 250),
        ("t3.medium", 2, 4, 17),
    ],
)
def test_system_instance(name: str, vcpus: int, memory_gib: int, max_pods: int) -> None:
    row = system_instance(name)
    assert row is not None
    assert (row.vcpus, row.memory_gib, row.max_pods) == (vcpus, memory_gib, max_pods)


def test_allocatable_of_the_default_system_node() -> None:
    row = system_instance("m6i.xlarge")
    assert row is not None
    # what `kubectl describe node` shows for an m6i.xlarge: 3920m
    assert row.allocatable_cpus == pytest.approx(3.92)
    assert 13.5 < row.allocatable_gib < 15


def test_unknown_system_instance_is_none() -> None:
    assert system_instance("ml.m6i.xlarge") is None
    assert system_instance("m6i.xxlarge") is None
    assert "m6i" in families()


@pytest.mark.parametrize(
    "name", ["m7g.xlarge", "c6gn.large", "t4g.small", "a1.large", "r8gd.xlarge", "x2gd.large"]
)
def test_graviton_is_known_by_name(name: str) -> None:
    assert is_arm(name)


@pytest.mark.parametrize(
    "name", ["m6i.xlarge", "g6.xlarge", "gr6.4xlarge", "p5en.48xlarge", "m5dn.large", "c5a.large"]
)
def test_amd64_is_known_by_name(name: str) -> None:
    assert not is_arm(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("g6.xlarge", True),
        ("p5en.48xlarge", True),
        ("ml.p5.48xlarge", True),
        ("inf2.xlarge", True),
        ("trn2.48xlarge", True),
        ("m6i.xlarge", False),
        ("c7i.large", False),
    ],
)
def test_accelerators_are_known_by_name(name: str, *, expected: bool) -> None:
    assert is_accelerated(name) is expected
