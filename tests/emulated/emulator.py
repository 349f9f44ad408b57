"""moto's server as the account behind the real CDK CLI, made honest about what it does not do.

moto skips resource types that it does not know, and Lambda-backed ones would wait for a container; both would be called
complete. Here each of them becomes a stand-in that is written down, so that a test can name what it has not seen.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import boto3
from botocore.exceptions import ClientError
from moto.cloudformation import parsing
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

ACCOUNT = "123456789012"
REGION = "us-east-1"
MARK = "stand-in"
"""Part of every value that a stand-in gives: whoever uses one has not been proved either."""

_LAMBDA_BACKED = ("Custom::", "AWS::CloudFormation::CustomResource")
_WAITS = tuple(parsing.NULL_MODELS)


class StandIn:
    """Has an id and every attribute, in the form in which templates take them apart, and does nothing."""

    def __init__(self, logical_id: str, kind: str) -> None:
        self.logical_resource_id = logical_id
        self.cf_resource_type = kind

    @property
    def physical_resource_id(self) -> str:
        if self.cf_resource_type == "AWS::IAM::OIDCProvider":
            return f"arn:aws:iam::{ACCOUNT}:oidc-provider/{MARK}/{self.logical_resource_id}"
        return f"{MARK}-{self.logical_resource_id}"

    @classmethod
    def has_cfn_attr(cls, _attribute_name: str) -> bool:
        return True

    def is_created(self) -> bool:
        return True

    def get_cfn_attribute(self, attribute_name: str) -> str:
        name = f"{self.logical_resource_id}-{attribute_name.replace('.', '-')}"
        if self.cf_resource_type == "AWS::CloudFormation::WaitCondition":
            return json.dumps({"signal": f"{MARK}-{name}"})
        if attribute_name.endswith("Arn"):
            return f"arn:aws:{MARK}:{REGION}:{ACCOUNT}:{MARK}/{name}"
        return f"{MARK}-{name}"


class Emulator:
    """The account: its address and what it has not done."""

    def __init__(self) -> None:
        self.url = ""
        self.unproved: dict[tuple[str, str], str] = {}
        """Reason by stack and logical id."""
        self.failures: list[str] = []
        """Resources that moto knows and could not make. It says complete all the same when the CLI asks again."""

    def client(self, service: str) -> Any:
        """Return a client of the account."""
        return boto3.client(  # type: ignore[call-overload]
            service,
            region_name=REGION,
            endpoint_url=self.url,
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    def environment(self) -> dict[str, str]:
        """Return the variables that point the CDK CLI and the AWS SDKs here."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        }

    def create(
        self,
        logical_id: str,
        resource_json: dict[str, Any],
        resources_map: Any,
        account_id: str,
        region_name: str,
    ) -> Any:
        """Create a resource as moto does, or a stand-in where moto cannot."""
        # moto forgets `DependsOn` of a resource that another one refers to
        needed = resource_json.get("DependsOn", [])
        for name in [needed] if isinstance(needed, str) else needed:
            _ = resources_map[name]
        kind = resource_json["Type"]
        if kind in _NAMED_BY_CLOUDFORMATION:
            # moto makes up none, or one that it refuses
            resource_json = _named(resource_json, _NAMED_BY_CLOUDFORMATION[kind], f"cfn-{logical_id.lower()}")
        if kind in _TAGS_MISREAD:
            resource_json = _without_tags(resource_json)
        if kind in _THROUGH_API:
            resolved = parsing.clean_json(resource_json, resources_map)
            if MARK not in json.dumps(resolved):
                _THROUGH_API[kind](self, resolved["Properties"])
                return StandIn(logical_id, kind)
        reason = _why_not(kind)
        if reason is None:
            try:
                made = _CREATE(logical_id, resource_json, resources_map, account_id, region_name)
            except Exception as error:
                resolved = json.dumps(parsing.clean_json(resource_json, resources_map), default=str)
                if MARK not in resolved:
                    self.failures.append(f"{logical_id} ({kind}): {error!r}")
                    raise
                reason = f"needs something that is not there either ({type(error).__name__})"
            else:
                return made
        self.unproved[str(resources_map["AWS::StackName"]), logical_id] = f"{kind}: {reason}"
        return StandIn(logical_id, kind)


def _without_tags(resource_json: dict[str, Any]) -> dict[str, Any]:
    return {**resource_json, "Properties": {**resource_json.get("Properties", {}), "Tags": []}}


def _named(resource_json: dict[str, Any], key: str, name: str) -> dict[str, Any]:
    return {**resource_json, "Properties": {key: name, **resource_json.get("Properties", {})}}


_NAMED_BY_CLOUDFORMATION = {"AWS::SSM::Parameter": "Name"}
"""Property that holds the name, by type."""


_TAGS_MISREAD = ("AWS::KMS::Key", "AWS::SSM::Parameter")
"""Types whose tags moto reads as their API writes them and not as CloudFormation does."""


def _associate_cidr(emulator: Emulator, properties: dict[str, Any]) -> None:
    emulator.client("ec2").associate_vpc_cidr_block(
        VpcId=properties["VpcId"], CidrBlock=properties["CidrBlock"]
    )


def _allow_egress(emulator: Emulator, properties: dict[str, Any]) -> None:
    permission: dict[str, Any] = {"IpProtocol": properties["IpProtocol"]}
    permission |= {name: properties[name] for name in ("FromPort", "ToPort") if name in properties}
    if "CidrIp" in properties:
        permission["IpRanges"] = [{"CidrIp": properties["CidrIp"]}]
    else:
        permission["UserIdGroupPairs"] = [{"GroupId": properties["DestinationSecurityGroupId"]}]
    try:
        emulator.client("ec2").authorize_security_group_egress(
            GroupId=properties["GroupId"], IpPermissions=[permission]
        )
    except ClientError as error:
        # moto leaves the default rule in a group whose template takes it away
        if error.response["Error"]["Code"] != "InvalidPermission.Duplicate":
            raise


_THROUGH_API: Mapping[str, Callable[[Emulator, dict[str, Any]], None]] = {
    "AWS::EC2::VPCCidrBlock": _associate_cidr,
    "AWS::EC2::SecurityGroupEgress": _allow_egress,
}
"""What moto's CloudFormation does not do, and moto's own API does."""

_CREATE = parsing.parse_and_create_resource
_CLASS = parsing.resource_class_from_type


def _why_not(kind: str) -> str | None:
    if kind.startswith(_LAMBDA_BACKED):
        return "its function is not run"
    if kind in _WAITS:
        return "nothing is waited for"
    return None if kind in parsing.get_model_map() else "unknown to moto"


def _class_of(kind: str) -> Any:
    return StandIn if _why_not(kind) else _CLASS(kind)


@contextmanager
def running() -> Iterator[Emulator]:
    """Run an empty account on a free port of loopback."""
    emulator = Emulator()
    server = make_server(
        "127.0.0.1",
        0,
        DomainDispatcherApplication(create_backend_app),
        threaded=True,
        request_handler=_Quiet,
    )
    # moto finds templates in its own S3 only where the address says `localhost`
    emulator.url = f"http://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    with (
        mock.patch.object(parsing, "parse_and_create_resource", emulator.create),
        mock.patch.object(parsing, "resource_class_from_type", _class_of),
    ):
        thread.start()
        try:
            yield emulator
        finally:
            server.shutdown()
            thread.join()


class _Quiet(MotoRequestHandler):
    """Says nothing of the thousand requests of a deployment."""

    def log(self, *_: Any) -> None:
        pass
