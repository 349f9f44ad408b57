"""The function with which aws-cdk-lib fills keys of JSON, made part of a stack like the stack's own functions."""

import aws_cdk as cdk
from aws_cdk import aws_kms as kms

from hyperpod_dpd.security.logs import log_group

_PROVIDER = "AWSCDKCfnUtilsProviderCustomResourceProvider"
_RESOURCE = "Custom::AWSCDKCfnJson"


def keep_helper_logs(
    stack: cdk.Stack, *, key: kms.IKey, retention_days: int, removal_policy: cdk.RemovalPolicy
) -> None:
    """Give the helper of `cdk.CfnJson` in `stack` a log group of the stack, if the stack has the helper.

    Without one Lambda makes it at the first run: without a key, kept for ever, and left behind when the stack goes.
    """
    provider = stack.node.try_find_child(_PROVIDER)
    if provider is None:
        return
    function = provider.node.find_child("Handler")
    assert isinstance(function, cdk.CfnResource)
    group = log_group(
        stack,
        "HelperLogs",
        name=f"/aws/lambda/{function.ref}",
        key=key,
        retention_days=retention_days,
        removal_policy=removal_policy,
    )
    for resource in stack.node.find_all():
        # the first run must find the group
        if isinstance(resource, cdk.CfnResource) and resource.cfn_resource_type == _RESOURCE:
            resource.node.add_dependency(group)
