"""What the planner says about the same engines under the same load, for the same manifests."""

import dataclasses
from collections.abc import Sequence

from hyperpod_dpd.catalog.instances import InstanceType
from hyperpod_dpd.catalog.vllm_defaults import VLLM_DEFAULTS
from hyperpod_dpd.derive import resolve
from hyperpod_dpd.lint.model import Worker
from hyperpod_dpd.planner.shape import Shape
from hyperpod_dpd.planner.simulation import simulate
from hyperpod_dpd.planner.summary import Summary, summarize
from hyperpod_dpd.planner.system import Disaggregated
from hyperpod_dpd.planner.workbench import Workbench
from hyperpod_dpd.planner.workload import ClosedLoop
from hyperpod_dpd.rehearsal.plan import RehearsalPlan
from hyperpod_dpd.spec import Deployment, Role


def shape_of(plan: RehearsalPlan) -> Shape | None:
    """Return the shape of the workers of `plan`; None where the planner has no words for it.

    It knows one instance type for each role, and one for colocated workers.
    """
    prefill, decode, colocated = (
        _workers(plan, role) for role in (Role.PREFILL, Role.DECODE, Role.COLOCATED)
    )
    serving = colocated or decode
    if not serving or (prefill and colocated):
        return None
    serving_type, prefill_type = _instance(serving), _instance(prefill or serving)
    budgets = {
        _number(each, "--max-num-batched-tokens", VLLM_DEFAULTS.max_num_batched_tokens) for each, _ in serving
    }
    sequences = {_number(each, "--max-num-seqs", VLLM_DEFAULTS.max_num_seqs) for each, _ in serving}
    if serving_type is None or prefill_type is None or len(budgets) > 1 or len(sequences) > 1:
        return None
    return Shape(
        prefillers=sum(replicas for _, replicas in prefill),
        decoders=sum(replicas for _, replicas in serving),
        prefill_instance=prefill_type,
        decode_instance=serving_type,
        gpus_per_worker=serving[0][0].tensor_parallel or 1,
        max_num_batched_tokens=budgets.pop(),
        max_num_seqs=sequences.pop(),
    )


def _workers(plan: RehearsalPlan, role: Role) -> Sequence[tuple[Worker, int]]:
    return [(worker, replicas) for worker, replicas in plan.workers if worker.role is role]


def _instance(workers: Sequence[tuple[Worker, int]]) -> InstanceType | None:
    found = {worker.instance.name: worker.instance for worker, _ in workers if worker.instance is not None}
    return next(iter(found.values())) if len(found) == 1 else None


def _number(worker: Worker, flag: str, default: int) -> int:
    return worker.arguments.number(flag) or default


def predict(
    deployment: Deployment, shape: Shape, workload: ClosedLoop, *, compression: float = 1.0
) -> Summary:
    """Return what the planner's event model measures for `shape` under `workload`, from its first request on.

    Args:
        deployment: what the shape is one of.
        shape: workers.
        workload: what they serve.
        compression: simulated seconds in a real one: the real router waits for room in a buffer in real ones.
    """
    system = Workbench(deployment, resolve(deployment)).system(shape)
    if isinstance(system, Disaggregated):
        waits = system.buffer_wait_seconds * compression
        system = dataclasses.replace(system, buffer_wait_seconds=waits)
    return summarize(simulate(system, workload))
