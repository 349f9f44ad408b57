"""A function of this project's own: one folder of code, one role, one encrypted log."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from hyperpod_dpd.security.logs import log_group


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionNetwork:
    """Place of a function inside a VPC."""

    vpc: ec2.IVpc
    subnets: Sequence[ec2.ISubnet]
    security_group: ec2.ISecurityGroup


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
    handler: str = "index.handler",
    network: FunctionNetwork | None = None,
) -> tuple[lambda_.Function, iam.Role]:
    """Return a function in `scope` and its role, which may do what `statements` say and write its log.

    Args:
        scope: construct that has no other function; function, role and log become its children.
        folder: the code; it is copied at once.
        description: what it does, for the account's owner.
        statements: what its role may do.
        timeout: longest run.
        log_key: key of its log.
        log_retention_days: days that the log is kept, a value that CloudWatch Logs accepts.
        removal_policy: whether the log outlives the stack.
        environment: its variables.
        handler: module and function in `folder` that Lambda calls.
        network: where in a VPC it runs, with the right to make interfaces there; absent: in Lambda's own network.
    """
    logs = log_group(
        scope, "Logs", key=log_key, retention_days=log_retention_days, removal_policy=removal_policy
    )
    role = iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    for statement in [*statements, *([_interfaces()] if network else [])]:
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
        handler=handler,
        # bytecode differs from machine to machine, and the asset's hash with it
        code=lambda_.Code.from_asset(str(folder), exclude=["__pycache__", "*.pyc"]),
        role=role,
        log_group=logs,
        environment=dict(environment) if environment else None,
        vpc=network.vpc if network else None,
        vpc_subnets=ec2.SubnetSelection(subnets=list(network.subnets)) if network else None,
        security_groups=[network.security_group] if network else None,
        timeout=timeout,
        memory_size=256,
    )
    # the first run must not meet a role without its policy, and Lambda refuses a function in a VPC before
    function.node.add_dependency(role)
    return function, role


def _interfaces() -> iam.PolicyStatement:
    # what Lambda does in a VPC with the function's role; it makes interfaces under ids that nobody knows before
    return iam.PolicyStatement(
        sid="ReachTheVpc",
        actions=[
            "ec2:AssignPrivateIpAddresses",
            "ec2:CreateNetworkInterface",
            "ec2:DeleteNetworkInterface",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeSubnets",
            "ec2:UnassignPrivateIpAddresses",
        ],
        resources=["*"],
    )
