"""Other counts for instance groups: everything else goes back to SageMaker as it came."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from hyperpod_dpd.scaling.handler import index
from hyperpod_dpd.scaling.handler.index import CannotScaleError, scale

ROLE = "arn:aws:iam::123456789012:role/nodes"
SETTINGS = {
    "InstanceType": "ml.p5.48xlarge",
    "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-scripts/a", "OnCreate": "on_create.sh"},
    "ExecutionRole": ROLE,
    "ThreadsPerCore": 2,
    "InstanceStorageConfigs": [{"EbsVolumeConfig": {"VolumeSizeInGB": 500}}],
    "OnStartDeepHealthChecks": ["InstanceStress"],
    "OverrideVpcConfig": {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]},
    "CapacityRequirements": {"Spot": {}},
}
"""What must come back unchanged."""

TAINT = {"Key": "gpu", "Value": "yes", "Effect": "NoSchedule"}


def _group(name: str, count: int, minimum: int | None = None) -> dict[str, Any]:
    described = {
        "InstanceGroupName": name,
        "CurrentCount": 0,
        "TargetCount": count,
        "Status": "InService",
        "CurrentImageId": "ami-0123456789abcdef0",
        "DesiredImageId": "ami-0123456789abcdef0",
        "KubernetesConfig": {
            "CurrentLabels": {"team": "old"},
            "DesiredLabels": {"team": "serving"},
            "CurrentTaints": [],
            "DesiredTaints": [TAINT],
        },
        **SETTINGS,
    }
    return described if minimum is None else {**described, "MinCount": minimum}


def _sent(name: str, count: int, minimum: int | None = None) -> dict[str, Any]:
    sent = {
        "InstanceGroupName": name,
        "InstanceCount": count,
        "KubernetesConfig": {"Labels": {"team": "serving"}, "Taints": [TAINT]},
        **SETTINGS,
    }
    return sent if minimum is None else {**sent, "MinInstanceCount": minimum}


def _untranslated(said: Any, known: Any, path: str = "") -> Iterator[str]:
    """Yield what an update takes and a description has no word for."""
    if known.type_name == "list":
        yield from _untranslated(said.member, known.member, f"{path}[]")
    elif known.type_name == "structure":
        for name, shape in known.members.items():
            described = said.members.get(name) or said.members.get(f"Desired{name}")
            if described is None:
                yield f"{path}.{name}"
            else:
                yield from _untranslated(described, shape, f"{path}.{name}")
    elif said.type_name != known.type_name:
        yield path


def test_every_setting_of_an_update_is_found_in_what_the_cluster_says(client: Any) -> None:
    shapes = client.meta.service_model
    described = shapes.shape_for("ClusterInstanceGroupDetails")
    taken = shapes.shape_for("ClusterInstanceGroupSpecification")
    assert set(_untranslated(described, taken)) == {".InstanceCount", ".MinInstanceCount"}
    # an id in the description, but a choice with a default in the update
    assert {"ImageId", "ImageReleaseVersion"} <= set(taken.members) - set(described.members)


@pytest.fixture(scope="module")
def client() -> Any:
    return boto3.client(
        "sagemaker", region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none"
    )


@pytest.fixture
def sagemaker(client: Any) -> Iterator[Stubber]:
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def _describes(sagemaker: Stubber, *groups: dict[str, Any]) -> None:
    sagemaker.add_response(
        "describe_cluster",
        {
            "ClusterArn": "arn:aws:sagemaker:us-east-1:123456789012:cluster/abcdefghijkl",
            "ClusterStatus": "InService",
            "CreationTime": datetime(2026, 11, 30, tzinfo=UTC),
            "InstanceGroups": list(groups),
        },
        {"ClusterName": "dpd"},
    )


def _updates(sagemaker: Stubber, *groups: dict[str, Any]) -> None:
    sagemaker.add_response(
        "update_cluster",
        {"ClusterArn": "arn:aws:sagemaker:us-east-1:123456789012:cluster/abcdefghijkl"},
        {"ClusterName": "dpd", "InstanceGroups": list(groups)},
    )


def _is_busy(sagemaker: Stubber, code: str = "ConflictException") -> None:
    sagemaker.add_client_error("update_cluster", code, "Cluster is updating")


def test_every_group_goes_back_with_its_settings_and_only_other_counts(
    client: Any, sagemaker: Stubber
) -> None:
    _describes(sagemaker, _group("prefill", 2), _group("decode", 1), _group("theirs", 4))
    _updates(sagemaker, _sent("prefill", 0), _sent("decode", 0), _sent("theirs", 4))
    assert scale(client, "dpd", {"prefill": 0, "decode": 0})


def test_a_minimum_follows_a_smaller_count_and_no_other(client: Any, sagemaker: Stubber) -> None:
    _describes(sagemaker, _group("prefill", 4, 2), _group("decode", 4, 2))
    _updates(sagemaker, _sent("prefill", 1, 1), _sent("decode", 5, 2))
    assert scale(client, "dpd", {"prefill": 1, "decode": 5})


def test_counts_that_are_there_already_change_nothing(client: Any, sagemaker: Stubber) -> None:
    _describes(sagemaker, _group("prefill", 2), _group("decode", 1))
    assert not scale(client, "dpd", {"prefill": 2, "decode": 1})


def test_a_group_that_does_not_exist_is_refused_before_anything_changes(
    client: Any, sagemaker: Stubber
) -> None:
    _describes(sagemaker, _group("prefill", 2))
    with pytest.raises(CannotScaleError, match="no instance group `decode`, only `prefill`"):
        scale(client, "dpd", {"prefill": 1, "decode": 1})


def test_a_setting_that_boto3_does_not_know_is_refused_before_anything_is_asked(
    client: Any, sagemaker: Stubber
) -> None:
    with pytest.raises(CannotScaleError, match="does not know `Placement` of an instance group"):
        scale(client, "dpd", {"prefill": 0}, settings=("ThreadsPerCore", "Placement"))


def test_a_busy_cluster_is_asked_again_with_what_it_then_has(client: Any, sagemaker: Stubber) -> None:
    _describes(sagemaker, _group("prefill", 2))
    _is_busy(sagemaker)
    _describes(sagemaker, _group("prefill", 2), _group("new", 3))
    _updates(sagemaker, _sent("prefill", 0), _sent("new", 3))
    slept: list[float] = []
    assert scale(client, "dpd", {"prefill": 0}, may_wait=lambda: True, sleep=slept.append)
    assert slept == [index.RETRY_SECONDS]


@pytest.mark.parametrize("code", ["ConflictException", "ResourceLimitExceeded", "AccessDeniedException"])
def test_what_cannot_be_waited_for_is_raised(client: Any, sagemaker: Stubber, code: str) -> None:
    _describes(sagemaker, _group("prefill", 2))
    _is_busy(sagemaker, code)
    with pytest.raises(ClientError, match=code):
        scale(client, "dpd", {"prefill": 0}, may_wait=lambda: code != "ConflictException")


class _Context:
    """What Lambda says about the time that is left, one answer per question."""

    def __init__(self, *milliseconds: int) -> None:
        self._left = iter(milliseconds)

    def get_remaining_time_in_millis(self) -> int:
        return next(self._left)


def test_function_gives_up_loudly_before_lambda_ends_it(
    client: Any, sagemaker: Stubber, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("boto3.client", lambda _: client)
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    for _ in range(2):
        _describes(sagemaker, _group("prefill", 2))
        _is_busy(sagemaker)
    event = {"cluster": "dpd", "counts": {"prefill": 0}, "settings": ["ThreadsPerCore"]}
    with pytest.raises(ClientError, match="ConflictException"):
        index.handler(event, _Context(600_000, 119_999))
    assert slept == [index.RETRY_SECONDS]
