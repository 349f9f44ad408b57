"""How long a KV cache is on the wire."""

from hyperpod_dpd.catalog.calibration import TRANSFER, TransferCalibration
from hyperpod_dpd.spec.value import record


@record
class Band:
    """A figure with the range in which it may lie."""

    low: float
    expected: float
    high: float


def transfer_seconds(
    bytes_per_rank: int,
    line_rate_bytes_per_second: float,
    efficiency: float = TRANSFER.efficiency,
    fixed_seconds: float = TRANSFER.fixed_seconds,
) -> float:
    """Return the seconds in which every rank moves `bytes_per_rank` over its own EFA devices.

    Args:
        bytes_per_rank: bytes of one rank; the ranks move theirs in parallel.
        line_rate_bytes_per_second: line rate of one rank's devices.
        efficiency: share of the line rate that is reached.
        fixed_seconds: handshake and completion, whatever the size.

    Raises:
        ValueError: rate or efficiency is not positive.
    """
    if line_rate_bytes_per_second <= 0 or efficiency <= 0:
        raise ValueError(
            f"a transfer needs a positive rate, given {line_rate_bytes_per_second:g} B/s at efficiency {efficiency:g}"
        )
    return fixed_seconds + bytes_per_rank / (efficiency * line_rate_bytes_per_second)


def efficiency_band(backend: str, calibration: TransferCalibration = TRANSFER) -> Band:
    """Return the share of the line rate that NIXL's `backend` reaches: low, expected and high.

    UCX does not use EFA's RDMA; whatever it reaches over sockets is below the share at which EFA is in use at all.
    """
    if backend != "LIBFABRIC":
        sockets = calibration.not_on_efa_efficiency
        return Band(low=sockets, expected=sockets, high=sockets)
    return Band(
        low=calibration.worst_efficiency,
        expected=calibration.efficiency,
        high=calibration.best_efficiency,
    )


def transfer_seconds_band(
    bytes_per_rank: int,
    line_rate_bytes_per_second: float,
    backend: str = "LIBFABRIC",
    calibration: TransferCalibration = TRANSFER,
) -> Band:
    """Return `transfer_seconds` at the expected efficiency of `backend` and at both ends of its band."""
    share = efficiency_band(backend, calibration)

    def seconds(efficiency: float) -> float:
        return transfer_seconds(
            bytes_per_rank, line_rate_bytes_per_second, efficiency, calibration.fixed_seconds
        )

    return Band(low=seconds(share.high), expected=seconds(share.expected), high=seconds(share.low))
