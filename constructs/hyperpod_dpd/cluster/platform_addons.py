"""The EKS add-ons on which everything else of a platform stands."""

from collections.abc import Sequence
from typing import Any, Final

from constructs import Construct, DependencyGroup, IDependable

from hyperpod_dpd.catalog.eks import AddonPhase, addons
from hyperpod_dpd.cluster.addons import pinned_addon
from hyperpod_dpd.cluster.handle import ClusterHandle
from hyperpod_dpd.cluster.storage_drivers import StorageDrivers
from hyperpod_dpd.derive.addons import INFERENCE_OPERATOR, OBSERVABILITY
from hyperpod_dpd.readiness.access import REHEARSAL_NAMESPACE
from hyperpod_dpd.readiness.requirements import AddonActive, Requirement, WebhookAnswers
from hyperpod_dpd.spec import Cluster

_LATER: Final = (INFERENCE_OPERATOR, OBSERVABILITY)
_CERTIFICATE: Final[dict[str, Any]] = {
    "apiVersion": "cert-manager.io/v1",
    "kind": "Certificate",
    "metadata": {"name": "hyperpod-dpd-rehearsal", "namespace": REHEARSAL_NAMESPACE},
    "spec": {
        "secretName": "hyperpod-dpd-rehearsal",
        "dnsNames": ["rehearsal.invalid"],
        "issuerRef": {"name": "rehearsal"},
    },
}


class PlatformAddons(Construct):
    """Certificates, metrics and both storage drivers.

    Attributes:
        s3_driver_role: identity of the S3 driver.
        requirements: what must be so before the inference add-on, which fails where one of them is missing.
        ready: the add-ons, to depend on; they exist then, and may not work yet.
    """

    requirements: Sequence[Requirement] = (
        *(
            AddonActive(name=row.name)
            for row in addons()
            if row.phase is AddonPhase.PLATFORM and row.name not in _LATER
        ),
        # the add-on is active before its webhook has a certificate, and whoever asks then is refused
        WebhookAnswers(plural="certificates", body=_CERTIFICATE),
    )

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        spec: Cluster,
        handle: ClusterHandle,
        oidc_provider_arn: str,
        needs: Sequence[IDependable] = (),
    ) -> None:
        """Create the add-ons.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            spec: versions of add-ons.
            handle: the cluster.
            oidc_provider_arn: ARN of the IAM identity provider of the cluster.
            needs: what must be there before, such as the nodes.
        """
        super().__init__(scope, construct_id)
        drivers = StorageDrivers(
            self, "Storage", spec=spec, handle=handle, oidc_provider_arn=oidc_provider_arn
        )
        self.s3_driver_role = drivers.s3_role
        others = [
            pinned_addon(self, name, spec=spec, cluster_name=handle.eks_name)
            for name in ("cert-manager", "metrics-server")
        ]
        self.ready: IDependable = DependencyGroup(drivers.ready, *others)
        for addon in (*drivers.addons, *others):
            addon.node.add_dependency(*needs)
