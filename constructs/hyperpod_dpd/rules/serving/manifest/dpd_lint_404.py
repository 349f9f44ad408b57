"""DPD-LINT-404: the router listens to others."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule

_SELF: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_ADDRESSES: Final = {
    "vllm-router": ("--host", "--prometheus-host"),
    "lmcache-proxy": ("--host", "--proxy-host"),
}
"""Addresses that are the pod's own unless an argument says otherwise."""


@manifest_rule(
    "DPD-LINT-404",
    severity=Severity.ERROR,
    title="a router listens on an address that other pods reach",
    sources=(
        "vllm-project/router issue 46",
        "vllm-router 0.1.17, run (127.0.0.1 by default)",
        "LMCache disagg_proxy_server.py (`--proxy-host` is `localhost` by default)",
    ),
    facts=("R4",),
)
def router_is_reachable(manifests: ManifestSet) -> Iterator[Fault]:
    """On its default address nobody outside its own pod reaches it."""
    for router in manifests.routers:
        for flag in _ADDRESSES.get(router.kind, ()):
            given = router.arguments.last(flag)
            value = router.arguments.value(flag)
            if value is None or value in _SELF:
                yield fault(
                    router.node if given is None else given.node,
                    says=f"{router} is not reached by other pods",
                    given=f"no `{flag}`, which means its own host" if given is None else f"`{given.text}`",
                    limit="`0.0.0.0`",
                    fix=f"set `{flag} 0.0.0.0`",
                )
