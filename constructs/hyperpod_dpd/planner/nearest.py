"""The nearest deployment that fits into memory, when the given one does not."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hyperpod_dpd.catalog.instances import instance_types
from hyperpod_dpd.derive import ServingFacts, resolve_or_none
from hyperpod_dpd.physics import tensor_parallel_degrees
from hyperpod_dpd.spec import Deployment

_OTHER_BUFFERS_GIB = (8.0, 4.0, 2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """A change that makes the deployment fit."""

    change: str
    """What to write, such as `serving.tensor_parallel: 4`."""

    facts: ServingFacts


def fits(facts: ServingFacts) -> bool:
    """Return whether workers of both roles start and hold one sequence of full length beside their PD buffer."""
    needs_buffer = facts.prefill.pd_buffer.requested_bytes > 0
    longest = min(facts.prefill.pd_buffer.longest_prompt_tokens, facts.decode.pd_buffer.longest_prompt_tokens)
    return (
        facts.prefill.memory.fits
        and facts.decode.memory.fits
        and (not needs_buffer or longest >= facts.max_model_len_tokens)
    )


def nearest(deployment: Deployment, facts: ServingFacts) -> Nearest | None:
    """Return the smallest change after which the workers fit, or None when none of them is enough."""
    for change, candidate in _changes(deployment, facts):
        resolved = resolve_or_none(candidate)
        if resolved is not None and fits(resolved):
            return Nearest(change=change, facts=resolved)
    return None


def _changes(deployment: Deployment, facts: ServingFacts) -> Iterator[tuple[str, Deployment]]:
    serving = deployment.serving
    free = replace(
        serving,
        prefill=replace(serving.prefill, gpu_memory_utilization=None),
        decode=replace(serving.decode, gpu_memory_utilization=None),
    )
    yield "leave `gpu_memory_utilization` out", replace(deployment, serving=free)
    for size_gib in _OTHER_BUFFERS_GIB:
        transfer = replace(serving.transfer, pd_buffer_gib=size_gib, decode_pd_buffer_gib=None)
        yield (
            f"`serving.transfer.pd_buffer_gib: {size_gib:g}`",
            replace(deployment, serving=replace(free, transfer=transfer)),
        )
    for degree in tensor_parallel_degrees(facts.geometry):
        if degree > serving.tensor_parallel:
            wider = replace(
                free,
                tensor_parallel=degree,
                prefill=replace(free.prefill, gpus=None),
                decode=replace(free.decode, gpus=None),
            )
            yield f"`serving.tensor_parallel: {degree}`", replace(deployment, serving=wider)
    if deployment.model.weights != "fp8":
        fp8 = replace(deployment.model, weights="fp8")
        yield "`model.weights: fp8`", replace(deployment, serving=free, model=fp8)
    for weights in dict.fromkeys((deployment.model.weights, "fp8")):
        model = replace(deployment.model, weights=weights)
        also = "" if weights == deployment.model.weights else f" and `model.weights: {weights}`"
        for row in instance_types():
            groups = tuple(
                replace(group, instance_type=row.name) for group in deployment.hyperpod.instance_groups
            )
            pools = replace(deployment.hyperpod, instance_groups=groups)
            yield (
                f"`instance_type: {row.name}` in every group{also}",
                replace(deployment, serving=free, hyperpod=pools, model=model),
            )
