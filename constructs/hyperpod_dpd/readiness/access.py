"""What the poller may do in Kubernetes: read what it judges, and rehearse creations."""

from typing import Any, Final

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable

from hyperpod_dpd.cluster.kubectl import Kubectl

REHEARSAL_NAMESPACE: Final = "default"
"""Namespace in which webhooks are asked: it exists on every cluster, and a rehearsal leaves nothing in it."""

_READ: Final = ("get", "list")
_RULES: Final = (
    {"apiGroups": [""], "resources": ["namespaces", "nodes", "pods"], "verbs": [*_READ]},
    {"apiGroups": ["apps"], "resources": ["deployments", "daemonsets", "statefulsets"], "verbs": [*_READ]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": [*_READ]},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": [*_READ]},
    {
        "apiGroups": ["inference.sagemaker.aws.amazon.com"],
        "resources": ["inferenceendpointconfigs"],
        "verbs": [*_READ],
    },
)
# the API server asks who may create before it asks a webhook, a rehearsal included
_REHEARSAL_RULES: Final = (
    {"apiGroups": ["cert-manager.io"], "resources": ["certificates"], "verbs": ["create"]},
    {"apiGroups": ["networking.k8s.io"], "resources": ["ingresses"], "verbs": ["create"]},
)


def allow_to_look(
    scope: Construct, *, kubectl: Kubectl, eks_name: str, principal_arn: str, name: str
) -> tuple[IDependable, ...]:
    """Give `principal_arn` a Kubernetes group called `name`, and the group its rights; return what to depend on."""
    manifest = eks.KubernetesManifest(
        scope,
        "Rights",
        cluster=kubectl.cluster,
        # applied, because the objects may have outlived an earlier stack; nothing of it is ever left out later
        overwrite=True,
        prune=False,
        manifest=[
            _object("ClusterRole", name, rules=list(_RULES)),
            _object("ClusterRoleBinding", name, **_binding("ClusterRole", name)),
            _object("Role", name, REHEARSAL_NAMESPACE, rules=list(_REHEARSAL_RULES)),
            _object("RoleBinding", name, REHEARSAL_NAMESPACE, **_binding("Role", name)),
        ],
    )
    manifest.node.add_dependency(kubectl.ready)
    access = eks.CfnAccessEntry(
        scope, "Access", cluster_name=eks_name, principal_arn=principal_arn, kubernetes_groups=[name]
    )
    return manifest, access


def _object(kind: str, name: str, namespace: str | None = None, **content: Any) -> dict[str, Any]:
    place = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, **place},
        **content,
    }


def _binding(kind: str, name: str) -> dict[str, Any]:
    group = "rbac.authorization.k8s.io"
    return {
        "roleRef": {"apiGroup": group, "kind": kind, "name": name},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": name}],
    }
