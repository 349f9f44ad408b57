"""DPD-LINT-201: NIXL's backend is LIBFABRIC."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-201",
    severity=Severity.ERROR,
    title="NIXL's backend is LIBFABRIC, named on both roles",
    sources=(
        "vllm-project/vllm issue 41814 (two p5 on HyperPod)",
        "ai-dynamo/nixl issues 99, 909, 1021, 1983",
        "ai-dynamo/dynamo issue 4185",
    ),
    facts=("V1", "E17"),
)
def backend_is_libfabric(manifests: ManifestSet) -> Iterator[Fault]:
    """UCX is the default and has no RDMA on EFA: the handshake fails, or the cache crosses at 0.3 to 3 GB/s and nobody says so."""
    for worker in manifests.handing_over:
        if worker.operator or (worker.through_lmcache and not worker.lmcache_known):
            continue
        if worker.through_lmcache:
            given, key = worker.lmcache.get("nixl_backends"), "nixl_backends"
        elif worker.through_nixl:
            given, key = (None if worker.extra is None else worker.extra.get("backends")), "backends"
        else:
            continue
        names = [] if given is None else [each.text for each in given.items] or (given.text or "").split(",")
        if names != ["LIBFABRIC"]:
            yield fault(
                given or worker.argument_at("--kv-transfer-config"),
                says=f"{worker} does not move its cache over EFA",
                given=f"no `{key}`, which means UCX" if given is None else f"`{key}: {given.shown()}`",
                computed="some 1 GB/s instead of 50 GB/s per GPU",
                limit="`[LIBFABRIC]`",
                fix=f"set `{key}: [LIBFABRIC]`",
            )
