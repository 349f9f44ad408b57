"""Chunks reserved in the decoders' PD buffers: nobody prefills without room for the whole prompt.

A receiver that fills up half-way with several prompts can deadlock all of them, and a hand-off that
nobody consumes occupies its chunks until the decoder restarts. So room for a whole prompt is
reserved before its prefill starts, and the reservation is held until the hand-off is settled.
Tensor-parallel ranks hold the same number of chunks, hence one number per decoder stands for each rank.
"""

import asyncio
import collections
import contextlib
import dataclasses
import math

from dpd_router.metrics import Metrics


def chunks_of(prompt_tokens: int, chunk_tokens: int) -> int:
    """Return how many chunks of one rank's buffer a prompt occupies."""
    return math.ceil(prompt_tokens / chunk_tokens)


@dataclasses.dataclass(slots=True)
class _Account:
    capacity: int
    incarnation: int
    reserved: int = 0
    suspected: int = 0
    presumed_lost: int = 0

    @property
    def free(self) -> int:
        return self.capacity - self.suspected - self.reserved


class UnbalancedError(Exception):
    """A reservation was settled twice, or the sums disagree: a defect of the router."""


class Books:
    """Accounts per decoder and one entry per open reservation.

    An account belongs to one incarnation of a decoder. A decoder that restarted has an empty
    buffer: reservations of the incarnation before keep their entry but no longer weigh on the account.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._accounts: dict[str, _Account] = {}
        self._entries: dict[str, tuple[str, int, int]] = {}
        self._waiting: collections.deque[asyncio.Future[None]] = collections.deque()

    def open_account(self, decoder: str, capacity_chunks: int, incarnation: int) -> None:
        """Start the account of a decoder, or start it anew for a new incarnation."""
        account = self._accounts.get(decoder)
        if account is not None and account.incarnation == incarnation and account.capacity == capacity_chunks:
            return
        self._accounts[decoder] = _Account(capacity=capacity_chunks, incarnation=incarnation)
        self._metrics.capacity_chunks.labels(decoder).set(capacity_chunks)
        self._publish(decoder)
        self._wake()

    def close_account(self, decoder: str) -> None:
        """Forget a decoder that is gone."""
        self._accounts.pop(decoder, None)
        self._wake()

    @property
    def waiting(self) -> int:
        """Number of requests that wait for room."""
        return len(self._waiting)

    def capacity(self, decoder: str) -> int:
        """Return the chunks that the decoder could hold when idle, leaks that are suspected taken off."""
        account = self._accounts.get(decoder)
        return 0 if account is None else account.capacity - account.suspected

    def size(self, decoder: str) -> int:
        """Return the chunks of the decoder's buffer."""
        account = self._accounts.get(decoder)
        return 0 if account is None else account.capacity

    def free(self, decoder: str) -> int:
        """Return the chunks that can be reserved now."""
        account = self._accounts.get(decoder)
        return 0 if account is None else account.free

    def outstanding(self, decoder: str) -> int:
        """Return the chunks that are reserved now."""
        account = self._accounts.get(decoder)
        return 0 if account is None else account.reserved

    @property
    def open_entries(self) -> int:
        """Number of reservations that are not settled."""
        return len(self._entries)

    def reserve(self, handoff: str, decoder: str, chunks: int) -> bool:
        """Reserve all chunks of a prompt or none; return whether there was room."""
        account = self._accounts.get(decoder)
        if account is None or chunks > account.free:
            return False
        if handoff in self._entries:
            raise UnbalancedError(f"hand-off `{handoff}` reserved twice")
        account.reserved += chunks
        self._entries[handoff] = (decoder, account.incarnation, chunks)
        self._publish(decoder)
        return True

    def settle(self, handoff: str, *, leaked_chunks: int = 0) -> None:
        """End a reservation; chunks that are probably leaked stay off the decoder's capacity.

        Raises:
            UnbalancedError: the reservation does not exist or was settled before.
        """
        try:
            decoder, incarnation, chunks = self._entries.pop(handoff)
        except KeyError:
            raise UnbalancedError(f"hand-off `{handoff}` settled without a reservation") from None
        account = self._accounts.get(decoder)
        if account is not None and account.incarnation == incarnation:
            account.reserved -= chunks
            account.suspected += min(leaked_chunks, chunks)
            self._publish(decoder)
        self._wake()

    def suspect(self, decoder: str, incarnation: int, chunks: int) -> None:
        """Take chunks that are probably leaked off a decoder's capacity until it restarts."""
        account = self._accounts.get(decoder)
        if account is not None and account.incarnation == incarnation:
            account.suspected = min(account.capacity, account.suspected + chunks)
            self._publish(decoder)

    def presume_lost(self, decoder: str, incarnation: int, chunks: int) -> None:
        """Publish that so many chunks at least must be lost, without proof of which.

        The capacity stays: the next hand-off that lands may show that they are not.
        """
        account = self._accounts.get(decoder)
        if account is not None and account.incarnation == incarnation:
            account.presumed_lost = chunks
            self._publish(decoder)

    async def room(self) -> None:
        """Return when some reservation was settled or an account changed."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        finally:
            # a client that leaves in the moment in which room comes: `_wake` has taken the cancelled future out already
            if not future.done() or future.cancelled():
                with contextlib.suppress(ValueError):
                    self._waiting.remove(future)

    def check(self) -> None:
        """Compare accounts and entries.

        Raises:
            UnbalancedError: an account's sum differs from its entries.
        """
        sums: collections.Counter[str] = collections.Counter()
        for decoder, incarnation, chunks in self._entries.values():
            account = self._accounts.get(decoder)
            if account is not None and account.incarnation == incarnation:
                sums[decoder] += chunks
        for decoder, account in self._accounts.items():
            if account.reserved != sums[decoder]:
                raise UnbalancedError(f"`{decoder}`: reserved {account.reserved}, entries {sums[decoder]}")

    def _publish(self, decoder: str) -> None:
        account = self._accounts[decoder]
        self._metrics.inflight_chunks.labels(decoder).set(account.reserved)
        self._metrics.suspected_chunks.labels(decoder).set(max(account.suspected, account.presumed_lost))

    def _wake(self) -> None:
        # everybody looks again, in the order of arrival: a small prompt may fit where the first does not
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
