"""Router for Disaggregated Prefill and Decode: token threshold, LMCache and NIXL hand-offs, balanced books."""

from dpd_router._version import __version__

__all__ = ["__version__"]
