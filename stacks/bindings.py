"""Bindings on their way from the platform stack to the serving stack."""

from collections.abc import Iterator, Mapping

import aws_cdk as cdk
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.spec import Deployment


def publish_bindings(scope: Construct, deployment: Deployment, bindings: Mapping[Binding, str]) -> None:
    """Write what only CloudFormation knows of `bindings` to SSM parameters."""
    for binding, value in bindings.items():
        if cdk.Token.is_unresolved(value):
            parameter = ssm.StringParameter(
                scope, binding.name, parameter_name=_parameter_name(deployment, binding), string_value=value
            )
            resource = parameter.node.default_child
            assert isinstance(resource, cdk.CfnResource)
            # cfn-lint takes the data of a wait condition for an object; CloudFormation gives it as text
            resource.add_metadata("cfn-lint", {"config": {"ignore_checks": ["E1017"]}})


class PublishedBindings(Mapping[Binding, str]):
    """The bindings as another stack reads them when it is deployed, each only if it is asked for.

    They are no exports: CloudFormation refuses to change an exported value while another stack imports it, and an image
    that is built anew is another value.
    """

    def __init__(self, stack: cdk.Stack, deployment: Deployment, bindings: Mapping[Binding, str]) -> None:
        """Read in `stack` what another stack of `deployment` published of `bindings`."""
        self._stack = stack
        self._deployment = deployment
        self._bindings = bindings

    def __getitem__(self, binding: Binding) -> str:
        value = self._bindings[binding]
        if not cdk.Token.is_unresolved(value):
            return value
        return ssm.StringParameter.value_for_string_parameter(
            self._stack, _parameter_name(self._deployment, binding)
        )

    def __iter__(self) -> Iterator[Binding]:
        return iter(self._bindings)

    def __len__(self) -> int:
        return len(self._bindings)


def _parameter_name(deployment: Deployment, binding: Binding) -> str:
    return f"/hyperpod-dpd/{deployment.name}/bindings/{binding.name}"
