"""Words that an engine's own parser knows: vLLM's flags and LMCache's configuration keys, by version.

Extracted from the released packages with `tools/engines`; `make test-engines` compares them with the packages again.
"""

from functools import cache
from pathlib import Path
from typing import Final

from hyperpod_dpd.catalog.engines import version_tuple

LMCACHE_LEGACY_KEYS: Final = {
    "enable_nixl": "enable_pd",
    "enable_xpyd": "enable_pd",
    "nixl_buffer_device": "pd_buffer_device",
    "nixl_buffer_size": "pd_buffer_size",
    "nixl_peer_alloc_port": "pd_peer_alloc_port",
    "nixl_peer_host": "pd_peer_host",
    "nixl_peer_init_port": "pd_peer_init_port",
    "nixl_proxy_host": "pd_proxy_host",
    "nixl_proxy_port": "pd_proxy_port",
    "nixl_receiver_host": "pd_peer_host",
    "nixl_receiver_port": "pd_peer_init_port",
    "nixl_role": "pd_role",
}
"""Keys of older releases and of public examples, with what replaced them. They leave PD off, with a warning only."""

_DATA: Final = Path(__file__).with_name("data")


def vllm_flags(version: str) -> frozenset[str] | None:
    """Return the flags of `vllm serve`, or None where the catalog does not know that version."""
    return _words(f"vllm-{_plain(version)}-flags.txt")


def lmcache_keys(version: str) -> frozenset[str] | None:
    """Return the keys of LMCache's configuration, or None where the catalog does not know that version."""
    return _words(f"lmcache-{_plain(version)}-keys.txt")


def _plain(version: str) -> str:
    return ".".join(str(number) for number in version_tuple(version))


@cache
def _words(name: str) -> frozenset[str] | None:
    file = _DATA / name
    if not file.is_file():
        return None
    return frozenset(file.read_text(encoding="utf-8").split())
