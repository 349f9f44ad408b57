"""What happens to buckets when their stack goes."""

import aws_cdk as cdk


def kept_when_full(policy: cdk.RemovalPolicy) -> cdk.RemovalPolicy:
    """Return the policy of what cannot be deleted while it holds something, and has no name that could be in the way.

    A first creation that fails late, such as a platform whose nodes never came, would otherwise end as ROLLBACK_FAILED:
    the roll-back deletes what it has made, and AWS deletes no bucket with content. Kept, it is left
    behind, and the next attempt makes another one.
    """
    return cdk.RemovalPolicy.RETAIN if policy is cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE else policy
