"""The end of namespaces, waited for when a stack is deleted."""

from collections.abc import Sequence
from typing import Annotated

import annotated_types as at
import aws_cdk as cdk
from constructs import Construct, IDependable

from hyperpod_dpd.readiness.readiness import Readiness
from hyperpod_dpd.spec.arguments import checked
from hyperpod_dpd.spec.value import NonEmptyStr

_LONGEST = cdk.Duration.hours(1)


class Gone(Construct):
    """Ends its own deletion only when namespaces are gone.

    Helm asks for a namespace to be deleted and does not wait. Until the finalizers in it have run, a load balancer and
    its network interfaces exist, and whoever deletes their controller first keeps them for ever, and the VPC with them.

    Attributes:
        resource: what installs objects into the namespaces depends on this, so that it is deleted before.
    """

    resource: cdk.CustomResource

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        readiness: Readiness,
        namespaces: Annotated[Sequence[NonEmptyStr], at.MinLen(1)],
        needs: Sequence[IDependable] = (),
    ) -> None:
        """Watch `namespaces` while the stack is deleted; nothing happens before.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            readiness: the poller.
            namespaces: names of namespaces that the stack's releases own.
            needs: what is deleted after the namespaces, such as controllers whose finalizers are in them.
        """
        super().__init__(scope, construct_id)
        self.resource = cdk.CustomResource(
            self,
            "Resource",
            resource_type="Custom::DpdGone",
            service_token=readiness.function.function_arn,
            service_timeout=_LONGEST,
            properties={"Namespaces": list(namespaces)},
        )
        self.resource.node.add_dependency(readiness.ready, *needs)
