"""Which connections NetworkPolicies let through."""

import textwrap

import pytest

from hyperpod_dpd.lint.policies import closed_by
from hyperpod_dpd.lint.read import parse
from hyperpod_dpd.lint.recognise import recognise

_PODS = """
apiVersion: v1
kind: Namespace
metadata: {name: b, labels: {team: serving}}
---
apiVersion: v1
kind: Pod
metadata: {name: source, namespace: a, labels: {app: source}}
spec: {containers: [{name: c, command: [x]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: target, namespace: b, labels: {app: target}}
spec: {containers: [{name: c, command: [x], ports: [{name: kv, containerPort: 7300}]}]}
"""


def _closed(policies: str, port: int = 7300) -> str | None:
    manifests = recognise(parse(_PODS + textwrap.dedent(policies), "f"))
    source, target = manifests.pods
    found = closed_by(manifests, source, target, port)
    return None if found is None else found.name


def _policy(spec: str, name: str = "p", namespace: str = "b") -> str:
    return (
        "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n"
        f"metadata: {{name: {name}, namespace: {namespace}}}\nspec: {spec}\n"
    )


_FROM_SOURCE = "from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: source}}}]"


def test_without_a_policy_everything_is_open() -> None:
    assert _closed("") is None


def test_a_policy_that_selects_nobody_or_another_namespace_closes_nothing() -> None:
    assert _closed(_policy("{podSelector: {matchLabels: {app: other}}}")) is None
    assert _closed(_policy("{podSelector: {}}", namespace="c")) is None


def test_default_deny_closes_and_another_policy_opens_again() -> None:
    deny = _policy("{podSelector: {}, policyTypes: [Ingress]}", "deny")
    assert _closed(deny) == "deny"
    assert _closed(deny + _policy(f"{{podSelector: {{}}, ingress: [{{{_FROM_SOURCE}}}]}}")) is None


@pytest.mark.parametrize(
    ("ports", "is_open"),
    [
        ("{port: 7300}", True),
        ("{port: kv}", True),
        ("{port: 7000, endPort: 7300}", True),
        ("{protocol: TCP}", True),
        ("{port: 7301}", False),
        ("{port: 7000, endPort: 7299}", False),
        ("{port: 7300, protocol: UDP}", False),
        ("{port: http}", False),
    ],
)
def test_ports_are_numbers_names_and_ranges_of_tcp(ports: str, is_open: bool) -> None:
    closed = _closed(_policy(f"{{podSelector: {{}}, ingress: [{{{_FROM_SOURCE}, ports: [{ports}]}}]}}"))
    assert (closed is None) == is_open


@pytest.mark.parametrize(
    ("peer", "is_open"),
    [
        ("{podSelector: {matchLabels: {app: source}}}", False),  # of the policy's own namespace
        ("{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: a}}}", True),
        ("{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: b}}}", False),
        ("{namespaceSelector: {matchExpressions: [{key: team, operator: DoesNotExist}]}}", True),
        (
            "{namespaceSelector: {}, podSelector: {matchExpressions: [{key: app, operator: In, values: [x]}]}}",
            False,
        ),
        (
            "{namespaceSelector: {}, podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [x]}]}}",
            True,
        ),
        ("{namespaceSelector: {}, podSelector: {matchExpressions: [{key: app, operator: Exists}]}}", True),
        ("{ipBlock: {cidr: 0.0.0.0/0}}", True),
        ("{ipBlock: {cidr: 0.0.0.0/0, except: [10.0.0.0/8]}}", False),
        ("{ipBlock: {cidr: 10.0.0.0/8}}", False),
    ],
)
def test_peers_are_pods_of_namespaces(peer: str, is_open: bool) -> None:
    closed = _closed(_policy(f"{{podSelector: {{}}, ingress: [{{from: [{peer}]}}]}}"))
    assert (closed is None) == is_open


def test_egress_of_the_source_counts_too() -> None:
    egress = "{podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {matchLabels: {team: %s}}}]}]}"
    assert _closed(_policy(egress % "serving", "out", "a")) is None
    assert _closed(_policy(egress % "other", "out", "a")) == "out"


def test_the_policy_that_opens_most_is_the_one_to_mend() -> None:
    deny = _policy("{podSelector: {}, policyTypes: [Ingress]}", "deny")
    opens = _policy(f"{{podSelector: {{}}, ingress: [{{{_FROM_SOURCE}, ports: [{{port: 1}}]}}]}}", "opens")
    assert _closed(deny + opens) == "opens"
