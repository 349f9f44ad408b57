"""From documents to Kubernetes objects."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.lint.model import Fault, KubernetesObject, fault
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.spec.value import record

WORKLOADS: Final = frozenset(
    {"DaemonSet", "Deployment", "Job", "LeaderWorkerSet", "Pod", "ReplicaSet", "StatefulSet"}
)
READ: Final = WORKLOADS | {
    "ConfigMap",
    "InferenceEndpointConfig",
    "Ingress",
    "Namespace",
    "NetworkPolicy",
    "Service",
}
"""Kinds that are looked into."""

BESIDE: Final = frozenset(
    {
        "AlertmanagerConfig",
        "CertificateSigningRequest",
        "ClusterRole",
        "ClusterRoleBinding",
        "ClusterSecretStore",
        "ClusterTriggerAuthentication",
        "CronJob",
        "CustomResourceDefinition",
        "ExternalSecret",
        "HorizontalPodAutoscaler",
        "IngressClass",
        "Kustomization",
        "LimitRange",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "PodDisruptionBudget",
        "PodMonitor",
        "PriorityClass",
        "PrometheusRule",
        "ResourceQuota",
        "Role",
        "RoleBinding",
        "ScaledObject",
        "Secret",
        "SecretStore",
        "ServiceAccount",
        "ServiceMonitor",
        "StorageClass",
        "TargetGroupBinding",
        "TriggerAuthentication",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
)
"""Kinds that say nothing about how prefill and decode work together."""

_CHANGES: Final = frozenset(
    {
        "components",
        "configMapGenerator",
        "generators",
        "helmCharts",
        "images",
        "namePrefix",
        "nameSuffix",
        "namespace",
        "patches",
        "patchesJson6902",
        "patchesStrategicMerge",
        "replacements",
        "replicas",
        "secretGenerator",
        "transformers",
        "vars",
    }
)
"""Keys of a kustomization after which the files are not what is applied."""


@record
class Found:
    """Objects, and documents that are none."""

    objects: tuple[KubernetesObject, ...]
    unknown: tuple[Fault, ...]


def objects(documents: tuple[Node, ...]) -> Found:
    """Return the objects in `documents`, those of lists included, and what could not be understood."""
    found: list[KubernetesObject] = []
    unknown: list[Fault] = []
    for node in _flattened(documents):
        kind, api_version = node.text_at("kind"), node.text_at("apiVersion")
        if not kind or not api_version:
            unknown.append(
                fault(
                    node,
                    says="this document is no Kubernetes object, and nothing in it was looked at",
                    given=f"`kind: {kind}`, `apiVersion: {api_version}`",
                    fix="leave the file out, or give what it renders to",
                )
            )
            continue
        changing = [key for key in node.pairs if kind == "Kustomization" and key in _CHANGES]
        if changing:
            unknown.append(
                fault(
                    node.pairs[changing[0]],
                    says="what this kustomization changes was not applied",
                    given=", ".join(f"`{key}`" for key in changing),
                    fix="give the output of `kubectl kustomize`",
                )
            )
        if kind not in READ | BESIDE:
            unknown.append(
                fault(
                    node,
                    says=f"objects of kind `{kind}` are not understood, and nothing in it was looked at",
                    given=f"`{api_version}`",
                    fix="give what its controller makes of it, such as `kubectl get deployment -o yaml`",
                )
            )
        found.append(
            KubernetesObject(
                kind=kind,
                api_version=api_version,
                name=node.text_at("metadata", "name") or node.text_at("metadata", "generateName") or "?",
                namespace=node.text_at("metadata", "namespace") or "default",
                node=node,
            )
        )
    return Found(objects=tuple(found), unknown=tuple(unknown))


def _flattened(documents: tuple[Node, ...]) -> Iterator[Node]:
    for node in documents:
        kind, items = node.text_at("kind") or "", node.get("items")
        if kind.endswith("List") and items is not None:
            yield from _flattened(items.items)
        else:
            yield node
