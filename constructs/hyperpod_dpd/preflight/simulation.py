"""What the role that CloudFormation uses may do, asked of IAM's simulator."""

from collections.abc import Iterator, Sequence
from typing import Any

from hyperpod_dpd.catalog.cdk import BOOTSTRAP
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Gap
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment


def _role_arns(deployment: Deployment) -> tuple[str, ...]:
    return (f"arn:aws:iam::{deployment.account or '*'}:role/{_role(deployment, deployment.account or '*')}",)


SIMULATION_CALL = Call(service="iam", operation="SimulatePrincipalPolicy", on=_role_arns)
"""What `refused` calls."""


def refused(
    deployment: Deployment, account: Account, actions: Sequence[str], *, path: str, what_for: str
) -> Iterator[Problem | Gap]:
    """Yield one problem when CDK's execution role may not call every one of `actions`, a gap where IAM does not say.

    The simulator knows the role's policies, its permissions boundary, and whether the organization allows the action;
    it does not know conditions that depend on the request.
    """
    role = _role(deployment, account.account_id)
    results = _results(account, f"arn:aws:iam::{account.account_id}:role/{role}", actions)
    silent = sorted(set(actions) - {row["EvalActionName"] for row in results})
    if silent:
        yield Gap(
            what=f"that the execution role `{role}` may call {', '.join(f'`{each}`' for each in silent)}",
            why="IAM's simulator says nothing about it",
            fix="run it again; what is not allowed stops the deployment where it is called",
        )
    by_organization = [row for row in results if _forbidden_by_organization(row)]
    others = [row for row in results if row["EvalDecision"] != "allowed" and row not in by_organization]
    if by_organization:
        yield Problem(
            path=path,
            says=f"a service control policy keeps CloudFormation from {what_for}",
            given=f"the execution role `{role}`",
            computed=f"the organization denies {_listed(by_organization)}",
            fix="ask the organization's administrator to allow them in this account and region",
        )
    if others:
        yield Problem(
            path=path,
            says=f"CDK's execution role may not do what {what_for} takes",
            given=f"the execution role `{role}`",
            computed=f"denied: {_listed(others)}",
            fix="bootstrap with policies that allow them (`cdk bootstrap --cloudformation-execution-policies`)",
        )


def _role(deployment: Deployment, account_id: str) -> str:
    return BOOTSTRAP.of(deployment).execution_role_name(account=account_id, region=deployment.region)


def _results(account: Account, role_arn: str, actions: Sequence[str]) -> list[dict[str, Any]]:
    pages = (
        account.client("iam")
        .get_paginator("simulate_principal_policy")
        .paginate(PolicySourceArn=role_arn, ActionNames=list(actions))
    )
    return [row for page in pages for row in page["EvaluationResults"]]


def _forbidden_by_organization(row: dict[str, Any]) -> bool:
    return row.get("OrganizationsDecisionDetail", {}).get("AllowedByOrganizations") is False


def _listed(rows: list[dict[str, Any]]) -> str:
    return ", ".join(f"`{row['EvalActionName']}`" for row in rows)
