"""Whatever the address plan refuses, a rule has said before, with its id."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hyperpod_dpd.derive import UnresolvedError
from hyperpod_dpd.derive.addresses import address_plan
from hyperpod_dpd.rules import check
from hyperpod_dpd.spec import Network
from tests.unit.rules.example import deployment

_CIDRS = st.builds(
    lambda octets, prefix: f"{octets}/{prefix}",
    st.sampled_from(
        [
            "10.0.0.0",
            "10.1.0.0",
            "10.192.0.0",
            "172.16.0.0",
            "172.20.0.0",
            "172.20.128.0",
            "192.168.0.0",
            "100.64.0.0",
            "x",
        ]
    ),
    st.integers(14, 30),
)
_ZONES = st.sampled_from(["use1-az1", "use1-az3", "use1-az4", "use1-az6", "usw2-az1", "us-east-1a"])


@given(cidr=_CIDRS, gpu_cidr=_CIDRS, home=_ZONES, zones=st.lists(_ZONES, min_size=2, max_size=3))
@settings(max_examples=150, deadline=None)
def test_deployment_without_network_errors_has_an_address_plan(
    cidr: str, gpu_cidr: str, home: str, zones: list[str]
) -> None:
    value = deployment(
        {
            "network.cidr": cidr,
            "network.gpu_cidr": gpu_cidr,
            "network.gpu_zone_id": home,
            "network.cluster_zone_ids": zones,
        }
    )
    if _has_plan(value.network):
        return
    assert any(finding.rule.startswith("DPD-NET-") for finding in check(value).errors)


def _has_plan(network: Network) -> bool:
    try:
        address_plan(network)
    except UnresolvedError:
        return False
    return True
