"""PRE-DAT-002: the given file system is there, in the GPU zone, and mounts under its name."""

from collections.abc import Iterator

from botocore.exceptions import ClientError

from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.preflight.failure import code_of
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment, FsxSource

_USABLE = ("AVAILABLE", "UPDATING")


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    source = deployment.model.source
    assert isinstance(source, FsxSource), "applies only to FSx"
    try:
        answer = account.client("fsx").describe_file_systems(FileSystemIds=[source.file_system_id])
    except ClientError as error:
        if code_of(error) not in ("FileSystemNotFound", "BadRequest"):
            raise
        yield Problem(
            path="model.source.file_system_id",
            says="the region has no such file system",
            given=f"`file_system_id: {source.file_system_id}`",
            fix=f"`aws fsx describe-file-systems --region {deployment.region}` lists those there are",
        )
        return
    row = answer["FileSystems"][0]
    lustre = row.get("LustreConfiguration", {})
    expected = (
        ("file_system_id", "the file system is not a Lustre one", row["FileSystemType"], ("LUSTRE",)),
        ("file_system_id", "the file system is not available", row["Lifecycle"], _USABLE),
        ("dns_name", "the file system has another DNS name", row.get("DNSName"), (source.dns_name,)),
        (
            "mount_name",
            "the file system has another mount name",
            lustre.get("MountName"),
            (source.mount_name,),
        ),
    )
    for key, says, actual, allowed in expected:
        if None not in allowed and actual not in allowed:
            yield Problem(
                path=f"model.source.{key}",
                says=says,
                given=f"`{key}: {getattr(source, key)}`",
                computed=f"`{actual}`",
                limit=" or ".join(f"`{each}`" for each in allowed),
                fix=f"write `{actual}`" if key != "file_system_id" else "name another file system",
            )
    yield from _zone(deployment, account, row["SubnetIds"])


def _zone(deployment: Deployment, account: Account, subnet_ids: list[str]) -> Iterator[Problem]:
    rows = account.client("ec2").describe_subnets(SubnetIds=subnet_ids)["Subnets"]
    zones = {row["AvailabilityZoneId"] for row in rows}
    if deployment.network.gpu_zone_id not in zones:
        yield Problem(
            path="model.source.file_system_id",
            says="the file system is in another zone than the GPU nodes",
            given=f"`gpu_zone_id: {deployment.network.gpu_zone_id}`",
            computed="it is in " + ", ".join(f"`{zone}`" for zone in sorted(zones)),
            fix="use a file system of the GPU zone: every load would cross zones, slowly and for money",
        )


CHECK = Check(
    id="PRE-DAT-002",
    title="the file system is available, in the GPU zone, under its names",
    calls=(
        Call(service="fsx", operation="DescribeFileSystems"),
        Call(service="ec2", operation="DescribeSubnets"),
    ),
    look=_look,
    applies=lambda deployment: (
        isinstance(deployment.model.source, FsxSource) and deployment.model.source.file_system_id is not None
    ),
)
