"""Flags of `vllm serve` in the version of a worker's image."""

from collections.abc import Iterator
from dataclasses import replace

from hyperpod_dpd.catalog.engine_words import vllm_flags
from hyperpod_dpd.catalog.engines import engines
from hyperpod_dpd.lint.command import Argument, Arguments
from hyperpod_dpd.lint.image import EngineVersions


def known_flags(versions: EngineVersions) -> frozenset[str] | None:
    """Return the flags of that version; those of any tested one where the image does not tell it.

    None where the catalog does not know the version.
    """
    if versions.knows("vllm"):
        return vllm_flags(versions.vllm)
    return frozenset().union(*(vllm_flags(row.vllm) or () for row in engines()))


def written_out(arguments: Arguments, versions: EngineVersions) -> Arguments:
    """Return `arguments` with abbreviated flags in full: vLLM's parser takes every beginning that fits one flag only."""
    known = known_flags(versions)
    return arguments if known is None else replace(arguments, flags=tuple(_full(arguments, known)))


def _full(arguments: Arguments, known: frozenset[str]) -> Iterator[Argument]:
    for argument in arguments.flags:
        fitting = [] if argument.flag in known else [flag for flag in known if flag.startswith(argument.flag)]
        yield replace(argument, flag=fitting[0]) if len(fitting) == 1 else argument
