"""Outputs of the stacks, readable by others without knowing their templates."""

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from hyperpod_dpd.derive.parameters import Parameter, parameter_name
from hyperpod_dpd.spec import Deployment


def publish(stack: cdk.Stack, deployment: Deployment, values: Mapping[Parameter, str]) -> None:
    """Write `values` to SSM parameters below the deployment's path."""
    scope = Construct(stack, "Parameters")
    for parameter, value in values.items():
        ssm.StringParameter(
            scope,
            parameter,
            parameter_name=parameter_name(deployment, parameter),
            string_value=value,
        )
