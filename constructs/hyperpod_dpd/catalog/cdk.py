"""What the CDK CLI's bootstrap must have put into an account."""

from dataclasses import replace

from hyperpod_dpd.catalog.row import Source
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.value import record


@record
class Bootstrap:
    """The bootstrap stack that the templates rely on."""

    qualifier: str
    """Part of the names of everything that `cdk bootstrap` creates, unless an account has another one."""
    minimum_version: int
    """Oldest version of the bootstrap stack with which the templates deploy."""
    source: Source

    def of(self, deployment: Deployment) -> "Bootstrap":
        """Return the bootstrap stack that `deployment` relies on."""
        return replace(self, qualifier=deployment.organization.bootstrap_qualifier or self.qualifier)

    @property
    def version_parameter(self) -> str:
        """SSM parameter that holds the version of an account's bootstrap stack."""
        return f"/cdk-bootstrap/{self.qualifier}/version"

    def execution_role_name(self, *, account: str, region: str) -> str:
        """Return the name of the role with which CloudFormation creates resources."""
        return f"cdk-{self.qualifier}-cfn-exec-role-{account}-{region}"


BOOTSTRAP = Bootstrap(
    qualifier="hnb659fds",
    minimum_version=6,
    source=Source(
        text="aws-cdk-lib 2.275.0, DefaultStackSynthesizer: `requiresBootstrapStackVersion` of every synthesized stack",
        as_of="2026-11-30",
    ),
)
