"""DPD-LINT-107: keys are hashed alike."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, Worker, fault
from hyperpod_dpd.lint.node import whole_number
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.rules.serving.dpd_srv_107 import LARGEST_HASH_SEED


@manifest_rule(
    "DPD-LINT-107",
    severity=Severity.ERROR,
    title="`PYTHONHASHSEED` is a number and the same on both roles",
    sources=(
        "LMCache/LMCache PR 1133, issues 1403, 2511",
        "SageMaker DG sagemaker-hyperpod-model-deployment-dpd",
    ),
    facts=("L7",),
)
def hash_seeds_are_equal(manifests: ManifestSet) -> Iterator[Fault]:
    """Chunks are found by Python's hash: with seeds of their own the decoder looks for keys that nobody stored."""
    for endpoint in manifests.endpoints:
        seeds: dict[str, Worker] = {}
        for worker in (*endpoint.prefill, *endpoint.decode):
            if not worker.through_lmcache or _other_hash(worker):
                continue
            given = worker.environment.get("PYTHONHASHSEED")
            if given is not None and given.value is None:
                continue  # comes from where this set does not show, or DPD-LINT-005 has spoken
            seed = whole_number(None if given is None else given.value)
            if seed is None or not 0 <= seed <= LARGEST_HASH_SEED:
                yield fault(
                    worker.variable_at("PYTHONHASHSEED"),
                    says=f"{worker} hashes with a seed of its own",
                    given="nothing" if given is None else f"`PYTHONHASHSEED: {given.value}`",
                    limit=f"a number from 0 to {LARGEST_HASH_SEED}, the same on both roles",
                    fix='set `PYTHONHASHSEED: "0"` on both roles',
                )
            elif seeds and str(seed) not in seeds:
                other, first = next(iter(seeds.items()))
                yield fault(
                    worker.variable_at("PYTHONHASHSEED"),
                    says="prefill and decode hash with different seeds",
                    given=f"{seed} at `{worker.owner.name}`, {other} at `{first.owner.name}`",
                    fix="give both roles the same seed",
                )
            if seed is not None:
                seeds.setdefault(str(seed), worker)


def _other_hash(worker: Worker) -> bool:
    """Whether LMCache is told to use a hash that needs no seed."""
    given = worker.lmcache.get("pre_caching_hash_algorithm")
    return given is not None and given.text != "builtin"
