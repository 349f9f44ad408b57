"""PRE-QUO-007: the existing VPC may have the interface endpoints that are made in it."""

from collections.abc import Iterator

from hyperpod_dpd.catalog.quotas import ENDPOINTS_PER_VPC
from hyperpod_dpd.derive.parameters import Parameter
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.check import Check, Gap, creates_cluster
from hyperpod_dpd.preflight.published import PUBLISHED_CALL, published
from hyperpod_dpd.preflight.quota import QUOTA_CALLS, shortage
from hyperpod_dpd.preflight.vpc import ENDPOINTS_CALL, endpoints, existing_vpc, made_endpoints
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    if published(deployment, account, Parameter.VPC_ID):
        return  # they are counted as used already
    vpc_id, made = existing_vpc(deployment).vpc_id, made_endpoints(deployment)
    used = [row for row in endpoints(account, vpc_id) if row["VpcEndpointType"] != "Gateway"]
    problem = shortage(
        account,
        ENDPOINTS_PER_VPC,
        path="network.interface_endpoints",
        given=f"interface endpoints of {len(made)} services in `{vpc_id}`",
        needed=len(made),
        used=len(used),
    )
    if problem is not None:
        yield problem


CHECK = Check(
    id="PRE-QUO-007",
    title="quotas allow the interface endpoints in the existing VPC",
    calls=(*QUOTA_CALLS, PUBLISHED_CALL, ENDPOINTS_CALL),
    look=_look,
    applies=lambda deployment: creates_cluster(deployment) and bool(made_endpoints(deployment)),
)
