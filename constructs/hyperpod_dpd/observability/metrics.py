"""Metrics that no program of this repository exposes, each with where its name was read.

A test holds every name in rules and dashboards to this list or to what the router and the simulated engines expose.
"""

from typing import Final

from hyperpod_dpd.catalog.row import Source

_EFA: Final = Source(
    text="awslabs/awsome-distributed-ai, 4.validation_and_observability/3.efa-node-exporter, amazon_efa_linux.go",
    as_of="2026-11-30",
)
_DCGM: Final = Source(text="NVIDIA/dcgm-exporter, etc/default-counters.csv", as_of="2026-11-30")
_PROMETHEUS: Final = Source(
    text="Prometheus, automatically generated labels and time series", as_of="2026-11-30"
)

_EFA_COUNTERS: Final = (
    "tx_bytes",
    "rx_bytes",
    "tx_pkts",
    "rx_pkts",
    "rx_drops",
    "rdma_read_bytes",
    "rdma_read_wr_err",
    "rdma_write_bytes",
    "rdma_write_recv_bytes",
    "rdma_write_wr_err",
)

EXTERNAL_METRICS: Final = {
    "up": _PROMETHEUS,
    **{f"node_amazonefa_{counter}": _EFA for counter in _EFA_COUNTERS},
    **{
        f"DCGM_FI_{field}": _DCGM
        for field in (
            "DEV_XID_ERRORS",
            "DEV_GPU_UTIL",
            "DEV_GPU_TEMP",
            "DEV_FB_USED",
            "PROF_PIPE_TENSOR_ACTIVE",
            "PROF_DRAM_ACTIVE",
        )
    },
}
"""Name of each metric and its source."""
