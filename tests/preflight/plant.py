"""An account, or a deployment for it, with one thing wrong."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hyperpod_dpd.spec import Deployment
from tests.preflight.aws import ACCOUNT_ID, Refusal, TableAccount, Web, WebAnswer
from tests.preflight.healthy import deployments, healthy, web
from tests.support.deployments import changed

KEY = f"arn:aws:kms:us-east-1:{ACCOUNT_ID}:key/00000000-0000-0000-0000-000000000000"

Call = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Planted:
    """One thing wrong with an account, or with a deployment for it, and what has to be said about it."""

    check: str
    says: tuple[str, ...]
    """Texts that the message must hold: what was given, computed, the limit, the fix."""
    path: str
    besides: tuple[str, ...] = ()
    """Paths of everything else that the check finds then."""
    deployment: str = "default"
    changes: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[Call, Any] = field(default_factory=dict)
    web: Web = web
    region: str = "us-east-1"

    def altered(self) -> Deployment:
        return changed(deployments()[self.deployment], **self.changes)

    def account(self) -> TableAccount:
        return TableAccount({**healthy(), **self.answers}, web=self.web, region=self.region)


def but(call: Call, **changes: Any) -> dict[Call, Any]:
    """Change the top level of the only value of a healthy answer."""
    ((key, value),) = healthy()[call].items()
    row = value[0] if isinstance(value, list) else value
    return {call: {key: [{**row, **changes}] if isinstance(value, list) else {**row, **changes}}}


def training_plan(**changes: Any) -> dict[Call, Any]:
    call = ("sagemaker", "DescribeTrainingPlan")
    return {call: {**healthy()[call], **changes}}


def row_of(call: Call, number: int, **changes: Any) -> dict[Call, Any]:
    """Change one row of the only list of a healthy answer."""
    ((key, rows),) = healthy()[call].items()
    return {call: {key: [{**row, **changes} if at == number else row for at, row in enumerate(rows)]}}


def subnet(subnet_id: str, **changes: Any) -> dict[Call, Any]:
    """Change what a healthy account answers about a subnet."""
    call = ("ec2", "DescribeSubnets")
    ids = [row["SubnetId"] for row in healthy()[call]["Subnets"]]
    return row_of(call, ids.index(subnet_id), **changes)


def decision_on(decision: str, *, action: str, organization: bool = True) -> dict[Call, Any]:
    def answer(parameters: Mapping[str, Any]) -> dict[str, Any]:
        allowed: dict[str, Any] = healthy()["iam", "SimulatePrincipalPolicy"](parameters)
        for row in allowed["EvaluationResults"]:
            if row["EvalActionName"] == action:
                row["EvalDecision"] = decision
                row["OrganizationsDecisionDetail"] = {"AllowedByOrganizations": organization}
        return allowed

    return {("iam", "SimulatePrincipalPolicy"): answer}


def hub(status: int) -> Web:
    return lambda _url, _headers: WebAnswer(status=status)


def only_buckets(*names: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda parameters: {} if parameters["Bucket"] in names else Refusal(code="404", status=404)
