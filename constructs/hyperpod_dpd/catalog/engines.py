"""Engine triples that were run together, on hardware or by AWS."""

from hyperpod_dpd.catalog.row import Source, UnknownCatalogEntryError
from hyperpod_dpd.spec.value import record


@record
class EngineTriple:
    """Versions of vLLM, LMCache and NIXL that are known to work together."""

    name: str
    vllm: str
    lmcache: str
    nixl: str
    image: str | None
    """Public image that holds the triple; None: built from `images/worker`."""
    backends: tuple[str, ...]
    """Backends whose default or supported engine it is."""
    source: Source

    @property
    def transfers_asynchronously(self) -> bool:
        """Whether the prefill answer may come before the KV cache has landed (LMCache ≥ 0.4.5)."""
        return version_tuple(self.lmcache) >= (0, 4, 5)


def version_tuple(version: str) -> tuple[int, ...]:
    """Return the numeric part of `version`, for comparison.

    Raises:
        ValueError: `version` does not start with numbers separated by dots.
    """
    numbers = version.removeprefix("v").split("-", 1)[0].split("+", 1)[0]
    return tuple(int(part) for part in numbers.split("."))


_ENGINES = {
    row.name: row
    for row in (
        EngineTriple(
            name="vllm-0.25.1",
            vllm="0.25.1",
            lmcache="0.5.3",
            nixl="1.5.1",
            image=None,
            backends=("self-managed",),
            source=Source(text="run on one NVIDIA H200: 300 hand-offs, hits complete", as_of="2026-11-30"),
        ),
        EngineTriple(
            name="hyperpod-v1.1",
            vllm="0.19.0",
            lmcache="0.4.3",
            nixl="1.0.0",
            image="public.ecr.aws/deep-learning-containers/vllm:server-hyperpod-cuda-v1.1",
            backends=("operator", "self-managed"),
            source=Source(text="SageMaker DG sagemaker-hyperpod-model-deployment-dpd", as_of="2026-11-30"),
        ),
        EngineTriple(
            name="lmcache-v0.4.3",
            vllm="0.19.0",
            lmcache="0.4.3",
            nixl="1.0.0",
            image="lmcache/vllm-openai:v0.4.3",
            backends=("operator", "self-managed"),
            source=Source(text="SageMaker DG sagemaker-hyperpod-model-deployment-dpd", as_of="2026-11-30"),
        ),
    )
}

DEFAULT_ENGINE = {"self-managed": "vllm-0.25.1", "operator": "hyperpod-v1.1"}
"""Engine of a backend when the deployment names none."""


def engines() -> tuple[EngineTriple, ...]:
    """Return every tested triple."""
    return tuple(_ENGINES.values())


def engine(name: str) -> EngineTriple:
    """Return the triple called `name`.

    Raises:
        UnknownCatalogEntryError: the catalog has no such triple.
    """
    try:
        return _ENGINES[name]
    except KeyError:
        raise UnknownCatalogEntryError("engine", name, tuple(_ENGINES)) from None
