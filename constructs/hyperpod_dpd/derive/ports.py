"""Ports of a decoder's PD sockets: one per tensor-parallel rank, another range for every boot."""

from hyperpod_dpd.spec import Serving
from hyperpod_dpd.spec.value import record


@record
class DecodePorts:
    """Init and allocation ports of a decoder.

    A prefiller remembers a peer by host and init port, so a decoder that restarts at the same address is lost to it.
    Another port is another peer: every boot takes the next epoch, and after the last the first again.
    """

    init_base: int
    alloc_base: int
    tensor_parallel: int
    epochs: int

    def init(self, epoch: int) -> tuple[int, ...]:
        """Return the init ports of `epoch`, one per rank."""
        return self._of(self.init_base, epoch)

    def alloc(self, epoch: int) -> tuple[int, ...]:
        """Return the allocation ports of `epoch`, one per rank."""
        return self._of(self.alloc_base, epoch)

    @property
    def init_range(self) -> range:
        """Every init port of every epoch."""
        return range(self.init_base, self.init_base + self.tensor_parallel * self.epochs)

    @property
    def alloc_range(self) -> range:
        """Every allocation port of every epoch."""
        return range(self.alloc_base, self.alloc_base + self.tensor_parallel * self.epochs)

    def _of(self, base: int, epoch: int) -> tuple[int, ...]:
        first = base + self.tensor_parallel * (epoch % self.epochs)
        return tuple(range(first, first + self.tensor_parallel))


def decode_ports(serving: Serving) -> DecodePorts:
    """Return the ports that `serving` gives to a decoder."""
    transfer = serving.transfer
    return DecodePorts(
        init_base=transfer.init_port_base,
        alloc_base=transfer.alloc_port_base,
        tensor_parallel=serving.tensor_parallel,
        epochs=transfer.port_epochs,
    )
