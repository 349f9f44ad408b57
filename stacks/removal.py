"""What happens to stateful resources when their stack goes."""

import aws_cdk as cdk

from hyperpod_dpd.spec import Deployment


def removal_policy(deployment: Deployment) -> cdk.RemovalPolicy:
    """Return `DESTROY` once both acts of `removal` were done, otherwise a policy that keeps the resource.

    The keeping policy lets a failed first creation clean up: a named cluster or log group that survives it makes every
    following attempt fail with "already exists".
    """
    return (
        cdk.RemovalPolicy.DESTROY if deployment.deletes_data else cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
    )
