"""Versions inside a worker's image: the tested triple and what the deployment declares differently."""

from hyperpod_dpd.catalog.engines import DEFAULT_ENGINE, EngineTriple, engine, version_tuple
from hyperpod_dpd.spec import Serving
from hyperpod_dpd.spec.value import record


@record
class EffectiveEngine:
    """What runs inside the workers; equal on both roles."""

    triple: EngineTriple
    """Tested triple that the declaration starts from."""

    image: str | None
    """Image reference; None: the image that `images/worker` builds, known once it is pushed."""

    vllm: str
    lmcache: str
    nixl: str

    @property
    def tested(self) -> bool:
        """Whether the versions are those of the triple."""
        triple = self.triple
        return (self.vllm, self.lmcache, self.nixl) == (triple.vllm, triple.lmcache, triple.nixl)

    @property
    def vllm_version(self) -> tuple[int, ...]:
        """Version of vLLM, for comparison."""
        return version_tuple(self.vllm)

    @property
    def lmcache_version(self) -> tuple[int, ...]:
        """Version of LMCache, for comparison."""
        return version_tuple(self.lmcache)

    @property
    def nixl_version(self) -> tuple[int, ...]:
        """Version of NIXL, for comparison."""
        return version_tuple(self.nixl)

    @property
    def transfers_asynchronously(self) -> bool:
        """Whether the prefill answer may come before the KV cache has landed (LMCache ≥ 0.4.5)."""
        return self.lmcache_version >= (0, 4, 5)


def effective_engine(serving: Serving) -> EffectiveEngine:
    """Return the versions that `serving` declares, filled up from the tested triple.

    Raises:
        UnknownCatalogEntryError: `serving.engine.name` is not in the catalog.
        ValueError: a declared version is not numbers separated by dots.
    """
    declared = serving.engine
    triple = engine(declared.name or DEFAULT_ENGINE[serving.backend])
    effective = EffectiveEngine(
        triple=triple,
        image=declared.image or triple.image,
        vllm=declared.vllm or triple.vllm,
        lmcache=declared.lmcache or triple.lmcache,
        nixl=declared.nixl or triple.nixl,
    )
    for version in (effective.vllm, effective.lmcache, effective.nixl):
        version_tuple(version)
    return effective
