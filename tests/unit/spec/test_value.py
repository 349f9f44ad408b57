"""What a record can do: everything that a frozen dataclass can."""

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, fields, is_dataclass, replace

import pytest

from hyperpod_dpd.spec import Network, Price
from hyperpod_dpd.spec.value import record

NETWORK = Network(gpu_zone_id="use1-az6", cluster_zone_ids=("use1-az6", "use1-az4"))


def test_fields_have_their_defaults_and_the_given_values() -> None:
    assert is_dataclass(NETWORK)
    assert NETWORK.gpu_zone_id == "use1-az6"
    assert NETWORK.cidr == "10.192.0.0/16"
    assert asdict(NETWORK)["egress"] == "nat"
    assert [field.name for field in fields(NETWORK)][:2] == ["gpu_zone_id", "cluster_zone_ids"]


def test_missing_and_unknown_arguments_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"Price\(\) misses the arguments `usd_per_hour`, `as_of`, `source`"):
        Price(instance_type="ml.p5.48xlarge")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Network\(\) has no argument `colour`"):
        Network(gpu_zone_id="a", cluster_zone_ids=("a", "b"), colour="red")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Network("use1-az6", ("a", "b"))  # type: ignore[call-arg]


def test_nothing_can_be_changed_added_or_removed() -> None:
    with pytest.raises(FrozenInstanceError, match="cannot change field `cidr`"):
        NETWORK.cidr = "10.0.0.0/16"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del NETWORK.cidr
    with pytest.raises(FrozenInstanceError):
        NETWORK.colour = "red"  # type: ignore[attr-defined]


def test_copies_are_equal_and_changed_copies_are_not() -> None:
    other = replace(NETWORK, egress="closed")
    assert other != NETWORK
    assert other.gpu_zone_id == NETWORK.gpu_zone_id
    for same in (copy.copy(NETWORK), copy.deepcopy(NETWORK), pickle.loads(pickle.dumps(NETWORK))):
        assert same == NETWORK
        assert hash(same) == hash(NETWORK)


def test_text_shows_every_field() -> None:
    @record
    class Pair:
        left: int
        right: tuple[int, ...] = ()

    assert repr(Pair(left=1)).endswith("Pair(left=1, right=())")
