"""Limits of autoscaling: prefillers and decoders that can drift apart serve no more, and cost more."""

import math
from collections.abc import Iterator

from hyperpod_dpd.planner.ratio import Balance
from hyperpod_dpd.spec import Serving, Worker


def scaling_warnings(serving: Serving, balanced: Balance) -> Iterator[str]:
    """Yield where one role can be scaled to a number that the other cannot follow.

    Both roles at their limits should be as far apart as the ratio at which neither waits for the other; one worker
    is tolerated, because workers come in whole numbers.
    """
    if serving.prefill.scaling is None and serving.decode.scaling is None:
        return
    ratio = balanced.prefillers_per_decoder
    for limit, (prefillers, decoders) in {
        "maximum": (_most(serving.prefill), _most(serving.decode)),
        "minimum": (_least(serving.prefill), _least(serving.decode)),
    }.items():
        if ratio <= 0 or not decoders:
            continue
        wanted = ratio * decoders
        if math.ceil(wanted) - prefillers > 1:
            yield (
                f"at its {limit} of {decoders} decoders the deployment has {prefillers} prefillers, and full decoders "
                f"take {wanted:.1f}. help: raise `serving.prefill.scaling.{limit}` to {math.ceil(wanted)}"
            )
        elif prefillers - math.ceil(wanted) > 1:
            yield (
                f"at its {limit} of {prefillers} prefillers the deployment has {decoders} decoders, which take no more "
                f"than {wanted:.1f} prefillers. help: lower `serving.prefill.scaling.{limit}` to {math.ceil(wanted)}"
            )


def _most(worker: Worker) -> int:
    return worker.scaling.maximum if worker.scaling is not None else worker.replicas


def _least(worker: Worker) -> int:
    return worker.scaling.minimum if worker.scaling is not None else worker.replicas
