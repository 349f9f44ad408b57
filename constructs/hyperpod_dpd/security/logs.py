"""Log groups that are encrypted, kept for a stated time, and readable by nobody by default."""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from hyperpod_dpd.catalog.log_retention import RETENTION_DAYS, retention_of_at_least
from hyperpod_dpd.spec.arguments import checked


@checked
def logs_key(scope: Construct, construct_id: str, *, removal_policy: cdk.RemovalPolicy) -> kms.Key:
    """Return a key that CloudWatch Logs of this account and region may use, and no other service."""
    stack = cdk.Stack.of(scope)
    key = kms.Key(
        scope,
        construct_id,
        description=f"Log groups of {stack.stack_name}",
        enable_key_rotation=True,
        removal_policy=removal_policy,
    )
    key.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal(f"logs.{stack.region}.amazonaws.com")],
            actions=["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*"],
            resources=["*"],
            conditions={
                "ArnLike": {
                    "kms:EncryptionContext:aws:logs:arn": stack.format_arn(
                        service="logs",
                        resource="log-group",
                        resource_name="*",
                        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
                    )
                }
            },
        )
    )
    return key


def log_group(
    scope: Construct,
    construct_id: str,
    *,
    key: kms.IKey,
    retention_days: int,
    removal_policy: cdk.RemovalPolicy,
    name: str | None = None,
) -> logs.LogGroup:
    """Return a log group encrypted with `key`.

    Raises:
        ValueError: CloudWatch Logs does not know `retention_days`.
    """
    if retention_days not in RETENTION_DAYS:
        raise ValueError(
            f"CloudWatch Logs does not know this retention of `{scope.node.path}`: given {retention_days} days, limit "
            f"{', '.join(map(str, RETENTION_DAYS))}. help: give {retention_of_at_least(retention_days)}"
        )
    group = logs.LogGroup(
        scope, construct_id, log_group_name=name, encryption_key=key, removal_policy=removal_policy
    )
    # the typed enumeration has no way from a number of days
    resource = group.node.default_child
    assert isinstance(resource, logs.CfnLogGroup)
    resource.retention_in_days = retention_days
    return group
