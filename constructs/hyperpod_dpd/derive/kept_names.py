"""Names of what outlives its stack, and is in the way of another stack that would make it again."""

from enum import StrEnum

from hyperpod_dpd.derive.bucket import RESULTS_PREFIX, TLS_PREFIX, bucket_name
from hyperpod_dpd.derive.secrets import named_secrets
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.value import record


class KeptKind(StrEnum):
    """What has the name."""

    BUCKET = "bucket"
    LOG_GROUP = "log group"
    SECRET = "secret"  # noqa: S105 a kind, no password


@record
class KeptName:
    """A name that a stack gives and that stays taken when the stack goes."""

    part: str
    """Last part of the stack's name."""
    kind: KeptKind
    name: str


def control_plane_log(name: str) -> str:
    """Return the log group to which EKS writes for the cluster `name`."""
    return f"/aws/eks/{name}/cluster"


def metrics_log(name: str) -> str:
    """Return the log group of the metrics workspace of the deployment `name`.

    The prefix keeps its deliveries out of the account's policy for logs, whose length is limited.
    """
    return f"/aws/vendedlogs/prometheus/{name}"


def kept_names(deployment: Deployment, *, account: str) -> tuple[KeptName, ...]:
    """Return those names, beside the names of the EKS and HyperPod clusters; `account` is its number."""
    name, platform = deployment.name, deployment.platform
    owner = deployment.cluster.existing is None

    def bucket(prefix: str) -> KeptName:
        named = bucket_name(prefix, name, account=account, region=deployment.region)
        return KeptName(part="platform", kind=KeptKind.BUCKET, name=named)

    found = [bucket(RESULTS_PREFIX)]
    found += [
        KeptName(part="platform", kind=KeptKind.SECRET, name=secret)
        for secret in dict.fromkeys(each.name for each in named_secrets(deployment) if each.own)
    ]
    if owner:
        found.append(KeptName(part="cluster", kind=KeptKind.LOG_GROUP, name=control_plane_log(name)))
    if owner and platform.inference_operator is not None and platform.inference_operator.tls_bucket is None:
        found.append(bucket(TLS_PREFIX))
    if owner and platform.is_measured:
        found.append(KeptName(part="platform", kind=KeptKind.LOG_GROUP, name=metrics_log(name)))
    return tuple(found)
