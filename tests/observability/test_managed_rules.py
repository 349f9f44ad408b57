"""The same rules reach Amazon Managed Service for Prometheus and a Prometheus operator."""

from pathlib import Path

import yaml
from aws_cdk import App, Stack
from aws_cdk.assertions import Template

from hyperpod_dpd.observability.managed_rules import ManagedRules
from hyperpod_dpd.spec import Deployment
from tests.support.deployments import changed, ready
from tests.support.manifests import deployments, find, rendering
from tests.support.prometheus import check_rules

WORKSPACE = "arn:aws:aps:us-east-1:123456789012:workspace/ws-0123abcd-0000-4000-8000-0123456789ab"


def data(deployment: Deployment) -> str:
    stack = Stack(App(), "observability")
    ManagedRules(stack, "rules", deployment=deployment, workspace_arn=WORKSPACE)
    (resource,) = Template.from_stack(stack).find_resources("AWS::APS::RuleGroupsNamespace").values()
    assert resource["Properties"]["Workspace"] == WORKSPACE
    assert resource["Properties"]["Name"] == deployment.name
    text = resource["Properties"]["Data"]
    assert isinstance(text, str)
    return text


def test_the_namespace_holds_what_an_operator_would_read(tmp_path: Path) -> None:
    text = data(deployments()["prometheus-operator"])
    check_rules(text, tmp_path)
    rule = find(rendering("prometheus-operator").objects, "PrometheusRule")
    assert yaml.safe_load(text) == rule["spec"]


def test_runbooks_are_linked_where_they_are_published() -> None:
    published = changed(ready(), platform__alerts__runbooks_url="https://wiki.example/dpd/")
    groups = yaml.safe_load(data(published))["groups"]
    links = {
        rule["annotations"]["runbook_url"] for group in groups for rule in group["rules"] if "alert" in rule
    }
    assert "https://wiki.example/dpd/DpdEfaIdle.md" in links
    assert all(link.startswith("https://wiki.example/dpd/Dpd") for link in links)
