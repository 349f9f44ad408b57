"""The poller of waits: every outcome of a look, and what CloudFormation is told."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hyperpod_dpd.readiness.poller import index
from hyperpod_dpd.readiness.poller.gone import LONGEST, StillThereError
from hyperpod_dpd.readiness.poller.kubernetes import ApiError, KubernetesApi
from hyperpod_dpd.readiness.poller.nodes import PATIENCE
from hyperpod_dpd.readiness.requirements import (
    AddonActive,
    JobComplete,
    NodeGroup,
    NodesHealthy,
    Requirement,
    ResourceState,
    Rollout,
    ServiceAnswers,
    WebhookAnswers,
    nodes_of,
)
from tests.support.deployments import changed, ready
from tests.support.poller import Aws, aws, cloudformation, kubernetes, refusal

__all__ = ["aws", "cloudformation", "kubernetes"]

STARTED = datetime(2026, 11, 30, 8, tzinfo=UTC)
WITHIN = timedelta(hours=12)
NODES = NodesHealthy(
    groups=(
        NodeGroup(name="prefill", count=2, devices={"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}),
        NodeGroup(name="decode", count=1, devices={"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}),
    )
)
RULE = "arn:aws:events:us-east-1:123456789012:rule/dpd-platform-Nodes"


@pytest.fixture(autouse=True)
def _connected(monkeypatch: pytest.MonkeyPatch, kubernetes: Any) -> None:
    api = KubernetesApi(endpoint=f"http://127.0.0.1:{kubernetes.server_port}", token="a-token", context=None)
    monkeypatch.setattr(index, "connect", lambda name: api if name == "dpd" else pytest.fail(name))


class Look:
    """Looks of one wait at chosen times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cloudformation: Any) -> None:
        self._monkeypatch = monkeypatch
        self._cloudformation = cloudformation

    def at(self, passed: timedelta, *requirements: Requirement) -> Any:
        """Look `passed` after the start; return what CloudFormation was told, None if nothing."""
        self._monkeypatch.setattr(index, "utc_now", lambda: STARTED + passed)
        before = len(self._cloudformation.told)
        event = {
            "wait": "dpd-platform/Nodes",
            "handle": f"http://127.0.0.1:{self._cloudformation.server_port}/handle",
            "started": STARTED.isoformat(),
            "within_seconds": WITHIN.total_seconds(),
            "rule": RULE,
            "requirements": [requirement.as_event() for requirement in requirements],
        }
        index.handler(event, None)
        told = [body for _, body in self._cloudformation.told[before:]]
        return told[0] if told else None


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch, cloudformation: Any) -> Look:
    return Look(monkeypatch, cloudformation)


def _group(name: str, current: int, target: int, status: str = "InService") -> dict[str, Any]:
    return {"InstanceGroupName": name, "CurrentCount": current, "TargetCount": target, "Status": status}


def _node(group: str, number: int, status: str = "Running", message: str = "") -> dict[str, Any]:
    return {
        "InstanceGroupName": group,
        "InstanceId": f"i-{group}-{number}",
        "InstanceType": "ml.p5.48xlarge",
        "LaunchTime": STARTED,
        "InstanceStatus": {"Status": status, "Message": message},
    }


def _kubernetes_node(group: str, number: int, **changes: Any) -> dict[str, Any]:
    allocatable = {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32", "cpu": "190"}
    return {
        "metadata": {
            "name": f"hyperpod-{group}-{number}",
            "labels": {
                "sagemaker.amazonaws.com/instance-group-name": group,
                "sagemaker.amazonaws.com/node-health-status": changes.get("health", "Schedulable"),
            },
        },
        "spec": {"unschedulable": changes.get("cordoned", False)},
        "status": {
            "conditions": [{"type": "Ready", "status": changes.get("ready", "True")}],
            "allocatable": {**allocatable, **changes.get("allocatable", {})},
        },
    }


def _event(
    group: str | None, passed: timedelta, text: str, level: str = "Error", identifier: str = "e1"
) -> dict[str, Any]:
    where = (
        {"InstanceGroupName": group, "ResourceType": "InstanceGroup"}
        if group
        else {"ResourceType": "Cluster"}
    )
    return {
        "EventId": identifier,
        "ClusterArn": "arn:aws:sagemaker:us-east-1:123456789012:cluster/abc",
        "ClusterName": "dpd-hp",
        "EventTime": STARTED + passed,
        "Description": text,
        "EventLevel": level,
        **where,
    }


def _hyperpod(
    aws: Aws,
    *,
    groups: list[dict[str, Any]] | None = None,
    nodes: list[dict[str, Any]] | None = None,
    events: list[dict[str, Any]] | None = None,
    details: str = "",
    continuous: bool = True,
    **cluster: Any,
) -> None:
    all_nodes = [_node("prefill", 0), _node("prefill", 1), _node("decode", 0)] if nodes is None else nodes

    def page(parameters: Mapping[str, Any]) -> dict[str, Any]:
        rest = "NextToken" in parameters
        shown = all_nodes[1:] if rest else all_nodes[:1]
        return {
            "ClusterNodeSummaries": shown,
            **({} if rest or len(all_nodes) < 2 else {"NextToken": "more"}),
        }

    aws.answers |= {
        "DescribeCluster": {
            "ClusterArn": "arn:aws:sagemaker:us-east-1:123456789012:cluster/abc",
            "ClusterStatus": "InService",
            **({"NodeProvisioningMode": "Continuous"} if continuous else {}),
            "InstanceGroups": groups or [_group("prefill", 2, 2), _group("decode", 1, 1)],
            **cluster,
        },
        "ListClusterNodes": page,
        "ListClusterEvents": {"Events": events or []},
        "DescribeClusterEvent": lambda parameters: {
            "EventDetails": {
                **next(each for each in events or [] if each["EventId"] == parameters["EventId"]),
                "EventDetails": {"EventMetadata": {"InstanceGroupScaling": {"FailureMessage": details}}},
            }
        },
    }


def _join(kubernetes: Any, *nodes: dict[str, Any]) -> None:
    kubernetes.objects["/api/v1/nodes"] = list(nodes) or [
        _kubernetes_node("prefill", 0),
        _kubernetes_node("prefill", 1),
        _kubernetes_node("decode", 0),
    ]


# nodes


def test_all_nodes_running_and_healthy_ends_the_wait_and_the_looking(
    aws: Aws, kubernetes: Any, look: Look
) -> None:
    _hyperpod(aws)
    _join(kubernetes)
    told = look.at(timedelta(minutes=20), NODES)
    assert told["Status"] == "SUCCESS"
    assert aws.called("DisableRule") == [{"Name": "dpd-platform-Nodes"}]
    assert (
        kubernetes.asked[0][1]["labelSelector"]
        == "sagemaker.amazonaws.com/instance-group-name in (prefill,decode)"
    )


def test_nodes_that_are_still_coming_are_waited_for(aws: Aws, look: Look) -> None:
    _hyperpod(
        aws, nodes=[_node("prefill", 0), _node("prefill", 1, "DeepHealthCheckInProgress"), _node("decode", 0)]
    )
    assert look.at(timedelta(hours=3), NODES) is None
    assert aws.called("DisableRule") == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ready": "False"}, "`hyperpod-decode-0` is not ready"),
        ({"health": "UnschedulablePendingReplacement"}, "health status `UnschedulablePendingReplacement`"),
        ({"cordoned": True}, "is cordoned"),
        ({"allocatable": {"nvidia.com/gpu": "7"}}, "offers 7 of 8 `nvidia.com/gpu`"),
        ({"allocatable": {"vpc.amazonaws.com/efa": "0"}}, "offers 0 of 32 `vpc.amazonaws.com/efa`"),
    ],
)
def test_a_node_that_the_scheduler_cannot_use_is_not_ready(
    aws: Aws, kubernetes: Any, look: Look, changes: dict[str, Any], words: str
) -> None:
    _hyperpod(aws)
    _join(
        kubernetes,
        _kubernetes_node("prefill", 0),
        _kubernetes_node("prefill", 1),
        _kubernetes_node("decode", 0, **changes),
    )
    assert look.at(timedelta(minutes=5), NODES) is None
    told = look.at(WITHIN, NODES)
    assert told["Status"] == "FAILURE"
    assert words in told["Reason"]
    assert "`decode` has 0 of 1 nodes usable" in told["Reason"]


def test_nodes_that_have_not_joined_kubernetes_are_not_ready(aws: Aws, kubernetes: Any, look: Look) -> None:
    _hyperpod(aws)
    kubernetes.objects["/api/v1/nodes"] = [_kubernetes_node("prefill", 0)]
    assert look.at(timedelta(minutes=5), NODES) is None


def test_scarce_capacity_fails_with_the_words_of_hyperpod_once_it_has_gone_on_too_long(
    aws: Aws, look: Look
) -> None:
    text = "We currently do not have sufficient ml.p5.48xlarge capacity in use1-az6"
    newest = PATIENCE + timedelta(minutes=1)
    events = [
        _event("prefill", newest, "Instance group scaling failed", identifier="e9"),
        _event("prefill", timedelta(minutes=1), "Instance group scaling failed"),
    ]
    _hyperpod(aws, nodes=[_node("decode", 0)], events=events, details=text)
    told = look.at(newest + timedelta(minutes=1), NODES)
    assert told["Status"] == "FAILURE"
    assert "instance group `prefill` has 0 of 2 nodes running" in told["Reason"]
    assert text in told["Reason"]
    assert aws.called("DescribeClusterEvent") == [{"ClusterName": "dpd-hp", "EventId": "e9"}]
    assert len(aws.called("DisableRule")) == 1


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([_event("prefill", timedelta(minutes=40), "launch failed")], id="one new failure"),
        pytest.param([_event("prefill", timedelta(minutes=1), "launch failed")], id="one that is over"),
        pytest.param([_event("prefill", -timedelta(days=1), "launch failed")], id="before the wait"),
        pytest.param(
            [
                _event("decode", timedelta(minutes=40), "launch failed"),
                _event("decode", timedelta(minutes=1), "launch failed"),
            ],
            id="of a complete group",
        ),
    ],
)
def test_a_failure_that_hyperpod_may_overcome_is_waited_for(
    aws: Aws, look: Look, events: list[dict[str, Any]]
) -> None:
    _hyperpod(aws, nodes=[_node("prefill", 0), _node("decode", 0)], events=events)
    assert look.at(timedelta(minutes=41), NODES) is None


def test_a_failure_of_the_whole_cluster_counts_for_every_group(aws: Aws, look: Look) -> None:
    events = [
        _event(None, timedelta(minutes=40), "not enough free addresses in subnet", identifier="e2"),
        _event(None, timedelta(minutes=1), "not enough free addresses in subnet"),
    ]
    _hyperpod(aws, nodes=[], events=events)
    told = look.at(timedelta(minutes=41), NODES)
    assert "not enough free addresses in subnet" in told["Reason"]


def test_a_group_that_was_silently_reset_fails_at_once_with_its_last_event(aws: Aws, look: Look) -> None:
    events = [
        _event("prefill", timedelta(minutes=2), "group is in service", level="Info", identifier="e2"),
        _event("prefill", -timedelta(minutes=1), "minimum of 2 not met, rolled back", level="Warn"),
    ]
    _hyperpod(aws, groups=[_group("prefill", 0, 0), _group("decode", 1, 1)], nodes=[], events=events)
    told = look.at(timedelta(minutes=3), NODES)
    assert told["Status"] == "FAILURE"
    assert "instance group `prefill` was set to 0 of 2 nodes" in told["Reason"]
    assert "minimum of 2 not met, rolled back" in told["Reason"]


def test_without_continuous_provisioning_a_failed_node_fails_the_wait_with_its_message(
    aws: Aws, look: Look
) -> None:
    _hyperpod(
        aws,
        nodes=[
            _node("prefill", 0),
            _node("prefill", 1, "Failure", "EFA health checks did not run"),
            _node("decode", 0),
        ],
        continuous=False,
    )
    told = look.at(timedelta(minutes=3), NODES)
    assert "EFA health checks did not run" in told["Reason"]
    # such a cluster has no events
    assert aws.called("ListClusterEvents") == []


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        (
            {"ClusterStatus": "Failed", "FailureMessage": "the role was denied"},
            "is `Failed`: the role was denied",
        ),
        ({"InstanceGroups": [_group("prefill", 2, 2)]}, "instance group `decode` is not in HyperPod cluster"),
        (
            {"InstanceGroups": [_group("prefill", 2, 2, "Failed"), _group("decode", 1, 1)]},
            "instance group `prefill` failed: HyperPod gives no reason",
        ),
    ],
)
def test_what_cannot_become_well_fails_at_once(
    aws: Aws, look: Look, cluster: dict[str, Any], words: str
) -> None:
    _hyperpod(aws, **cluster)
    assert words in look.at(timedelta(minutes=1), NODES)["Reason"]


def test_nothing_for_the_whole_time_fails_before_cloudformation_gives_up_by_itself(
    aws: Aws, look: Look
) -> None:
    _hyperpod(aws, nodes=[])
    assert look.at(WITHIN - index.MARGIN - timedelta(minutes=1), NODES) is None
    told = look.at(WITHIN - index.MARGIN, NODES)
    assert told["Status"] == "FAILURE"
    assert "not there within 12:00:00: instance group `prefill` has 0 of 2 nodes running" in told["Reason"]


def test_throttling_is_waited_out(aws: Aws, kubernetes: Any, look: Look) -> None:
    _hyperpod(aws)
    _join(kubernetes)
    well = aws.answers["ListClusterNodes"]
    aws.answers["ListClusterNodes"] = refusal("ThrottlingException", "ListClusterNodes")
    assert look.at(timedelta(minutes=5), NODES) is None
    aws.answers["ListClusterNodes"] = well
    assert look.at(timedelta(minutes=6), NODES)["Status"] == "SUCCESS"


def test_rights_that_never_come_are_named_at_the_end(aws: Aws, kubernetes: Any, look: Look) -> None:
    _hyperpod(aws)
    kubernetes.objects["/api/v1/nodes"] = (
        403,
        'nodes is forbidden: User "poller" cannot list resource "nodes"',
    )
    assert look.at(timedelta(minutes=5), NODES) is None
    assert "cannot list resource" in look.at(WITHIN, NODES)["Reason"]


def test_repeated_looks_signal_with_one_id(
    aws: Aws, kubernetes: Any, cloudformation: Any, look: Look
) -> None:
    _hyperpod(aws)
    _join(kubernetes)
    for minute in (5, 6):
        look.at(timedelta(minutes=minute), NODES)
    ids = {body["UniqueId"] for _, body in cloudformation.told}
    assert len(cloudformation.told) == 2
    assert len(ids) == 1


def test_a_handle_that_takes_no_signal_any_more_ends_the_looking(
    aws: Aws, kubernetes: Any, cloudformation: Any, look: Look
) -> None:
    _hyperpod(aws)
    _join(kubernetes)
    cloudformation.status = 403
    look.at(timedelta(minutes=5), NODES)
    assert len(aws.called("DisableRule")) == 1


def test_a_signal_that_did_not_arrive_is_repeated(
    aws: Aws, kubernetes: Any, cloudformation: Any, look: Look
) -> None:
    _hyperpod(aws)
    _join(kubernetes)
    cloudformation.status = 503
    with pytest.raises(OSError, match="503"):
        look.at(timedelta(minutes=5), NODES)
    assert aws.called("DisableRule") == []


def test_the_groups_of_a_deployment_are_wanted_with_all_their_devices() -> None:
    wanted = {group.name: group for group in nodes_of(ready("llama-3.3-70b-p5-p5en")).groups}
    given = {group.name: group for group in ready("llama-3.3-70b-p5-p5en").hyperpod.instance_groups}
    assert {name: group.count for name, group in wanted.items()} == {
        name: group.count for name, group in given.items()
    }
    efa = {
        given[name].instance_type: group.devices["vpc.amazonaws.com/efa"] for name, group in wanted.items()
    }
    assert efa == {"ml.p5.48xlarge": 32, "ml.p5en.48xlarge": 16}


def test_a_group_with_a_minimum_is_ready_with_it() -> None:
    deployment = changed(
        ready(), hyperpod__instance_groups__0__count=4, hyperpod__instance_groups__0__minimum=2
    )
    assert nodes_of(deployment).groups[0].count == 2


# add-ons


def _addon(aws: Aws, status: str, **health: Any) -> None:
    aws.answers["DescribeAddon"] = {"addon": {"addonName": "cert-manager", "status": status, **health}}


def test_a_degraded_addon_is_not_there_although_cloudformation_says_so(aws: Aws, look: Look) -> None:
    issues = [{"code": "InsufficientNumberOfReplicas", "message": "0 of 1 replicas available"}]
    _addon(aws, "DEGRADED", health={"issues": issues})
    assert look.at(timedelta(minutes=5), AddonActive(name="cert-manager")) is None
    told = look.at(WITHIN, AddonActive(name="cert-manager"))
    assert "`DEGRADED`: InsufficientNumberOfReplicas: 0 of 1 replicas available" in told["Reason"]
    _addon(aws, "ACTIVE")
    assert look.at(timedelta(minutes=6), AddonActive(name="cert-manager"))["Status"] == "SUCCESS"


def test_a_failed_addon_fails_the_wait(aws: Aws, look: Look) -> None:
    _addon(aws, "CREATE_FAILED")
    assert look.at(timedelta(minutes=1), AddonActive(name="cert-manager"))["Status"] == "FAILURE"


def test_one_failure_ends_a_wait_for_several_and_names_only_itself(
    aws: Aws, kubernetes: Any, look: Look
) -> None:
    _addon(aws, "CREATE_FAILED")
    told = look.at(timedelta(minutes=1), Rollout(namespace="n", name="d"), AddonActive(name="cert-manager"))
    assert told["Reason"] == "add-on `cert-manager` is `CREATE_FAILED`"


# workloads

DEPLOYMENT = "/apis/apps/v1/namespaces/dpd/deployments/prefill"
PODS = "/api/v1/namespaces/dpd/pods"


def _workload(kubernetes: Any, status: dict[str, Any], *, replicas: int = 2, path: str = DEPLOYMENT) -> None:
    kubernetes.objects[path] = {
        "metadata": {"generation": 3},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "prefill", "role": "p"}}},
        "status": {"observedGeneration": 3, **status},
    }
    kubernetes.objects.setdefault(PODS, [])


@pytest.mark.parametrize(
    ("status", "done"),
    [
        ({"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}, True),
        ({"replicas": 2, "updatedReplicas": 2, "availableReplicas": 1}, False),
        ({"replicas": 3, "updatedReplicas": 2, "availableReplicas": 2}, False),
        ({"replicas": 2, "updatedReplicas": 1, "availableReplicas": 2}, False),
        ({"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "observedGeneration": 2}, False),
        ({}, False),
    ],
)
def test_a_rollout_is_done_when_every_pod_of_the_newest_revision_is_available(
    aws: Aws, kubernetes: Any, look: Look, status: dict[str, Any], done: bool
) -> None:
    _workload(kubernetes, status)
    told = look.at(timedelta(minutes=5), Rollout(namespace="dpd", name="prefill"))
    assert (told is not None) is done


def test_a_workload_that_does_not_exist_yet_is_waited_for(aws: Aws, look: Look) -> None:
    assert look.at(timedelta(minutes=5), Rollout(namespace="dpd", name="prefill")) is None
    assert "does not exist yet" in look.at(WITHIN, Rollout(namespace="dpd", name="prefill"))["Reason"]


def test_a_daemonset_counts_the_nodes_it_is_for(aws: Aws, kubernetes: Any, look: Look) -> None:
    wanted = Rollout(kind="daemonset", namespace="dpd", name="exporter")
    path = "/apis/apps/v1/namespaces/dpd/daemonsets/exporter"
    status = {"desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": 2}
    _workload(kubernetes, status, path=path)
    assert look.at(timedelta(minutes=5), wanted) is None
    _workload(kubernetes, {**status, "numberAvailable": 3}, path=path)
    assert look.at(timedelta(minutes=5), wanted)["Status"] == "SUCCESS"


def test_a_rollout_without_progress_fails_with_what_its_pods_say(
    aws: Aws, kubernetes: Any, look: Look
) -> None:
    stuck = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
    _workload(kubernetes, {"replicas": 2, "updatedReplicas": 2, "conditions": [stuck]})
    kubernetes.objects[PODS] = [
        {
            "status": {
                "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes available"}]
            }
        },
        {
            "status": {
                "containerStatuses": [
                    {
                        "name": "vllm",
                        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                        "lastState": {"terminated": {"message": "no EFA device found"}},
                    }
                ]
            }
        },
    ]
    told = look.at(timedelta(minutes=5), Rollout(namespace="dpd", name="prefill"))
    assert told["Status"] == "FAILURE"
    assert "cannot be scheduled: 0/3 nodes available" in told["Reason"]
    assert "`vllm` CrashLoopBackOff: no EFA device found" in told["Reason"]
    assert ("app=prefill,role=p") in [
        query.get("labelSelector") for path, query in kubernetes.asked if path == PODS
    ]


def test_a_job_that_failed_fails_with_its_termination_message(aws: Aws, kubernetes: Any, look: Look) -> None:
    path = "/apis/batch/v1/namespaces/dpd/jobs/proof-1a2b"
    wanted = JobComplete(namespace="dpd", name="proof-1a2b")
    kubernetes.objects[PODS] = []
    kubernetes.objects[path] = {"metadata": {}, "status": {"active": 1}}
    assert look.at(timedelta(minutes=1), wanted) is None
    kubernetes.objects[path] = {
        "status": {"conditions": [{"type": "Failed", "status": "True", "message": "limit"}]}
    }
    ended = {"terminated": {"exitCode": 1, "message": "PROOF-003 nothing was transferred"}}
    kubernetes.objects[PODS] = [{"status": {"containerStatuses": [{"name": "proof", "state": ended}]}}]
    told = look.at(timedelta(minutes=2), wanted)
    assert told["Status"] == "FAILURE"
    assert "PROOF-003 nothing was transferred" in told["Reason"]
    kubernetes.objects[path] = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    assert look.at(timedelta(minutes=3), wanted)["Status"] == "SUCCESS"


@pytest.mark.parametrize(
    ("endpoints", "done"),
    [
        ([], False),
        ([{"conditions": {"ready": False}}], False),
        ([{"conditions": {"ready": False}}, {"conditions": {"ready": True}}], True),
        ([{"conditions": {}}], True),
    ],
)
def test_a_service_answers_with_a_ready_endpoint(
    aws: Aws, kubernetes: Any, look: Look, endpoints: list[dict[str, Any]], done: bool
) -> None:
    path = "/apis/discovery.k8s.io/v1/namespaces/dpd/endpointslices"
    kubernetes.objects[path] = [{"endpoints": None}, {"endpoints": endpoints}]
    told = look.at(timedelta(minutes=1), ServiceAnswers(namespace="dpd", name="router"))
    assert (told is not None) is done


ENDPOINT = ResourceState(
    group="inference.sagemaker.aws.amazon.com",
    version="v1",
    plural="inferenceendpointconfigs",
    namespace="dpd",
    name="llama",
    complete="DeploymentComplete",
    failed="DeploymentFailed",
)


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ({"state": "DeploymentComplete", "observedGeneration": 3}, "SUCCESS"),
        # the state is of the generation before
        ({"state": "DeploymentComplete", "observedGeneration": 2}, None),
        ({"state": "DeploymentInProgress", "observedGeneration": 3}, None),
        ({"state": "DeploymentFailed", "observedGeneration": 3}, "FAILURE"),
        ({}, None),
    ],
)
def test_a_custom_resource_is_judged_by_the_word_of_its_controller(
    aws: Aws, kubernetes: Any, look: Look, status: dict[str, Any], word: str | None
) -> None:
    status = {"conditions": [{"type": "Ready", "status": "False", "message": "image not found"}], **status}
    kubernetes.objects[
        "/apis/inference.sagemaker.aws.amazon.com/v1/namespaces/dpd/inferenceendpointconfigs/llama"
    ] = {"metadata": {"generation": 3}, "status": status}
    told = look.at(timedelta(minutes=1), ENDPOINT)
    assert (told and told["Status"]) == word
    if word == "FAILURE":
        assert "image not found" in told["Reason"]


CERTIFICATE = WebhookAnswers(
    plural="certificates",
    body={
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": {"name": "asked", "namespace": "default"},
        "spec": {},
    },
)


@pytest.mark.parametrize(
    ("answer", "done"),
    [
        ((201, ""), True),
        ((409, "exists"), True),
        ((500, 'failed calling webhook "webhook.cert-manager.io": connection refused'), False),
        ((404, "the server could not find the requested resource"), False),
        ((403, "forbidden"), False),
    ],
)
def test_a_webhook_answers_when_a_rehearsed_creation_gets_through(
    aws: Aws, kubernetes: Any, look: Look, answer: tuple[int, str], done: bool
) -> None:
    kubernetes.rehearsal = answer
    told = look.at(timedelta(minutes=1), CERTIFICATE)
    assert (told is not None) is done
    ((path, body),) = kubernetes.rehearsed
    assert path == "/apis/cert-manager.io/v1/namespaces/default/certificates"
    assert body == CERTIFICATE.body
    if not done:
        assert answer[1] in look.at(WITHIN, CERTIFICATE)["Reason"]


# requests of custom resources


def _request(kind: str, cloudformation: Any, resource_type: str = "Custom::DpdWait") -> dict[str, Any]:
    return {
        "RequestType": kind,
        "ResourceType": resource_type,
        "ResponseURL": f"http://127.0.0.1:{cloudformation.server_port}/answer",
        "StackId": "stack",
        "RequestId": "request-1",
        "LogicalResourceId": "Nodes",
        "ResourceProperties": {"Namespaces": ["dpd-system", "dpd-workers"]},
        **({} if kind == "Create" else {"PhysicalResourceId": "request-0"}),
    }


@pytest.mark.parametrize(
    ("kind", "resource_type", "physical_id"),
    [
        ("Create", "Custom::DpdWait", "request-1"),
        ("Update", "Custom::DpdWait", "request-0"),
        ("Delete", "Custom::DpdWait", "request-0"),
        ("Create", "Custom::DpdGone", "request-1"),
        ("Update", "Custom::DpdGone", "request-0"),
    ],
)
def test_a_request_is_answered_at_once_with_the_time(
    aws: Aws,
    cloudformation: Any,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    resource_type: str,
    physical_id: str,
) -> None:
    monkeypatch.setattr(index, "utc_now", lambda: STARTED)
    index.handler(_request(kind, cloudformation, resource_type), None)
    ((_, body),) = cloudformation.told
    assert body["Status"] == "SUCCESS"
    assert body["Data"]["Started"] == STARTED.isoformat()
    assert body["PhysicalResourceId"] == physical_id


class Context:
    """What Lambda tells a function about its time."""

    def __init__(self, milliseconds: int) -> None:
        self._milliseconds = milliseconds

    def get_remaining_time_in_millis(self) -> int:
        return self._milliseconds


def _terminating(since: datetime | None, text: str = "") -> dict[str, Any]:
    held = {"type": "NamespaceFinalizersRemaining", "status": "True", "message": text}
    return {
        "metadata": {"name": "dpd-system", **({"deletionTimestamp": since.isoformat()} if since else {})},
        "status": {"conditions": [held]},
    }


def _delete(cloudformation: Any, milliseconds: int = 10_000) -> Any:
    index.handler(_request("Delete", cloudformation, index.GONE), Context(milliseconds))
    ((_, body),) = cloudformation.told
    return body


def test_a_deletion_ends_when_the_namespaces_are_gone(aws: Aws, kubernetes: Any, cloudformation: Any) -> None:
    assert _delete(cloudformation)["Status"] == "SUCCESS"
    assert [path for path, _ in kubernetes.asked] == [
        "/api/v1/namespaces/dpd-system",
        "/api/v1/namespaces/dpd-workers",
    ]


def test_a_deletion_that_takes_longer_than_a_run_is_run_again(
    aws: Aws, kubernetes: Any, cloudformation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "utc_now", lambda: STARTED)
    kubernetes.objects["/api/v1/namespaces/dpd-system"] = _terminating(STARTED)
    with pytest.raises(StillThereError, match="dpd-system"):
        _delete(cloudformation)
    assert cloudformation.told == []


def test_a_finalizer_that_never_ends_fails_the_deletion_by_name(
    aws: Aws, kubernetes: Any, cloudformation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "utc_now", lambda: STARTED + LONGEST)
    text = "Some content in the namespace has finalizers remaining: ingress.k8s.aws/resources in 1 resource instances"
    kubernetes.objects["/api/v1/namespaces/dpd-system"] = _terminating(STARTED, text)
    body = _delete(cloudformation)
    assert body["Status"] == "FAILED"
    assert text in body["Reason"]


def test_a_namespace_that_nobody_deletes_fails_the_deletion_at_once(
    aws: Aws, kubernetes: Any, cloudformation: Any
) -> None:
    kubernetes.objects["/api/v1/namespaces/dpd-workers"] = _terminating(None)
    reason = _delete(cloudformation)["Reason"]
    assert "nobody deletes it" in reason
    assert "`kubectl delete namespace dpd-workers`" in reason


def test_the_namespaces_of_a_cluster_that_is_gone_are_gone(
    aws: Aws, cloudformation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(_name: str) -> None:
        raise refusal("ResourceNotFoundException", "DescribeCluster")

    monkeypatch.setattr(index, "connect", connect)
    assert _delete(cloudformation)["Status"] == "SUCCESS"


def test_a_kubernetes_that_does_not_answer_is_asked_again(
    aws: Aws, kubernetes: Any, cloudformation: Any
) -> None:
    kubernetes.objects["/api/v1/namespaces/dpd-system"] = (503, "apiserver is shutting down")
    with pytest.raises(ApiError, match="shutting down"):
        _delete(cloudformation)
    assert cloudformation.told == []
