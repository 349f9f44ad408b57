"""The two namespaces of a deployment and their Pod Security levels."""

from typing import Final

import cdk8s_plus_27 as kplus
from constructs import Construct

from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.objects import leave_out, metadata
from hyperpod_dpd.spec import Deployment

RESTRICTED: Final = "restricted"
PRIVILEGED: Final = "privileged"


class Namespaces(Construct):
    """`<deployment>-system` is held to Pod Security `restricted`, `<deployment>-workers` by its own policy.

    Pod Security `baseline` already forbids `IPC_LOCK`, without which EFA cannot register GPU memory, so the
    workers' namespace enforces `privileged` and `WorkerAdmission` takes back everything but that one capability.
    """

    def __init__(self, scope: Construct, identifier: str, *, deployment: Deployment) -> None:
        super().__init__(scope, identifier)
        version = f"v{deployment.cluster.kubernetes_version}"
        for key, name, enforced in (
            ("system", names.system_namespace(deployment), RESTRICTED),
            ("workers", names.workers_namespace(deployment), PRIVILEGED),
        ):
            security = {
                "pod-security.kubernetes.io/enforce": enforced,
                "pod-security.kubernetes.io/enforce-version": version,
                "pod-security.kubernetes.io/audit": RESTRICTED,
                "pod-security.kubernetes.io/audit-version": version,
            }
            # a warning on every apply of a recorded exception would only teach people to ignore warnings
            if enforced == RESTRICTED:
                security["pod-security.kubernetes.io/warn"] = RESTRICTED
                security["pod-security.kubernetes.io/warn-version"] = version
            namespace = kplus.Namespace(
                self, key, metadata=metadata(name, labels={**names.labels(deployment), **security})
            )
            leave_out(namespace, "/spec")
