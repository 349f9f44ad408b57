"""What must exist before what: one row for each way in which a first deployment went wrong in public.

Each order must hold, and at least one edge must carry it alone: whoever removes that edge fails the row's test.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pytest

from tests.support.order import Node, Order, order
from tests.support.synth import deployments, synthesize

INFERENCE = "amazon-sagemaker-hyperpod-inference"
OBSERVABILITY = "amazon-sagemaker-hyperpod-observability"
Find = Callable[[Order], list[Node]]


@dataclass(frozen=True)
class Row:
    """`later` must be made after `earlier`."""

    why: str
    later: Find
    earlier: Find
    deployment: str = "llama-3.3-70b-p5"


def _kind(part: str, resource_type: str, **properties: str) -> Find:
    return lambda found: found.find(part, resource_type, **properties)


def _addon(name: str, part: str = "platform") -> Find:
    return _kind(part, "AWS::EKS::Addon", AddonName=name)


def _wait(name: str) -> Find:
    return _kind("platform", "AWS::CloudFormation::WaitCondition", id_like=name)


def _looking(name: str) -> Find:
    """The beginning of a wait."""
    return _kind("platform", "Custom::DpdWait", id_like=name)


HYPERPOD = _kind("hyperpod", "AWS::SageMaker::Cluster")
CHARTS = _kind("platform", "Custom::AWSCDK-EKS-HelmChart")
KEDA = _kind("platform", "Custom::AWSCDK-EKS-HelmChart", Release="keda")
MANIFESTS = _kind("platform", "Custom::AWSCDK-EKS-KubernetesResource")

ROWS = {
    "hyperpod-after-rules-of-the-efa-group": Row(
        "awsome-distributed-ai PR 259: without egress to itself the EFA check fails",
        HYPERPOD,
        _kind("network", "AWS::EC2::SecurityGroupEgress"),
    ),
    "hyperpod-after-its-role-may-do-things": Row(
        "public CDK RIG app: `Unable to retrieve subnets`",
        HYPERPOD,
        _kind("hyperpod", "AWS::IAM::Policy", id_like="ExecutionRole"),
    ),
    "hyperpod-after-the-lifecycle-scripts": Row(
        "awsome-distributed-ai PR 918: the first node finds an empty folder",
        HYPERPOD,
        _kind("hyperpod", "Custom::CDKBucketDeployment"),
    ),
    "hyperpod-after-the-dependencies-chart": Row(
        "public CDK app: `missing one or more required dependencies`",
        HYPERPOD,
        _kind("hyperpod", "Custom::HyperPodDependencies"),
    ),
    "coredns-after-system-nodes": Row(
        "terraform-provider-aws 44669: a green stack without DNS",
        _addon("coredns", "cluster"),
        _kind("cluster", "AWS::EKS::Nodegroup"),
    ),
    "system-nodes-after-the-network-plugin": Row(
        "a node without its network plugin never becomes ready",
        _kind("cluster", "AWS::EKS::Nodegroup"),
        _addon("vpc-cni", "cluster"),
    ),
    "nodes-are-waited-for-after-the-cluster": Row(
        "awsome-distributed-ai PR 926: the cluster is complete with zero nodes",
        _looking("Nodes"),
        HYPERPOD,
    ),
    **{
        f"{name}-after-nodes": Row(
            "ml-container-creator PR 297: pods of controllers are pending for 48 hours",
            _addon(name),
            _wait("Nodes"),
        )
        for name in ("cert-manager", "metrics-server", "aws-mountpoint-s3-csi-driver", "aws-fsx-csi-driver")
    },
    **{
        f"addons-are-waited-for-after-{name}": Row(
            "terraform-provider-aws 44669: CloudFormation takes `DEGRADED` for created",
            _looking("AddonsWork"),
            _addon(name),
        )
        for name in ("cert-manager", "metrics-server", "aws-mountpoint-s3-csi-driver", "aws-fsx-csi-driver")
    },
    "inference-after-its-prerequisites-work": Row(
        "SageMaker DG model-deployment-setup: the add-on fails if one is missing",
        _addon(INFERENCE),
        _wait("AddonsWork"),
    ),
    "observability-after-certificates-work": Row(
        "SageMaker DG observability: its operator asks cert-manager's webhook",
        _addon(OBSERVABILITY),
        _wait("AddonsWork"),
    ),
    "observability-after-inference": Row(
        "two add-ons that bring the same kinds at once", _addon(OBSERVABILITY), _addon(INFERENCE)
    ),
    **{
        f"controllers-are-waited-for-after-{name}": Row(
            "an endpoint that is asked of an operator that does not run yet",
            _looking("ControllersWork"),
            _addon(addon),
        )
        for name, addon in (("inference", INFERENCE), ("observability", OBSERVABILITY))
    },
    "operator-after-its-role-may-do-things": Row(
        "SageMaker DG model-deployment-ts-startup: the start-up probe fails without permissions",
        _addon(INFERENCE),
        _kind("platform", "AWS::IAM::Policy", id_like="ClusterInferenceOperatorRoleDefaultPolicy"),
    ),
    "collector-of-the-addon-after-its-identity": Row(
        "awsome-distributed-ai 1075: a pod that starts before its association has no identity",
        _addon(OBSERVABILITY),
        _kind(
            "platform",
            "AWS::EKS::PodIdentityAssociation",
            ServiceAccount="hyperpod-observability-operator-otel-collector",
        ),
    ),
    "fsx-driver-after-its-identity": Row(
        "the same for the FSx driver",
        _addon("aws-fsx-csi-driver"),
        _kind("platform", "AWS::EKS::PodIdentityAssociation", ServiceAccount="fsx-csi-controller-sa"),
    ),
    "charts-after-the-way-into-the-cluster": Row(
        "aws/eks-charts 529: the first chart is refused",
        CHARTS,
        _kind("platform", "AWS::EKS::AccessEntry", id_like="Kubectl"),
    ),
    "charts-after-the-rule-into-the-cluster": Row(
        "a function whose security group the API server does not let in",
        CHARTS,
        _kind("platform", "AWS::EC2::SecurityGroupIngress", id_like="Kubectl"),
    ),
    "charts-after-the-read-right-on-their-files": Row(
        "aws-cdk 19880: a chart's file is refused with 403",
        _kind("platform", "Custom::AWSCDK-EKS-HelmChart", Release="hyperpod-dpd-platform"),
        _kind("platform", "AWS::IAM::Policy", id_like="KubectlProviderHandler"),
    ),
    **{
        f"{what}-after-the-logs-of-their-function": Row(
            "aws-cdk 667: a function that runs first makes the log group, and CloudFormation finds its name taken",
            later,
            _kind("platform", "AWS::Logs::LogGroup", id_like="KubectlProvider"),
        )
        for what, later in (("charts", CHARTS), ("rights-of-the-poller", MANIFESTS))
    },
    "rights-of-the-poller-after-the-way-into-the-cluster": Row(
        "the same for the manifest of the poller's rights",
        MANIFESTS,
        _kind("platform", "AWS::EKS::AccessEntry", id_like="Kubectl"),
    ),
    "looking-after-the-rights-to-look": Row(
        "a poller that Kubernetes refuses for the whole time", _looking("Nodes"), MANIFESTS
    ),
    "looking-after-the-poller-is-somebody": Row(
        "an identity that the cluster does not know",
        _looking("Nodes"),
        _kind("platform", "AWS::EKS::AccessEntry", id_like="Readiness"),
    ),
    "platform-release-after-controllers-work": Row(
        "kinds of controllers that do not exist yet",
        _kind("platform", "Custom::AWSCDK-EKS-HelmChart", Release="hyperpod-dpd-platform"),
        _wait("ControllersWork"),
    ),
    "platform-release-after-the-collectors-identity": Row(
        "a collector that starts before its association writes nothing",
        _kind("platform", "Custom::AWSCDK-EKS-HelmChart", Release="hyperpod-dpd-platform"),
        _kind("platform", "AWS::EKS::PodIdentityAssociation", ServiceAccount="metrics-collector"),
    ),
    "keda-alone-is-waited-for": Row(
        "objects of a controller that does not run", _looking("ControllersWork"), KEDA, "alone"
    ),
    "load-balancer-controller-alone-is-waited-for": Row(
        "its webhook fails closed: nothing is created while it does not answer",
        _looking("ControllersWork"),
        _kind("platform", "Custom::AWSCDK-EKS-HelmChart", Release="aws-load-balancer-controller"),
        "alone",
    ),
    "charts-after-their-copies": Row(
        "a chart that the account's registry does not have yet",
        KEDA,
        _kind("platform", "AWS::CloudFormation::WaitCondition", id_like="ImageMirror"),
        "alone",
    ),
    "serving-after-the-model": Row(
        "workers that find no weights", _kind("serving", "Custom::AWSCDK-EKS-HelmChart"), _wait("ModelImport")
    ),
    "serving-after-the-platform-release": Row(
        "workers that nobody measures",
        _kind("serving", "Custom::AWSCDK-EKS-HelmChart"),
        _wait("ControllersWork"),
    ),
}


@cache
def _order(name: str) -> Order:
    return order(synthesize(deployments()[name]))


@pytest.mark.parametrize("name", ROWS)
def test_order_holds(name: str) -> None:
    row = ROWS[name]
    found = _order(row.deployment)
    later, earlier = row.later(found), row.earlier(found)
    assert later, row.why
    assert earlier, row.why
    for node in later:
        for before in earlier:
            assert found.waits(node, before), f"{node} does not wait for {before}: {row.why}"


TWICE = {
    "hyperpod-after-rules-of-the-efa-group": "the stack needs the network's and the cluster's, which needs the network's",
    "nodes-are-waited-for-after-the-cluster": "the platform's stack needs all three others",
    "observability-after-certificates-work": "after the inference add-on, where there is one, which is after them too",
    "controllers-are-waited-for-after-inference": "the observability add-on is after it, too",
    "charts-after-the-read-right-on-their-files": "aws-cdk-lib orders its function and its grant",
    "serving-after-the-model": "the stack needs the platform's, in which everything is waited for",
    "serving-after-the-platform-release": "the same",
}
"""Orders that two edges carry, each alone enough."""


@pytest.mark.parametrize("name", ROWS)
def test_order_hangs_on_edges_that_somebody_wrote(name: str) -> None:
    row = ROWS[name]
    found = _order(row.deployment)
    later, earlier = row.later(found)[0], row.earlier(found)[0]
    written = frozenset(edge for edge in found.edges if edge.explicit)
    assert not found.waits(later, earlier, without=written)


@pytest.mark.parametrize("name", sorted(ROWS.keys() - TWICE.keys()))
def test_order_is_lost_with_one_edge(name: str) -> None:
    row = ROWS[name]
    found = _order(row.deployment)
    later, earlier = row.later(found)[0], row.earlier(found)[0]
    way = found.path(later, earlier)
    assert way is not None
    carrying = [edge for edge in way if not found.waits(later, earlier, without=frozenset({edge}))]
    assert any(edge.explicit for edge in carrying), [edge.later for edge in way]
