"""The exception that workers get from Pod Security, and nothing else of it."""

import re
from dataclasses import dataclass
from typing import Final

from constructs import Construct

from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.objects import api_object
from hyperpod_dpd.spec import Deployment

POD_IDENTITY_VOLUME: Final = "eks-pod-identity-token"
"""Volume that EKS Pod Identity's webhook adds to pods of an associated ServiceAccount."""

POD_IDENTITY_AUDIENCE: Final = "pods.eks.amazonaws.com"
"""Audience of the token in it, which the API server does not accept as its own."""

_DIGEST: Final = "@sha256:[0-9a-f]{64}$"

_CONTAINERS: Final = """
object.spec.containers
+ (has(object.spec.initContainers) ? object.spec.initContainers : [])
"""

_NO_SHARED_NAMESPACES: Final = """
!(has(object.spec.hostNetwork) && object.spec.hostNetwork)
&& !(has(object.spec.hostPID) && object.spec.hostPID)
&& !(has(object.spec.hostIPC) && object.spec.hostIPC)
&& !(has(object.spec.shareProcessNamespace) && object.spec.shareProcessNamespace)
"""

_NO_API_TOKEN: Final = f"""
has(object.spec.serviceAccountName)
&& object.spec.serviceAccountName == '{names.WORKER_SERVICE_ACCOUNT}'
&& has(object.spec.automountServiceAccountToken)
&& !object.spec.automountServiceAccountToken
"""

_HARMLESS_VOLUMES: Final = f"""
!has(object.spec.volumes)
|| object.spec.volumes.all(v,
  has(v.emptyDir)
  || has(v.configMap)
  || has(v.persistentVolumeClaim)
  || (v.name == '{POD_IDENTITY_VOLUME}'
    && has(v.projected)
    && v.projected.sources.all(s,
      has(s.serviceAccountToken)
      && has(s.serviceAccountToken.audience)
      && s.serviceAccountToken.audience == '{POD_IDENTITY_AUDIENCE}')))
"""

_NO_DEBUG_CONTAINERS: Final = """
!has(object.spec.ephemeralContainers)
|| size(object.spec.ephemeralContainers) == 0
"""

_SECCOMP: Final = """
has(object.spec.securityContext)
&& has(object.spec.securityContext.seccompProfile)
&& object.spec.securityContext.seccompProfile.type == 'RuntimeDefault'
&& !has(object.spec.securityContext.sysctls)
&& variables.containers.all(c,
  !has(c.securityContext)
  || !has(c.securityContext.seccompProfile)
  || c.securityContext.seccompProfile.type == 'RuntimeDefault')
"""

_NO_HOST_PORTS: Final = """
variables.containers.all(c,
  !has(c.ports)
  || c.ports.all(p, !has(p.hostPort) || p.hostPort == 0))
"""

_NOT_PRIVILEGED: Final = """
variables.containers.all(c,
  has(c.securityContext)
  && !(has(c.securityContext.privileged) && c.securityContext.privileged)
  && has(c.securityContext.allowPrivilegeEscalation)
  && !c.securityContext.allowPrivilegeEscalation
  && (!has(c.securityContext.procMount) || c.securityContext.procMount == 'Default'))
"""

_ONE_CAPABILITY: Final = """
variables.containers.all(c,
  has(c.securityContext)
  && has(c.securityContext.capabilities)
  && has(c.securityContext.capabilities.drop)
  && 'ALL' in c.securityContext.capabilities.drop
  && (!has(c.securityContext.capabilities.add)
    || c.securityContext.capabilities.add.all(k, k == 'IPC_LOCK')))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """One CEL expression that must be true of a pod."""

    expression: str
    message: str
    """What the pod's author reads when it is not."""

    def as_dict(self) -> dict[str, str]:
        """Return the entry of `spec.validations`."""
        return {"message": self.message, "reason": "Forbidden", "expression": self.expression.strip()}


class WorkerAdmission(Construct):
    """A ValidatingAdmissionPolicy over every pod of the workers' namespace.

    It admits UID 0 with `IPC_LOCK` (the capability is inert for another user, NVIDIA/nvcf#1354) and refuses
    what Pod Security would otherwise have refused, plus API tokens and images without a digest.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, images: tuple[str, ...]
    ) -> None:
        """Create the policy and its binding.

        Args:
            scope: chart that takes the objects.
            construct_id: id of this construct in `scope`.
            deployment: deployment whose workers are held.
            images: images of its workers; one without a digest is admitted only literally.
        """
        super().__init__(scope, construct_id)
        name = names.workers_namespace(deployment)
        labels = names.labels(deployment)
        api_object(
            self,
            "policy",
            api_version="admissionregistration.k8s.io/v1",
            kind="ValidatingAdmissionPolicy",
            name=name,
            labels=labels,
            spec={
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": ["pods", "pods/ephemeralcontainers"],
                        }
                    ]
                },
                "variables": [{"name": "containers", "expression": _CONTAINERS.strip()}],
                "validations": [rule.as_dict() for rule in validations(deployment, images)],
            },
        )
        api_object(
            self,
            "binding",
            api_version="admissionregistration.k8s.io/v1",
            kind="ValidatingAdmissionPolicyBinding",
            name=name,
            labels=labels,
            spec={
                "policyName": name,
                "validationActions": ["Deny", "Audit"],
                "matchResources": {
                    "namespaceSelector": {
                        "matchLabels": {names.NAMESPACE_NAME_LABEL: names.workers_namespace(deployment)}
                    }
                },
            },
        )


def validations(deployment: Deployment, images: tuple[str, ...]) -> tuple[Validation, ...]:
    """Return what must hold for every pod of the workers' namespace."""
    privileged = deployment.serving.security.workers == "privileged"
    return (
        Validation(
            expression=_NO_SHARED_NAMESPACES,
            message="workers share no namespace with their node or between their containers",
        ),
        Validation(
            expression=_NO_API_TOKEN,
            message=(
                f"workers run as ServiceAccount `{names.WORKER_SERVICE_ACCOUNT}` without a token of the API server"
            ),
        ),
        Validation(
            expression=_HARMLESS_VOLUMES,
            message="workers mount emptyDir, ConfigMap and PersistentVolumeClaim only; never a path of the node",
        ),
        Validation(
            expression=_NO_DEBUG_CONTAINERS,
            message="no debug containers in workers, because their memory holds prompts",
        ),
        Validation(
            expression=_SECCOMP, message="workers run under seccomp profile RuntimeDefault and set no sysctls"
        ),
        Validation(expression=_NO_HOST_PORTS, message="workers take no port of their node"),
        *(() if privileged else _UNPRIVILEGED),
        _image_validation(images),
    )


_UNPRIVILEGED: Final = (
    Validation(expression=_NOT_PRIVILEGED, message="workers are not privileged and cannot become it"),
    Validation(expression=_ONE_CAPABILITY, message="workers drop ALL capabilities and add none but IPC_LOCK"),
)


def _image_validation(images: tuple[str, ...]) -> Validation:
    unpinned = tuple(image for image in images if not _pinned(image))
    literal = "".join(f"\n  || c.image == '{image}'" for image in unpinned)
    return Validation(
        expression=f"variables.containers.all(c,\n  c.image.matches('{_DIGEST}'){literal})",
        message="images of workers are pinned by digest"
        + (f", or `{'`, `'.join(unpinned)}`" if unpinned else ""),
    )


def _pinned(image: str) -> bool:
    # a binding is filled with a digest, see `bindings.Binding`
    return re.search(_DIGEST, image) is not None or image.startswith("${dpd:")
