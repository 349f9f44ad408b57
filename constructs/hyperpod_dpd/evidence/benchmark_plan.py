"""What the benchmark of a deployment measures, for each of its profiles."""

from typing import Final

from hyperpod_dpd.catalog.row import UnknownCatalogEntryError
from hyperpod_dpd.derive import RoleFacts, ServingFacts, resolve
from hyperpod_dpd.derive.backend import on_backend
from hyperpod_dpd.derive.operator_endpoint import routing_url
from hyperpod_dpd.evidence.benchmark.settings import Settings
from hyperpod_dpd.evidence.results import System, Workers
from hyperpod_dpd.planner.cost import HourlyPrice, hourly_price
from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.serving.model_source import key_prefix, repository, s3_uri
from hyperpod_dpd.serving.profile import Profile, expressible
from hyperpod_dpd.serving.router_arguments import API_KEYS_DIRECTORY
from hyperpod_dpd.spec import Deployment, FsxSource, S3Source
from hyperpod_dpd.spec.value import record

RESULTS_FOLDER: Final = "benchmarks"
"""Below it each deployment has a folder in the bucket of results."""

_DISAGGREGATED: Final = (Profile.SELF_MANAGED, Profile.OPERATOR)


@record
class BenchmarkPlan:
    """The announcement's traffic, unless told otherwise."""

    input_tokens: int = 4096
    output_tokens: int = 256
    concurrencies: tuple[int, ...] = (8, 16, 32, 64)
    seeds: tuple[int, ...] = (1, 2, 3)
    requests_per_user: int = 10
    """The announcement sends 50 requests in all, which at 64 users is less than one each."""
    run_minutes: int = 30
    tokenizer: str | None = None
    """Folder of the tokenizer's files; by default where the deployment has its model from."""


class NotMeasurableError(ValueError):
    """The benchmark would measure something else than it says, or could not start."""


def benchmark_settings(deployment: Deployment, profile: Profile, plan: BenchmarkPlan) -> Settings:
    """Return what the benchmark job of `profile` is told.

    Raises:
        NotMeasurableError: no prompt would be disaggregated, the backend cannot say what the deployment says, or no
            tokenizer is known.
        UnresolvedError: something that the deployment names does not exist or does not go together.
        UndatedPriceError: a price in the deployment has no ISO date.
    """
    if profile.backend != deployment.serving.backend and (errors := expressible(deployment, profile).errors):
        raise NotMeasurableError(f"profile `{profile}` cannot be deployed: {errors[0].message}")
    placed = on_backend(deployment, profile.backend)
    _refuse_short_prompts(placed, profile, plan)
    operated = profile.backend == "operator"
    keys = placed.routing.api_keys_secret is not None and not operated
    return Settings(
        url=_url(placed, operated=operated),
        model=placed.model.served_name or placed.model.name,
        tokenizer=plan.tokenizer or _tokenizer(placed),
        region=placed.region,
        input_tokens=plan.input_tokens,
        output_tokens=plan.output_tokens,
        concurrencies=plan.concurrencies,
        seeds=plan.seeds,
        requests_per_user=plan.requests_per_user,
        run_minutes=plan.run_minutes,
        reads_router=not operated,
        api_keys_file=f"{API_KEYS_DIRECTORY}/{names.API_KEYS_KEY}" if keys else None,
        results=f"s3://{Binding.RESULTS_BUCKET.placeholder}/{RESULTS_FOLDER}/{placed.name}",
        system=measured_system(placed, profile),
    )


def measured_system(deployment: Deployment, profile: Profile) -> System:
    """Return what `profile` of `deployment` is, for the head of a result.

    Raises:
        UnresolvedError: something that the deployment names does not exist or does not go together.
        UndatedPriceError: a price in the deployment has no ISO date.
    """
    facts = resolve(deployment)
    workers = tuple(_workers(facts, disaggregates=profile in _DISAGGREGATED))
    prices = {
        each.instance_type: hourly_price(each.instance_type, deployment.prices, region=deployment.region)
        for each in workers
    }
    return System(
        deployment=deployment.name,
        profile=profile.value,
        model=deployment.model.name,
        engine=f"vLLM {facts.engine.vllm}, LMCache {facts.engine.lmcache}, NIXL {facts.engine.nixl}",
        workers=workers,
        usd_per_hour=_usd_per_hour(facts, workers, prices),
        price="; ".join(f"{name} {price}" for name, price in prices.items() if price is not None),
        simulated=False,
    )


def _refuse_short_prompts(deployment: Deployment, profile: Profile, plan: BenchmarkPlan) -> None:
    threshold = deployment.routing.threshold_tokens
    if profile not in _DISAGGREGATED or (threshold != "never" and threshold <= plan.input_tokens):
        return
    raise NotMeasurableError(
        f"no prompt would be disaggregated: given `routing.threshold_tokens: {threshold}`, prompts of "
        f"{plan.input_tokens} tokens. help: lower the threshold of a deployment that is to be measured, for example to "
        f"{plan.input_tokens // 2}"
    )


def _workers(facts: ServingFacts, *, disaggregates: bool) -> list[Workers]:
    places = (facts.prefill, facts.decode)
    if disaggregates:
        return [_of(place, place.role.value, place.replicas) for place in places]
    if facts.prefill.group.name == facts.decode.group.name:
        return [_of(facts.prefill, "colocated", sum(place.replicas for place in places))]
    return [_of(place, "colocated", place.replicas) for place in places]


def _of(place: RoleFacts, role: str, count: int) -> Workers:
    return Workers(role=role, count=count, gpus_per_worker=place.gpus, instance_type=place.instance.name)


def _usd_per_hour(
    facts: ServingFacts, workers: tuple[Workers, ...], prices: dict[str, HourlyPrice | None]
) -> float | None:
    """Return the price of the GPUs that are used; a node's other GPUs are for other workers."""
    node_gpus = {place.instance.name: place.instance.gpus for place in (facts.prefill, facts.decode)}
    total = 0.0
    for each in workers:
        price = prices[each.instance_type]
        if price is None:
            return None
        total += price.usd * each.count * each.gpus_per_worker / node_gpus[each.instance_type]
    return total


def _url(deployment: Deployment, *, operated: bool) -> str:
    if operated:
        return routing_url(deployment)
    return f"http://{names.router_host(deployment)}:{names.ROUTER_PORT}"


def _tokenizer(deployment: Deployment) -> str:
    match deployment.model.source:
        case S3Source():
            return s3_uri(deployment)
        case FsxSource(file_system_id=None):
            # a new file system shows the bucket's keys
            return f"s3://{Binding.MODEL_BUCKET.placeholder}/{key_prefix(deployment)}"
        case _:
            try:
                revision = deployment.model.revision
                return f"hf://{repository(deployment)}" + (f"@{revision}" if revision else "")
            except UnknownCatalogEntryError as error:
                raise NotMeasurableError(
                    f"no tokenizer is known for `{deployment.model.name}`. help: give `--tokenizer`"
                ) from error
