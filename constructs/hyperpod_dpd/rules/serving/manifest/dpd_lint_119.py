"""DPD-LINT-119: the decoder's sockets have names of their own."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-119",
    severity=Severity.WARNING,
    title="`lmcache_rpc_port` differs between the engines",
    sources=("LMCache examples/disagg_prefill (`producer1`, `consumer1`)",),
    facts=("L22",),
)
def sockets_have_names(manifests: ManifestSet) -> Iterator[Fault]:
    """It names a socket file: two engines that share a host's temporary directory would take each other's."""
    for endpoint in manifests.endpoints:
        for prefill, decode in endpoint.pairs:
            first = None if prefill.extra is None else prefill.extra.text_at("lmcache_rpc_port")
            second = None if decode.extra is None else decode.extra.text_at("lmcache_rpc_port")
            if first is not None and first == second and not prefill.operator:
                yield fault(
                    decode.argument_at("--kv-transfer-config"),
                    says="prefill and decode name their sockets alike",
                    given=f"`lmcache_rpc_port: {first}` twice",
                    fix="give every engine a name of its own",
                )
