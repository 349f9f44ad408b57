"""A function of this project's own: one folder of code, one role, one encrypted log."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from hyperpod_dpd.security.logs import log_group


def own_function(
    scope: Construct,
    *,
    folder: Path,
    description: str,
    statements: Iterable[iam.PolicyStatement],
    timeout: cdk.Duration,
    log_key: kms.IKey,
    log_retention_days: int,
    removal_policy: cdk.RemovalPolicy,
    environment: Mapping[str, str] | None = None,
) -> tuple[lambda_.Function, iam.Role]:
    """Return a function in `scope` and its role, which may do what `statements` say and write its log.

    Args:
        scope: construct that has no other function; function, role and log become its children.
        folder: the code, with a module `index` and in it `handler`.
        description: what it does, for the account's owner.
        statements: what its role may do.
        timeout: longest run.
        log_key: key of its log.
        log_retention_days: days that the log is kept, a value that CloudWatch Logs accepts.
        removal_policy: whether the log outlives the stack.
        environment: its variables.
    """
    logs = log_group(
        scope, "Logs", key=log_key, retention_days=log_retention_days, removal_policy=removal_policy
    )
    role = iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    for statement in statements:
        role.add_to_policy(statement)
    role.add_to_policy(
        iam.PolicyStatement(
            actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[logs.log_group_arn]
        )
    )
    function = lambda_.Function(
        scope,
        "Function",
        description=description,
        runtime=lambda_.Runtime.PYTHON_3_14,
        handler="index.handler",
        # bytecode differs from machine to machine, and the asset's hash with it
        code=lambda_.Code.from_asset(str(folder), exclude=["__pycache__", "*.pyc"]),
        role=role,
        log_group=logs,
        environment=dict(environment) if environment else None,
        timeout=timeout,
        memory_size=256,
    )
    # the first run must not meet a role without its policy
    function.node.add_dependency(role)
    return function, role
