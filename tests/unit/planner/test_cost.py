"""Prices carry a date; what has no price is named, never counted as free."""

import dataclasses
from pathlib import Path

import pytest

from hyperpod_dpd.planner.cost import UndatedPriceError, hourly_burn, hourly_price, usd_per_million_tokens
from hyperpod_dpd.spec import Deployment, InstanceGroup, Price
from hyperpod_dpd.spec.load import load

DEPLOYMENTS = Path(__file__).parents[3] / "deployments"


def _mixed() -> Deployment:
    return load(DEPLOYMENTS / "llama-3.3-70b-p5-p5en.yaml").deployment


def _price(as_of: str = "2026-10-01") -> Price:
    return Price(instance_type="ml.p5.48xlarge", usd_per_hour=40.0, as_of=as_of, source="private offer")


def test_burn_adds_up_groups_at_derived_list_prices() -> None:
    burn = hourly_burn(_mixed())
    assert burn.usd_per_hour == pytest.approx(2 * 63.30 + 2 * 72.79)
    assert burn.usd_per_month == pytest.approx(730 * burn.usd_per_hour)
    assert "list, derived, 2026-11-09" in str(burn)


def test_list_price_of_another_region_says_so() -> None:
    elsewhere = hourly_burn(dataclasses.replace(_mixed(), region="ap-south-1"))
    assert "list of us-east-1, derived, 2026-11-09" in str(elsewhere)
    for region in ("us-east-1", "us-east-2", "us-west-2"):
        assert "(list, derived, " in str(hourly_burn(dataclasses.replace(_mixed(), region=region)))


def test_price_asked_for_no_region_is_said_to_be_of_none() -> None:
    price = hourly_price("ml.p5.48xlarge")
    assert price is not None
    assert price.kind == "list, derived"


def test_given_price_is_of_the_deployments_region() -> None:
    burn = hourly_burn(dataclasses.replace(_mixed(), region="ap-south-1", prices=(_price(),)))
    assert "$40.00/h (given, 2026-10-01)" in str(burn)


def test_price_of_the_deployment_replaces_the_catalogs() -> None:
    burn = hourly_burn(dataclasses.replace(_mixed(), prices=(_price(),)))
    assert burn.usd_per_hour == pytest.approx(2 * 40.0 + 2 * 72.79)
    assert "$40.00/h (given, 2026-10-01)" in str(burn)


@pytest.mark.parametrize("as_of", ["last week", "2026-13-01", "10/2026"])
def test_price_without_a_readable_date_is_refused(as_of: str) -> None:
    with pytest.raises(UndatedPriceError, match=r"`ml\.p5\.48xlarge` has no date: given `as_of: "):
        hourly_burn(dataclasses.replace(_mixed(), prices=(_price(as_of),)))


def test_instance_type_without_a_price_is_named_and_not_counted() -> None:
    groups = (
        InstanceGroup(name="a", instance_type="ml.p5e.48xlarge", count=2),
        InstanceGroup(name="b", instance_type="ml.p5.48xlarge", count=1),
    )
    deployment = _mixed()
    burn = hourly_burn(
        dataclasses.replace(
            deployment, hyperpod=dataclasses.replace(deployment.hyperpod, instance_groups=groups)
        )
    )
    assert burn.unpriced == ("ml.p5e.48xlarge",)
    assert burn.usd_per_hour == pytest.approx(63.30)
    assert "not counted: `ml.p5e.48xlarge`" in str(burn)


def test_unknown_instance_type_has_no_price() -> None:
    assert hourly_price("ml.p9.48xlarge") is None


def test_dollars_per_million_tokens() -> None:
    assert usd_per_million_tokens(63.30, 1036) == pytest.approx(17.0, abs=0.05)
    # a thousand tokens a second are 3.6 million an hour
    assert usd_per_million_tokens(36.0, 1000) == pytest.approx(10.0)
    with pytest.raises(ValueError, match="positive rate, given 0 tokens/s"):
        usd_per_million_tokens(63.30, 0)
