"""A shape: how many workers of which role on which instance type, and what that costs."""

from dataclasses import dataclass, replace

from hyperpod_dpd.catalog.instances import InstanceType
from hyperpod_dpd.planner.cost import hourly_price
from hyperpod_dpd.spec import Price


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """x prefillers and y decoders, or y colocated workers when x is 0."""

    prefillers: int
    decoders: int
    prefill_instance: InstanceType
    decode_instance: InstanceType
    gpus_per_worker: int

    max_num_batched_tokens: int
    """Token budget of a step of the decoders or colocated workers."""

    max_num_seqs: int
    """Most sequences in a step of the decoders or colocated workers."""

    @property
    def disaggregated(self) -> bool:
        """Whether prefill has workers of its own."""
        return self.prefillers > 0

    @property
    def nodes_by_type(self) -> dict[str, int]:
        """Nodes of each instance type. Roles do not share a node: EFA has no way back to the same host."""
        nodes: dict[str, int] = {}
        for instance, workers in (
            (self.prefill_instance, self.prefillers),
            (self.decode_instance, self.decoders),
        ):
            needed = -(-workers // (instance.gpus // self.gpus_per_worker))
            if needed:
                nodes[instance.name] = nodes.get(instance.name, 0) + needed
        return nodes

    @property
    def nodes(self) -> int:
        """Nodes in all."""
        return sum(self.nodes_by_type.values())

    @property
    def mixed(self) -> bool:
        """Whether the roles run on different instance types."""
        return self.disaggregated and self.prefill_instance != self.decode_instance

    @property
    def label(self) -> str:
        """Short name, such as `2P:1D`, or `2 colocated, budget 512`."""
        if not self.disaggregated:
            return f"{self.decoders} colocated, budget {self.max_num_batched_tokens:,}"
        return f"{self.prefillers}P:{self.decoders}D"

    @property
    def place(self) -> str:
        """Instance types, such as `p5` or `p5 → p5en`."""
        decode = _short(self.decode_instance)
        return f"{_short(self.prefill_instance)} → {decode}" if self.mixed else decode

    @property
    def flags(self) -> str:
        """VLLM arguments of the decoders or colocated workers that make it this shape."""
        return f"--max-num-batched-tokens {self.max_num_batched_tokens} --max-num-seqs {self.max_num_seqs}"

    @property
    def backends(self) -> tuple[str, ...]:
        """Backends that can deploy it: the operator has one decoder per endpoint."""
        if self.disaggregated and self.decoders > 1:
            return ("self-managed",)
        return ("operator", "self-managed")

    def times(self, factor: int) -> "Shape":
        """Return the shape with `factor` times as many workers of each role."""
        return replace(self, prefillers=self.prefillers * factor, decoders=self.decoders * factor)

    def usd_per_hour(self, prices: tuple[Price, ...]) -> float | None:
        """Return US dollars per hour, or None where a price is missing.

        Raises:
            UndatedPriceError: a given price has no date.
        """
        total = 0.0
        for name, nodes in self.nodes_by_type.items():
            price = hourly_price(name, prices)
            if price is None:
                return None
            total += nodes * price.usd
        return total


def _short(instance: InstanceType) -> str:
    return instance.name.removeprefix("ml.").partition(".")[0]
