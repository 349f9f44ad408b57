"""What happened during a proof, in the words in which causes are looked for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from hyperpod_dpd.evidence.proof.connection import Tried
from hyperpod_dpd.evidence.proof.logs import Retrieved
from hyperpod_dpd.evidence.proof.observe import Reading
from hyperpod_dpd.evidence.proof.samples import Samples
from hyperpod_dpd.evidence.proof.send import Sent
from hyperpod_dpd.evidence.proof.target import Target


@dataclass(frozen=True, kw_only=True)
class Case:
    """Prompts, answers, and what was counted meanwhile.

    Attributes:
        target: what is proven.
        short: the short prompt; None where no prompt is below the threshold.
        long: the long prompts; empty where none is disaggregated.
        quiet: counted during the short prompt.
        busy: counted during the long prompts.
        now: the last reading.
        first_contact: why the very first hand-offs failed, where others came after them; empty otherwise.
        waiting: prompts that waited at the prefillers at most, while the long ones were there.
        settled: whether everybody had the time that it takes to show what was done; without it, what is not counted is
            no evidence.
        tried: how the forbidden connection ended; None: not tried.
        retrieved: what the decoders' logs say about retrievals; None: logs were not read.
    """

    target: Target
    short: Sent | None
    long: tuple[Sent, ...]
    quiet: Reading
    busy: Reading
    now: Reading
    first_contact: Mapping[str, int] = field(default_factory=dict)
    waiting: int = 0
    settled: bool = True
    tried: Tried | None = None
    retrieved: tuple[Retrieved, ...] | None = None

    # Answers -----------------------------------------------------------------------------------------------------------

    @property
    def wants_hand_off(self) -> bool:
        """Whether long prompts shall be handed over at all."""
        return self.target.threshold_tokens is not None

    @property
    def unanswered(self) -> tuple[Sent, ...]:
        """Prompts without a good answer."""
        return tuple(sent for sent in (self.short, *self.long) if sent is not None and not sent.answered)

    @property
    def long_tokens(self) -> int:
        """Tokens of all long prompts that were answered."""
        return sum(sent.prompt_tokens or 0 for sent in self.long)

    # Router ------------------------------------------------------------------------------------------------------------

    def reasons(self, reading: Reading, *decisions: str) -> dict[str, int]:
        """Return how often the router decided so, by its reason."""
        if reading.router is None:
            return {}
        found = reading.router.by("dpd_router_decisions_total", "decision", "reason")
        return {reason: int(n) for (decision, reason), n in found.items() if n > 0 and decision in decisions}

    @cached_property
    def direct(self) -> dict[str, int]:
        """Long prompts that were decoded directly, by reason."""
        return self._long_reasons("direct")

    @cached_property
    def fallback(self) -> dict[str, int]:
        """Long prompts whose hand-off failed, by reason."""
        return self._long_reasons("fallback")

    def _long_reasons(self, decision: str) -> dict[str, int]:
        """Return the reasons that were counted; none where the answers say that no prompt of ours was served so."""
        told = [sent.decision for sent in self.long if sent.decision]
        if len(told) == len(self.long) and decision not in told:
            return {}
        return self.reasons(self.busy, decision)

    @property
    def is_too_short(self) -> bool:
        """Whether a long prompt does not reach the threshold, because it was cut to fit into the context."""
        threshold = self.target.threshold_tokens
        if threshold is None or self.unanswered:
            return False
        return any((sent.prompt_tokens or 0) < threshold for sent in self.long)

    @property
    def came_too_late(self) -> bool:
        """Whether hand-offs failed by time alone, and nothing else was seen of them."""
        late = {"notification_timeout", "prefill_timeout"}
        return bool(late & set(self.fallback)) and not (self.unanswered or self.direct or self.disaggregated)

    @property
    def is_worth_another_try(self) -> bool:
        """Whether more long prompts may tell more: a worker has got none yet, or none was handed over by bad luck.

        A first token that is half a character cannot be continued; the next prompt's may be whole.
        """
        if (
            not self.wants_hand_off
            or self.unanswered
            or self.direct
            or set(self.fallback) - {"first_token_text_unknown"}
        ):
            return False
        return bool(self.idle) or (self.busy.router is not None and not self.disaggregated)

    @cached_property
    def disaggregated(self) -> int:
        """Long prompts that were handed over, by the router's count."""
        return sum(self.reasons(self.busy, "disaggregated").values())

    @cached_property
    def hits(self) -> dict[str, int]:
        """Hand-offs by what the decoder reported of cached tokens."""
        if self.busy.router is None:
            return {}
        found = self.busy.router.by("dpd_router_handoff_hits_total", "result")
        return {result: int(n) for (result,), n in found.items() if n > 0}

    @cached_property
    def drained_with_hit(self) -> int:
        """Hand-offs that were cleared away and had arrived after all."""
        return int(self._router_total("dpd_router_drains_total", result="hit"))

    @cached_property
    def drained(self) -> int:
        """Hand-offs that were cleared away."""
        return int(self._router_total("dpd_router_drains_total"))

    @cached_property
    def notifications(self) -> int:
        """Notifications that belong to a hand-off."""
        return int(self._router_total("dpd_router_notifications_total", kind="expected"))

    @property
    def router_buffer_chunks(self) -> int | None:
        """Smallest buffer of a decoder, as the router was told."""
        if self.now.router is None:
            return None
        sizes = self.now.router.by("dpd_router_buffer_chunks", "decoder").values()
        return int(min(sizes)) if sizes else None

    @property
    def others(self) -> int:
        """Requests that were not ours."""
        decided = sum(
            sum(self.reasons(reading, "direct", "fallback", "disaggregated").values())
            for reading in (self.quiet, self.busy)
        )
        return max(0, decided - len(self.long) - (self.short is not None))

    def _router_total(self, name: str, **labels: str) -> float:
        return self.busy.router.total(name, **labels) if self.busy.router is not None else 0.0

    # Workers -----------------------------------------------------------------------------------------------------------

    @property
    def prefillers(self) -> dict[str, Samples]:
        """What each readable prefiller counted during the long prompts."""
        return _of(self.target.prefillers, self.busy.workers)

    @property
    def all_prefillers_counted(self) -> bool:
        """Whether there are prefillers, and what they computed is known of each of them."""
        return 0 < len(self.prefillers) == len(self.target.prefillers)

    @property
    def decoders(self) -> dict[str, Samples]:
        """What each readable decoder counted during the long prompts."""
        return _of(self.target.decoders, self.busy.workers)

    @property
    def all_decoders_counted(self) -> bool:
        """Whether there are decoders, and what they took over is known of each of them."""
        return 0 < len(self.decoders) == len(self.target.decoders)

    def counted(self, workers: Iterable[str], name: str, reading: Reading | None = None) -> float:
        """Return the sum of the counter `name` over `workers`, during the long prompts if not said otherwise."""
        found = _of(workers, (reading or self.busy).workers)
        return sum(samples.total(name) for samples in found.values())

    @property
    def prefilled_tokens(self) -> float:
        """Prompt tokens that the prefillers computed."""
        return self.counted(self.target.prefillers, "vllm:prompt_tokens_total")

    @property
    def stored_tokens(self) -> float:
        """Tokens that LMCache took from the prefillers, over all ranks."""
        return self.counted(self.target.prefillers, "lmcache:num_stored_tokens_total")

    @property
    def prefills_go_on(self) -> bool:
        """Whether prefillers compute at all, for whomever."""
        return self.prefilled_tokens > 0 or self.stored_tokens > 0

    @property
    def asked_tokens(self) -> float:
        """Tokens that the decoders looked for in LMCache."""
        return self.counted(self.target.decoders, "lmcache:num_lookup_tokens_total")

    @property
    def reported_tokens(self) -> float:
        """Tokens that the decoders' schedulers report as handed over."""
        return self.counted(self.target.decoders, "vllm:external_prefix_cache_hits_total")

    @property
    def loaded_tokens(self) -> float:
        """Tokens that LMCache really loaded on the decoders, over all ranks."""
        return self.counted(self.target.decoders, "lmcache:num_hit_tokens_total")

    @property
    def pulled(self) -> int:
        """Transfers of NixlConnector that the decoders have made."""
        return int(self.counted(self.target.decoders, "vllm:nixl_xfer_time_seconds_count"))

    @property
    def failed_pulls(self) -> int:
        """Transfers of NixlConnector that failed on the decoders."""
        return int(self.counted(self.target.decoders, "vllm:nixl_num_failed_transfers_total"))

    @property
    def not_loading(self) -> tuple[str, ...]:
        """Decoders whose scheduler reports tokens that LMCache does not load."""
        if self.target.transfer == "nixl":
            # there the scheduler reports what has been pulled
            return ()
        return tuple(
            url
            for url, samples in self.decoders.items()
            if samples.total("vllm:external_prefix_cache_hits_total") > 0
            and samples.total("lmcache:num_hit_tokens_total") == 0
        )

    @property
    def idle(self) -> tuple[str, ...]:
        """Readable workers to which no long prompt came."""
        return tuple(
            url
            for url, samples in (*self.prefillers.items(), *self.decoders.items())
            if samples.total("vllm:prompt_tokens_total") == 0
        )

    def without_lmcache(self, workers: Iterable[str]) -> tuple[str, ...]:
        """Return the readable ones of `workers` that show no series of LMCache at all."""
        found = _of(workers, self.now.workers)
        return tuple(url for url, samples in found.items() if not samples.has("lmcache:"))

    # EFA ---------------------------------------------------------------------------------------------------------------

    @property
    def least_efa_bytes(self) -> float:
        """Bytes that must have crossed the EFA: half of the KV cache of the long prompts, or anything at all."""
        per_token = self.target.kv_bytes_per_token
        return 1.0 if per_token is None else 0.5 * per_token * self.long_tokens

    @property
    def efa_gaps(self) -> tuple[str, ...]:
        """Why what crossed the EFA is not known, or not of all who count it."""
        target = self.target
        asked = [*target.efa_exporters, *filter(None, (target.efa_query_url,))]
        missing = (target.efa_exporters_missing,) if target.efa_exporters_missing else ()
        unread = (f"`{url}`: {self.busy.unreadable[url]}" for url in asked if url in self.busy.unreadable)
        return (*missing, *unread)


def _of(urls: Iterable[str], workers: Mapping[str, Samples]) -> dict[str, Samples]:
    return {url: workers[url] for url in urls if url in workers}
