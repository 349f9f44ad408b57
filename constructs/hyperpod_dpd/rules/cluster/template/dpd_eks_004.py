"""DPD-EKS-004: the VPC CNI is the only network plugin, and new enough."""

import json
from collections.abc import Iterator

from hyperpod_dpd.catalog.eks import addon, addon_version_key
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, properties, resources

_OTHER_PLUGINS = ("cilium", "calico", "flannel", "weave-net", "antrea")


@template_rule(
    "DPD-EKS-004",
    severity=Severity.ERROR,
    title="the VPC CNI add-on is there, at least 1.18.3, and no other network plugin",
    sources=("SageMaker DG sagemaker-hyperpod-eks-prerequisites", "aws/amazon-vpc-cni-k8s #3189 and PR 3141"),
    facts=("P26",),
)
def vpc_cni_is_the_network_plugin(template: Template) -> Iterator[Problem]:
    """HyperPod supports this plugin only; an older one does not know HyperPod's nodes."""
    for logical_id, chart in resources(template, "Custom::AWSCDK-EKS-HelmChart"):
        text = json.dumps(properties(chart)).lower()
        for plugin in _OTHER_PLUGINS:
            if plugin in text:
                yield Problem(
                    path=at(logical_id),
                    says="a second network plugin",
                    given=f"a Helm chart of `{plugin}`",
                    limit="the Amazon VPC CNI only",
                    fix="remove the chart",
                )
    for logical_id, _ in resources(template, "AWS::EKS::Cluster"):
        yield from _cni_of(template, logical_id)


def _cni_of(template: Template, cluster: str) -> Iterator[Problem]:
    floor = addon("vpc-cni").floor or ""
    found = [
        properties(entry)
        for _, entry in resources(template, "AWS::EKS::Addon")
        if properties(entry).get("AddonName") == "vpc-cni"
    ]
    version = found[0].get("AddonVersion") if found else None
    if not found:
        yield Problem(
            path=at(cluster),
            says="the cluster has no VPC CNI add-on",
            given="no `AWS::EKS::Addon` with `AddonName: vpc-cni`",
            fix="add the add-on with a pinned version",
        )
    elif isinstance(version, str) and addon_version_key(version) < addon_version_key(floor):
        yield Problem(
            path=at(cluster),
            says="the VPC CNI add-on is too old",
            given=f"`{version}`",
            limit=f"at least `{floor}`",
            fix="use the version of the catalog",
        )
