"""KV cache blocks: how many there are, which sequences hold them, and which contents are remembered."""

import array
import hashlib
from collections import OrderedDict
from collections.abc import Sequence

BlockHash = bytes


def block_hashes(ids: Sequence[int], *, block_size_tokens: int, salt: str | None) -> list[BlockHash]:
    """Chained content hashes of the full blocks of `ids`; the salt enters with the first block."""
    hashes: list[BlockHash] = []
    previous = b"" if salt is None else salt.encode()
    raw = array.array("I", ids)
    for end in range(block_size_tokens, len(ids) + 1, block_size_tokens):
        content = raw[end - block_size_tokens : end].tobytes()
        previous = hashlib.blake2b(previous + content, digest_size=16).digest()
        hashes.append(previous)
    return hashes


class BlockPool:
    """Blocks of the KV cache. Contents that nobody holds stay until their room is needed, oldest first."""

    def __init__(self, *, total_blocks: int, block_size_tokens: int, prefix_caching: bool) -> None:
        self.total_blocks = total_blocks
        self.block_size_tokens = block_size_tokens
        self.prefix_caching = prefix_caching
        self._held = 0
        self._users: dict[BlockHash, int] = {}
        self._idle: OrderedDict[BlockHash, None] = OrderedDict()

    @property
    def held_blocks(self) -> int:
        """Blocks that running sequences hold (shared ones count once)."""
        return self._held

    @property
    def usage(self) -> float:
        """Held blocks as a fraction of all."""
        return self._held / self.total_blocks

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold `tokens`."""
        return -(-tokens // self.block_size_tokens)

    def cached_prefix_tokens(self, hashes: Sequence[BlockHash], *, at_most_tokens: int) -> int:
        """Tokens of the longest remembered prefix, in full blocks, not above `at_most_tokens`."""
        if not self.prefix_caching:
            return 0
        count = 0
        for block in hashes[: at_most_tokens // self.block_size_tokens]:
            if block not in self._users and block not in self._idle:
                break
            count += 1
        return count * self.block_size_tokens

    def new_allocation(self) -> "Allocation":
        """An empty allocation for one sequence."""
        return Allocation(self)

    def _take_room(self, blocks: int) -> bool:
        if self._held + blocks > self.total_blocks:
            return False
        while self._held + blocks + len(self._idle) > self.total_blocks:
            self._idle.popitem(last=False)
        self._held += blocks
        return True

    def _hold(self, block: BlockHash) -> bool:
        if block in self._users:
            self._users[block] += 1
            return True
        if self._held + 1 > self.total_blocks:
            return False
        self._idle.pop(block, None)
        if not self._take_room(1):
            return False
        self._users[block] = 1
        return True

    def _release(self, block: BlockHash) -> None:
        self._users[block] -= 1
        if not self._users[block]:
            del self._users[block]
            self._held -= 1
            self._idle[block] = None


class Allocation:
    """The blocks of one sequence: shared prefix blocks and private ones that get a name once they are full."""

    __slots__ = ("_named", "_pool", "_private")

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self._named: list[BlockHash] = []
        self._private = 0

    def share(self, hashes: Sequence[BlockHash]) -> bool:
        """Hold remembered blocks; False (and nothing held) if there is no room to do so."""
        for block in hashes:
            if not self._pool._hold(block):  # noqa: SLF001 - the two classes are one concept
                self.free()
                return False
            self._named.append(block)
        return True

    def grow(self, tokens: int) -> bool:
        """Hold blocks for `tokens` in all; False (and nothing changed) if there is no room."""
        missing = self._pool.blocks_for(tokens) - len(self._named) - self._private
        if missing <= 0:
            return True
        if not self._pool._take_room(missing):  # noqa: SLF001
            return False
        self._private += missing
        return True

    def name(self, hashes: Sequence[BlockHash]) -> None:
        """Remember the contents of the blocks that are full now (`hashes` of all full blocks of the sequence)."""
        if not self._pool.prefix_caching:
            return
        for block in hashes[len(self._named) :]:
            if not self._private:
                return
            self._private -= 1
            self._pool._held -= 1  # noqa: SLF001
            self._pool._hold(block)  # noqa: SLF001
            self._named.append(block)

    def free(self) -> None:
        """Give everything back; named blocks stay remembered."""
        for block in reversed(self._named):
            self._pool._release(block)  # noqa: SLF001
        self._pool._held -= self._private  # noqa: SLF001
        self._named, self._private = [], 0
