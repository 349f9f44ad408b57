"""DPD-HP-018: the cluster has an explicit name."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, properties, resources


@template_rule(
    "DPD-HP-018",
    severity=Severity.ERROR,
    title="the HyperPod cluster has an explicit name",
    sources=("AWS::SageMaker::Cluster create-only properties: ClusterName, VpcConfig, Orchestrator",),
)
def cluster_has_a_name(template: Template) -> Iterator[Problem]:
    """With a name CloudFormation refuses a change that would replace the cluster and give its capacity away."""
    for logical_id, cluster in resources(template, "AWS::SageMaker::Cluster"):
        if not properties(cluster).get("ClusterName"):
            yield Problem(
                path=at(logical_id, "Properties.ClusterName"),
                says="the HyperPod cluster has no explicit name",
                given="no `ClusterName`",
                fix="set `ClusterName`",
            )
