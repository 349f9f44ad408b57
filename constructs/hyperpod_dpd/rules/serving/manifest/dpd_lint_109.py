"""DPD-LINT-109: both sides speak one protocol."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, Worker, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-109",
    severity=Severity.ERROR,
    title="image, chunk size and PD mode are equal on both roles",
    sources=(
        "LMCache/LMCache issue 2510",
        "LMCache 0.5.3 source (asynchronous receivers refuse older senders)",
    ),
    facts=("L9", "L16"),
)
def both_sides_are_alike(manifests: ManifestSet) -> Iterator[Fault]:
    """Versions and modes of LMCache differ in what they say on the wire, and other chunks have other keys."""
    for endpoint in manifests.endpoints:
        for prefill, decode in endpoint.pairs:
            if not prefill.through_lmcache or not decode.through_lmcache:
                continue
            ours, theirs = _image(prefill), _image(decode)
            if ours != theirs:
                yield fault(
                    decode.image or decode.node,
                    says="prefill and decode run different images",
                    given=f"`{ours}` at `{prefill.owner.name}`, `{theirs}` at `{decode.owner.name}`",
                    fix="run the same image, by digest",
                )
            for key, default in (
                ("chunk_size", "256"),
                ("pd_backend_mode", "async"),
                ("transfer_channel", ""),
            ):
                if not (prefill.lmcache_known and decode.lmcache_known):
                    continue
                first, second = _value(prefill, key, default), _value(decode, key, default)
                if first != second:
                    yield fault(
                        decode.at(key) if key in decode.lmcache else prefill.at(key),
                        says=f"`{key}` differs between the roles",
                        given=f"{first or 'nothing'} at `{prefill.owner.name}`, {second or 'nothing'} at "
                        f"`{decode.owner.name}`",
                        fix="give both roles the same value",
                    )


def _image(worker: Worker) -> str:
    return (worker.image.text if worker.image is not None else None) or ""


def _value(worker: Worker, key: str, default: str) -> str:
    found = worker.lmcache.get(key)
    return default if found is None else found.shown()
