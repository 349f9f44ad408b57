"""The scrape jobs: one name per kind of target, because the prefixes of metrics collide.

A worker's `/metrics` also carries LMCache's in-process metrics: its processes write them to
`PROMETHEUS_MULTIPROC_DIR` and vLLM's endpoint adds them up (vLLM `v1/metrics/prometheus.py`). A second job on the same
endpoint would count every series twice, so there is none.
"""

from typing import Final

from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.names import Component
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.value import record

SCRAPE_INTERVAL_SECONDS: Final = 30
"""Interval of every job; the HyperPod observability add-on's own default."""

SCRAPE_TIMEOUT_SECONDS: Final = 10

DCGM_PORT: Final = 9400
"""Port of the DCGM exporter, its own default."""

EFA_PORT: Final = 9119
"""Port of the EFA exporter. Not 9100: a node exporter may be there already."""


@record
class Job:
    """Targets that are read in the same way: pods of one component."""

    name: str
    """Value of the label `job`."""

    component: Component

    port: int
    """Port of the pods that serves the metrics."""

    port_name: str
    """Name of that port."""

    path: str = "/metrics"

    @property
    def is_worker(self) -> bool:
        """Whether the targets are workers, whose component is their role."""
        return self.component in {Component.PREFILL, Component.DECODE, Component.COLOCATED}


def _worker(component: Component) -> Job:
    return Job(
        name=f"dpd-{component.value}",
        component=component,
        port=names.WORKER_HTTP_PORT,
        port_name=names.WORKER_HTTP_PORT_NAME,
    )


PREFILL: Final = _worker(Component.PREFILL)
DECODE: Final = _worker(Component.DECODE)
COLOCATED: Final = _worker(Component.COLOCATED)
ROUTER: Final = Job(
    name="dpd-router", component=Component.ROUTER, port=names.ROUTER_PORT, port_name=names.ROUTER_PORT_NAME
)
DCGM: Final = Job(name="dpd-dcgm", component=Component.DCGM_EXPORTER, port=DCGM_PORT, port_name="metrics")
EFA: Final = Job(name="dpd-efa", component=Component.EFA_EXPORTER, port=EFA_PORT, port_name="metrics")

SERVING_JOBS: Final = (PREFILL, DECODE, COLOCATED, ROUTER)
"""Jobs over pods of a deployment."""

EXPORTER_JOBS: Final = (DCGM, EFA)
"""Jobs over the exporters that this project renders, one pod per GPU node of the cluster."""


def exporters_namespace(deployment: Deployment) -> str:
    """Namespace of the exporters: they read the node, which Pod Security `restricted` forbids."""
    return f"{deployment.platform.scraping_namespace}-nodes"


def efa_counters_are_in_workspace(deployment: Deployment) -> bool:
    """Whether EFA counters are read in the cluster's Prometheus workspace: those of HyperPod's own exporters.

    The workspace of a cluster that somebody else owns is not known.
    """
    platform = deployment.platform
    return (
        platform.exporters == "observability-addon"
        and platform.is_measured
        and deployment.cluster.existing is None
    )
