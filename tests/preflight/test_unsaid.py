"""What AWS's answers leave out is neither fine nor wrong: nobody knows."""

from collections.abc import Mapping
from typing import Any

import pytest

from hyperpod_dpd.preflight.checks import CHECKS, GATE
from hyperpod_dpd.preflight.report import Report, Status
from hyperpod_dpd.preflight.runner import preflight
from tests.preflight.aws import TableAccount
from tests.preflight.healthy import deployments, healthy, web

Call = tuple[str, str]

PLAN: Call = ("sagemaker", "DescribeTrainingPlan")
SIMULATION: Call = ("iam", "SimulatePrincipalPolicy")
CLUSTER: Call = ("sagemaker", "DescribeCluster")


def asked(check_id: str, deployment: str, answers: Mapping[Call, Any]) -> Report:
    account = TableAccount({**healthy(), **answers}, web=web, region="us-east-1")
    checks = [check for check in CHECKS if check.id == check_id]
    return preflight(deployments()[deployment], account, checks=checks, gate=GATE)


def plan(**changes: Any) -> dict[Call, Any]:
    told = {**healthy()[PLAN], **changes}
    return {PLAN: {name: value for name, value in told.items() if value is not None}}


def without_zone() -> dict[Call, Any]:
    (row,) = healthy()[PLAN]["ReservedCapacitySummaries"]
    return plan(ReservedCapacitySummaries=[{**row, "AvailabilityZoneId": ""}])


def simulated(parameters: Mapping[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = healthy()[SIMULATION](parameters)
    return {"EvaluationResults": answer["EvaluationResults"][1:]}


def without_subnets(parameters: Mapping[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = healthy()[CLUSTER](parameters)
    return {name: value for name, value in answer.items() if name != "VpcConfig"}


@pytest.mark.parametrize(
    ("check_id", "deployment", "answers", "what"),
    [
        (
            "PRE-CAP-001",
            "plan",
            plan(ReservedCapacitySummaries=[]),
            "instance types and zone of the training plan",
        ),
        ("PRE-CAP-001", "plan", without_zone(), "the zone of `ml.p5.48xlarge` of the training plan"),
        (
            "PRE-CAP-001",
            "plan",
            plan(TotalInstanceCount=None),
            "the number of instances of the training plan",
        ),
        ("PRE-CDK-002", "default", {SIMULATION: simulated}, "may call"),
        ("PRE-NET-001", "existing", {CLUSTER: without_subnets}, "the subnet of `"),
    ],
)
def test_what_an_answer_leaves_out_is_unknown(
    check_id: str, deployment: str, answers: Mapping[Call, Any], what: str
) -> None:
    report = asked(check_id, deployment, answers)
    assert report.findings == []
    assert {gap.what for _, gap in report.gaps if what in gap.what}
    assert report.count(Status.UNKNOWN) == 1
