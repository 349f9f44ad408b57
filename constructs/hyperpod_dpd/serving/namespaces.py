"""The two namespaces of a deployment and their Pod Security levels."""

from collections.abc import Mapping
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

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, operated: bool = False
    ) -> None:
        """Create the namespaces.

        Args:
            scope: chart that takes the objects.
            construct_id: id of this construct in `scope`.
            deployment: the deployment.
            operated: whether the inference operator makes the workers' pods. Its sidecars and device requests are its
                own, so their namespace only audits and warns.
        """
        super().__init__(scope, construct_id)
        version = f"v{deployment.cluster.kubernetes_version}"
        for key, name, enforced in (
            ("system", names.system_namespace(deployment), RESTRICTED),
            ("workers", names.workers_namespace(deployment), None if operated else PRIVILEGED),
        ):
            levels = {"audit": RESTRICTED}
            if enforced is not None:
                levels["enforce"] = enforced
            # a warning on every apply of a recorded exception would only teach people to ignore warnings
            if enforced != PRIVILEGED:
                levels["warn"] = RESTRICTED
            namespace = kplus.Namespace(
                self,
                key,
                metadata=metadata(name, labels={**names.labels(deployment), **_security(levels, version)}),
            )
            leave_out(namespace, "/spec")


def _security(levels: Mapping[str, str], version: str) -> dict[str, str]:
    """Return the labels of Pod Security: a level and the version of its definition for each mode."""
    prefix = "pod-security.kubernetes.io"
    modes = sorted(levels, key=("enforce", "audit", "warn").index)
    return {
        label: text
        for mode in modes
        for label, text in (
            (f"{prefix}/{mode}", levels[mode]),
            (f"{prefix}/{mode}-version", version),
        )
    }
