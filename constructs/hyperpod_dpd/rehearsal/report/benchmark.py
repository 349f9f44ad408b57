"""The results in the format that `dpd compare` reads."""

from typing import Final

from hyperpod_dpd import __version__
from hyperpod_dpd.derive import resolve
from hyperpod_dpd.evidence.results import (
    OWN_ROUTER,
    PLAIN,
    BenchmarkResult,
    Connection,
    System,
    Traffic,
    Workers,
)
from hyperpod_dpd.planner.cost import hourly_price
from hyperpod_dpd.rehearsal.plan import RehearsalPlan
from hyperpod_dpd.rehearsal.prediction import shape_of
from hyperpod_dpd.rehearsal.rehearsal import Rehearsal
from hyperpod_dpd.spec import Deployment

_TOOL: Final = "hyperpod-dpd rehearsal"

_HOST: Final = "localhost"
"""Each pod has an address of its own on loopback, and a router that is replaced comes back with another."""


def benchmark_results(rehearsal: Rehearsal) -> dict[str, BenchmarkResult]:
    """Return the runs of each profile that is comparable, by profile."""
    return {
        result.profile: BenchmarkResult(
            made_at=rehearsal.made_at,
            system=_system(rehearsal.deployment, plan, result.profile),
            traffic=Traffic(
                tool=f"{_TOOL} {__version__}",
                endpoint="/v1/completions",
                input_tokens=rehearsal.input_tokens,
                output_tokens=rehearsal.output_tokens,
                ignore_eos=True,
            ),
            runs=tuple(run.as_run() for run in result.outcome.runs),
            connection=Connection(
                router=OWN_ROUTER, host=_HOST, port=plan.routers[0].http_port, tls=PLAIN, doubt=None
            ),
        )
        for plan, result in zip(rehearsal.plans, rehearsal.results, strict=True)
        # one rank on one GPU is not the system that the manifests describe
        if result.outcome.runs and result.simulated
    }


def _system(deployment: Deployment, plan: RehearsalPlan, profile: str) -> System:
    workers = [
        Workers(
            role=worker.role.value,
            count=replicas,
            gpus_per_worker=worker.gpus,
            instance_type=worker.instance.name if worker.instance else "",
        )
        for worker, replicas in plan.workers
    ]
    shape = shape_of(plan)
    usd = None if shape is None else shape.usd_per_hour(deployment.prices)
    prices = {each.instance_type: hourly_price(each.instance_type, deployment.prices) for each in workers}
    return System(
        deployment=deployment.name,
        profile=profile,
        model=resolve(deployment).geometry.name,
        engine=resolve(deployment).engine.triple.name,
        workers=tuple(workers),
        usd_per_hour=usd,
        price="; ".join(f"{name}: {price}" for name, price in prices.items() if price is not None)
        or "not known",
        simulated=True,
    )
