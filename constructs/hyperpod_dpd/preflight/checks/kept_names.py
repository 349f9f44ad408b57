"""PRE-NAM-002: nothing that an earlier deployment of the same name left is in the way."""

from collections.abc import Callable, Iterator, Mapping

from hyperpod_dpd.derive.kept_names import KeptKind, KeptName, kept_names
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call, arn
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.preflight.failure import is_there
from hyperpod_dpd.preflight.secret import secret_arns
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment

_ABSENT = ("404", "NoSuchBucket", "ResourceNotFoundException", "ValidationError")
_PARTS = ("cluster", "platform")


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    absent = {part for part in _PARTS if not _stack_is_there(deployment, account, part)}
    for kept in kept_names(deployment, account=account.account_id):
        if kept.part in absent and _IS_THERE[kept.kind](account, kept.name):
            yield Problem(
                path="name",
                says=f"the {kept.kind} is there before the stack that makes it: an earlier deployment of this name left it",
                given=f"`{kept.name}`",
                fix=f"{_removal(kept, deployment.region)} if nothing in it is needed, or choose another `name`",
            )


def _stack_is_there(deployment: Deployment, account: Account, part: str) -> bool:
    name = f"{deployment.name}-{part}"
    return is_there(lambda: account.client("cloudformation").describe_stacks(StackName=name), absent=_ABSENT)


def _log_group(account: Account, name: str) -> bool:
    found = account.client("logs").describe_log_groups(logGroupNamePrefix=name)["logGroups"]
    return any(group["logGroupName"] == name for group in found)


_IS_THERE: Mapping[KeptKind, Callable[[Account, str], bool]] = {
    KeptKind.BUCKET: lambda account, name: is_there(
        lambda: account.client("s3").head_bucket(Bucket=name), absent=_ABSENT
    ),
    KeptKind.LOG_GROUP: _log_group,
    KeptKind.SECRET: lambda account, name: is_there(
        lambda: account.client("secretsmanager").describe_secret(SecretId=name), absent=_ABSENT
    ),
}


def _removal(kept: KeptName, region: str) -> str:
    match kept.kind:
        case KeptKind.BUCKET:
            return f"empty it with all versions and `aws s3 rb s3://{kept.name}`"
        case KeptKind.LOG_GROUP:
            return f"`aws logs delete-log-group --region {region} --log-group-name {kept.name}`"
        case KeptKind.SECRET:
            return (
                f"`aws secretsmanager delete-secret --region {region} --secret-id {kept.name} "
                "--force-delete-without-recovery`"
            )


def _stacks(deployment: Deployment) -> tuple[str, ...]:
    return tuple(arn(deployment, "cloudformation", f"stack/{deployment.name}-{part}/*") for part in _PARTS)


def _buckets(deployment: Deployment) -> tuple[str, ...]:
    names = kept_names(deployment, account=deployment.account or "*")
    return tuple(f"arn:aws:s3:::{kept.name}" for kept in names if kept.kind is KeptKind.BUCKET)


CHECK = Check(
    id="PRE-NAM-002",
    title="nothing of an earlier deployment of this name is in the way",
    calls=(
        Call(service="cloudformation", operation="DescribeStacks", on=_stacks),
        Call(service="logs", operation="DescribeLogGroups"),
        Call(service="s3", operation="HeadBucket", on=_buckets),
        Call(service="secretsmanager", operation="DescribeSecret", on=secret_arns),
    ),
    look=_look,
)
