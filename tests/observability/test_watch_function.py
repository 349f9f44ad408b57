"""The watch's function: what it tells, what it keeps to itself, and the numbers of a check."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import ANY, Stubber

from hyperpod_dpd.observability.watch.handler import index

CLUSTER = "llama-hyperpod"
TOPIC = "arn:aws:sns:us-east-1:123456789012:alerts"


@cache
def _client(service: str) -> Any:
    """A client takes a tenth of a second to make; a test only puts its stub on it, and takes it off again."""
    return boto3.session.Session().client(  # type: ignore[call-overload]
        service, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
    )


@dataclass
class Aws:
    """Real clients, whose answers a test queues; botocore checks every parameter and answer against its model."""

    stubs: dict[str, Stubber] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        return self.stub(service).client

    def stub(self, service: str) -> Stubber:
        if service not in self.stubs:
            self.stubs[service] = Stubber(_client(service))
            self.stubs[service].activate()
        return self.stubs[service]

    def will_publish(self, message: object = ANY, subject: object = ANY) -> None:
        self.stub("sns").add_response(
            "publish", {"MessageId": "1"}, {"TopicArn": TOPIC, "Subject": subject, "Message": message}
        )

    def will_find_nodes(self, running: int, wanted: int) -> None:
        stub = self.stub("sagemaker")
        stub.add_response(
            "describe_cluster",
            {
                "ClusterArn": f"arn:aws:sagemaker:us-east-1:123456789012:cluster/{'a' * 12}",
                "ClusterStatus": "InService",
                "InstanceGroups": [{"InstanceGroupName": "prefill", "TargetCount": wanted}],
            },
            {"ClusterName": CLUSTER},
        )
        states = ["Running"] * running + ["Failure"]
        stub.add_response(
            "list_cluster_nodes",
            {
                "ClusterNodeSummaries": [
                    {
                        "InstanceGroupName": "prefill",
                        "InstanceId": f"i-{number:08x}",
                        "InstanceType": "ml.p5.48xlarge",
                        "LaunchTime": datetime(2026, 11, 1, tzinfo=UTC),
                        "InstanceStatus": {"Status": state},
                    }
                    for number, state in enumerate(states)
                ]
            },
            {"ClusterName": CLUSTER},
        )

    def will_find_addons(self, **addons: tuple[str, list[dict[str, str]]]) -> None:
        stub = self.stub("eks")
        stub.add_response("list_addons", {"addons": list(addons)}, {"clusterName": "eks"})
        for name, (status, issues) in addons.items():
            stub.add_response(
                "describe_addon",
                {"addon": {"addonName": name, "status": status, "health": {"issues": issues}}},
                {"clusterName": "eks", "addonName": name},
            )

    def will_measure(self, **numbers: float) -> None:
        data = [
            {
                "MetricName": name,
                "Value": number,
                "Dimensions": [{"Name": "Deployment", "Value": "llama"}],
            }
            for name, number in numbers.items()
        ]
        self.stub("cloudwatch").add_response(
            "put_metric_data", {}, {"Namespace": "HyperPodDpd", "MetricData": data}
        )

    def all_was_asked(self) -> None:
        for stub in self.stubs.values():
            stub.assert_no_pending_responses()


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    given = Aws()
    monkeypatch.setattr(boto3, "client", given.client)
    monkeypatch.setattr(index, "_sent", {})
    for name, value in {
        "DPD_DEPLOYMENT": "llama",
        "DPD_EKS_NAME": "eks",
        "DPD_HYPERPOD_NAME": CLUSTER,
        "DPD_TRAINING_PLANS": "[]",
        "DPD_TOPIC_ARN": TOPIC,
    }.items():
        monkeypatch.setenv(name, value)
    yield given
    for stub in given.stubs.values():
        stub.deactivate()
    given.all_was_asked()


def operation(level: str, description: str, *, failure: str = "", **said: str) -> dict[str, Any]:
    """An event as the SageMaker developer guide shows it."""
    return {
        "detail-type": "SageMaker HyperPod Cluster Event",
        "source": "aws.sagemaker",
        "time": "2026-06-01T17:20:25Z",
        "region": "us-east-1",
        "detail": {
            "EventDetails": {
                "ClusterName": CLUSTER,
                "InstanceGroupName": "prefill",
                "ResourceType": "Instance",
                "EventLevel": level,
                "Description": description,
                "EventDetails": {"EventMetadata": {"Instance": {"FailureMessage": failure}}},
                **said,
            }
        },
    }


def health(status: str) -> dict[str, Any]:
    return {
        "detail-type": "SageMaker HyperPod Cluster Node Health Event",
        "source": "aws.sagemaker",
        "detail": {
            "ClusterName": CLUSTER,
            "InstanceId": "i-12345678abcdefghi",
            "HealthSummary": {
                "HealthStatus": status,
                "HealthStatusReason": "NvidiaGPUUnhealthy: Xid 79",
                "RepairAction": "Replace",
                "Recommendation": "none needed",
            },
        },
    }


def state(status: str) -> dict[str, Any]:
    groups = [{"InstanceGroupName": "prefill", "Status": status, "CurrentCount": 1, "TargetCount": 2}]
    return {
        "detail-type": "SageMaker HyperPod Cluster State Change",
        "source": "aws.sagemaker",
        "detail": {
            "ClusterName": CLUSTER,
            "ClusterStatus": status,
            "FailureMessage": "the subnet has no addresses left",
            "InstanceGroups": groups,
        },
    }


NO_CAPACITY = operation(
    "Error",
    f"Instance creation in Cluster {CLUSTER} and InstanceGroup prefill failed",
    failure="We currently do not have sufficient capacity to launch new ml.p5.48xlarge instances.",
    InstanceId="i-0391f86fa0fe0d465",
)
REPLACEMENT = operation(
    "Info",
    f"Instance i-0391f86fa0fe0d465 is starting as part of instance replacement in Cluster {CLUSTER} and IG prefill",
    InstanceId="i-0391f86fa0fe0d465",
)


@pytest.mark.parametrize(
    ("event", "headline", "said"),
    [
        (NO_CAPACITY, "HyperPod error of i-0391f86fa0fe0d465", "sufficient capacity to launch new ml.p5"),
        (REPLACEMENT, "HyperPod replaces i-0391f86fa0fe0d465", "as part of instance replacement"),
        (health("Unhealthy"), "node i-12345678abcdefghi is unhealthy", "Xid 79"),
        (state("Failed"), f"HyperPod cluster {CLUSTER} is Failed", "prefill: Failed, 1 of 2"),
    ],
    ids=["error", "replacement", "node health", "cluster state"],
)
def test_what_somebody_has_to_know_is_told_with_hyperpods_own_words(
    aws: Aws, event: dict[str, Any], headline: str, said: str
) -> None:
    told = index.message(event)
    assert told is not None
    assert told[0] == headline
    assert said in " ".join(told[1].values())
    aws.will_publish(subject=f"llama: {headline}")
    index.handler(event, None)


@pytest.mark.parametrize(
    "event",
    [
        operation("Info", "EC2 Instance i-1 successfully provisioned"),
        # every scaling of a group says so
        operation("Warn", "1 node(s) lost orchestration-ready status. Current: 5/5"),
        health("Healthy"),
        state("InService"),
        {"detail-type": "SageMaker Endpoint State Change", "source": "aws.sagemaker", "detail": {}},
    ],
    ids=["progress", "scaling", "healthy again", "in service", "something else"],
)
def test_what_nobody_has_to_know_is_not_told(aws: Aws, event: dict[str, Any]) -> None:
    index.handler(event, None)


@pytest.mark.parametrize(
    "details", [None, {}, {"EventMetadata": None}, {"EventMetadata": {"Instance": "text"}}]
)
def test_an_error_without_details_is_told_without_a_cause(aws: Aws, details: Any) -> None:
    event = operation("Error", "InstanceGroup prefill scaling failed")
    event["detail"]["EventDetails"]["EventDetails"] = details
    aws.will_publish(subject="llama: HyperPod error of prefill")
    index.handler(event, None)


def test_a_launch_that_is_tried_again_and_again_is_told_once_an_hour(aws: Aws) -> None:
    now = [0.0]
    again = json.loads(json.dumps(NO_CAPACITY))
    again["detail"]["EventDetails"]["InstanceId"] = "i-0fffffffffffffff0"
    aws.will_publish()
    index.pass_on(NO_CAPACITY, clock=lambda: now[0])
    now[0] = index.REPEAT_SECONDS - 1
    index.pass_on(again, clock=lambda: now[0])
    aws.all_was_asked()
    now[0] = index.REPEAT_SECONDS + 1
    aws.will_publish()
    index.pass_on(again, clock=lambda: now[0])


def test_a_message_that_was_not_sent_is_sent_when_lambda_tries_again(aws: Aws) -> None:
    aws.stub("sns").add_client_error("publish", "KMSAccessDenied")
    with pytest.raises(ClientError):
        index.handler(NO_CAPACITY, None)
    aws.will_publish()
    index.handler(NO_CAPACITY, None)


def test_a_subject_is_one_short_line_of_ascii(aws: Aws) -> None:
    event = operation("Error", "broken", InstanceId="é\n" + "x" * 200)
    aws.will_publish(subject=f"llama: HyperPod error of {'x' * 72}...")
    index.handler(event, None)


HEALTHY: dict[str, tuple[str, list[dict[str, str]]]] = {
    "vpc_cni": ("ACTIVE", []),
    "coredns": ("UPDATING", []),
}


def test_a_healthy_cluster_has_zeros_and_a_completed_check(aws: Aws) -> None:
    aws.will_find_nodes(running=2, wanted=2)
    aws.will_find_addons(**HEALTHY)
    aws.will_measure(NodesMissing=0, AddonsUnhealthy=0, ChecksCompleted=1)
    index.handler({"source": "aws.events"}, None)


def test_missing_nodes_and_ill_addons_are_counted(aws: Aws) -> None:
    aws.will_find_nodes(running=1, wanted=3)
    issue = [{"code": "InsufficientNumberOfReplicas", "message": "no replica is there"}]
    aws.will_find_addons(**HEALTHY, dns=("ACTIVE", issue), observability=("UPDATE_FAILED", []))
    aws.will_measure(NodesMissing=2, AddonsUnhealthy=2, ChecksCompleted=1)
    index.handler({"source": "aws.eks", "detail-type": "EKS Addon Health Degraded", "detail": {}}, None)


def test_one_thing_that_may_not_be_read_does_not_hide_the_others(aws: Aws) -> None:
    aws.stub("sagemaker").add_client_error("describe_cluster", "AccessDeniedException")
    aws.will_find_addons(**HEALTHY)
    aws.will_measure(AddonsUnhealthy=0)
    with pytest.raises(index.CheckFailedError, match=r"nodes_missing: .*AccessDeniedException"):
        index.handler({}, None)


NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def part(status: str, hours: float) -> dict[str, Any]:
    return {"Status": status, "EndTime": NOW + timedelta(hours=hours)}


@pytest.mark.parametrize(
    ("plan", "hours"),
    [
        ({"Status": "Active", "EndTime": NOW + timedelta(hours=10)}, 9.5),
        ({"Status": "Active", "EndTime": NOW + timedelta(minutes=20)}, 0),
        ({"Status": "Expired", "EndTime": NOW - timedelta(hours=1)}, 0),
        (
            {
                "Status": "Active",
                "EndTime": NOW + timedelta(hours=100),
                "ReservedCapacitySummaries": [part("Active", 4), part("Scheduled", 100)],
            },
            3.5,
        ),
        (
            {
                "Status": "Scheduled",
                "EndTime": NOW + timedelta(hours=100),
                "ReservedCapacitySummaries": [part("Expired", -1), part("Scheduled", 100)],
            },
            99.5,
        ),
    ],
    ids=["runs", "is being terminated", "is over", "first of two reservations", "between two reservations"],
)
def test_a_plans_hours_end_half_an_hour_before_its_reservation(plan: dict[str, Any], hours: float) -> None:
    assert index.hours_left(plan, NOW) == hours


def test_every_training_plan_is_measured(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPD_TRAINING_PLANS", '["p5"]')
    aws.stub("sagemaker").add_response(
        "describe_training_plan",
        {
            "TrainingPlanArn": f"arn:aws:sagemaker:us-east-1:123456789012:training-plan/{'p' * 12}",
            "TrainingPlanName": "p5",
            "Status": "Expired",
        },
        {"TrainingPlanName": "p5"},
    )
    assert list(index.plans_end()) == [
        ("TrainingPlanHoursLeft", 0.0, [{"Name": "TrainingPlan", "Value": "p5"}])
    ]
