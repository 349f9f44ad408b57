"""What an image's name says about the engine inside it."""

import re

from hyperpod_dpd.catalog.engines import DEFAULT_ENGINE, EngineTriple, engine, engines, version_tuple
from hyperpod_dpd.derive.mirror import MIRROR_PREFIX
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.spec.value import record

_MIRROR = re.compile(rf"^[^/]+/{MIRROR_PREFIX}/")
"""Where an account keeps copies of public images."""

_VERSION = re.compile(r"v?(\d+\.\d+\.\d+)")


@record
class EngineVersions:
    """Versions inside a worker's image."""

    vllm: str
    lmcache: str
    told: frozenset[str]
    """Which of `vllm` and `lmcache` the image's name tells; the other is the catalog's."""

    triple: EngineTriple
    """Tested triple that was assumed where the name does not tell."""

    def knows(self, part: str) -> bool:
        """Whether the image's name tells the version of `part`."""
        return part in self.told

    def says(self, part: str) -> str:
        """Return the version of `part` for a message, with what was assumed."""
        version = getattr(self, part)
        name = {"vllm": "vLLM", "lmcache": "LMCache"}[part]
        return f"{name} {version}" if self.knows(part) else f"{name} {version} (assumed)"

    @property
    def vllm_version(self) -> tuple[int, ...]:
        """Version of vLLM, for comparison."""
        return version_tuple(self.vllm)

    @property
    def lmcache_version(self) -> tuple[int, ...]:
        """Version of LMCache, for comparison."""
        return version_tuple(self.lmcache)

    def assumption(self, *, lmcache: bool) -> str | None:
        """Return what was assumed, for a note; None when nothing was.

        Args:
            lmcache: whether the version of LMCache matters.
        """
        parts = (("vllm", "vLLM"), *((("lmcache", "LMCache"),) if lmcache else ()))
        assumed = [f"{name} {getattr(self, part)}" for part, name in parts if part not in self.told]
        if not assumed:
            return None
        return f"its name does not tell all versions: assumed {' and '.join(assumed)} (`{self.triple.name}`)"


def engine_versions(image: Node | None, *, operator: bool = False) -> EngineVersions:
    """Return the versions that the name of `image` tells, filled up from the catalog."""
    name = _MIRROR.sub("", "" if image is None else image.text or "")
    for row in engines():
        if row.image is not None and name.removeprefix("docker.io/") == row.image:
            told = frozenset({"vllm", "lmcache"})
            return EngineVersions(vllm=row.vllm, lmcache=row.lmcache, told=told, triple=row)
    default = engine(DEFAULT_ENGINE["operator" if operator else "self-managed"])
    repository, _, tag = name.partition("@")[0].rpartition(":")
    found = _VERSION.search(tag)
    part = "lmcache" if "lmcache" in repository else "vllm" if "vllm" in repository else None
    if found is None or part is None:
        return EngineVersions(vllm=default.vllm, lmcache=default.lmcache, told=frozenset(), triple=default)
    version = found.group(1)
    pair = next((row for row in engines() if getattr(row, part) == version), default)
    versions = {"vllm": pair.vllm, "lmcache": pair.lmcache, part: version}
    return EngineVersions(**versions, told=frozenset({part}), triple=pair)
