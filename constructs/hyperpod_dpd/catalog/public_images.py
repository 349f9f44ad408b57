"""Images of what runs beside the workers, pinned by version. Node architecture is amd64 throughout."""

from typing import Final

from hyperpod_dpd.catalog.row import Source
from hyperpod_dpd.spec.value import record


@record
class Image:
    """One public image."""

    reference: str
    source: Source


COLLECTOR: Final = Image(
    reference="public.ecr.aws/aws-observability/aws-otel-collector:v0.48.0",
    source=Source(text="AWS Distro for OpenTelemetry, newest release of 2026-05", as_of="2026-05-21"),
)

DCGM_EXPORTER: Final = Image(
    reference="nvcr.io/nvidia/k8s/dcgm-exporter:4.6.1-4.8.4-distroless",
    source=Source(text="NVIDIA/dcgm-exporter, default of its Helm chart", as_of="2026-09-26"),
)

EFA_EXPORTER_VERSION: Final = "1.0.0"
"""Version of `hyperpod/efa_exporter`, node_exporter with the collector `amazonefa`
(awslabs/awsome-distributed-ai, base-config/observability/install_efa_exporter.sh, 2026-11-30)."""

ADDON_REGISTRY_ACCOUNT: Final = "602401143452"
"""Account that publishes the images of HyperPod's observability in every region of the catalog (EKS User Guide,
add-ons-images, 2026-11-30)."""


def efa_exporter(region: str) -> str:
    """Return the EFA exporter's image in `region`; a registry of AWS in the region is no public one."""
    return f"{ADDON_REGISTRY_ACCOUNT}.dkr.ecr.{region}.amazonaws.com/hyperpod/efa_exporter:{EFA_EXPORTER_VERSION}"
