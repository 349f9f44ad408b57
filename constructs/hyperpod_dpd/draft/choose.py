"""From answers to a deployment: the rules say what is possible, the planner what is best."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from hyperpod_dpd.catalog.instances import instance_type
from hyperpod_dpd.catalog.models import model
from hyperpod_dpd.catalog.regions import region
from hyperpod_dpd.draft.questions import Answers
from hyperpod_dpd.physics import tensor_parallel_degrees
from hyperpod_dpd.planner.capacity import Capacity
from hyperpod_dpd.planner.plan import Plan, make_plan
from hyperpod_dpd.rules.check import Report, check
from hyperpod_dpd.rules.finding import Finding
from hyperpod_dpd.spec import (
    Acknowledgement,
    Deployment,
    HyperPod,
    InstanceGroup,
    Model,
    Network,
    Role,
    Routing,
    Serving,
    Slo,
    Traffic,
    Transfer,
    Worker,
)
from hyperpod_dpd.spec.value import record

OPEN_ENDPOINT_RULE = "DPD-EKS-001"
BUFFER_RULE = "DPD-SRV-004"
VALIDATED_RULE = "DPD-SRV-008"
DEVICES_RULE = "DPD-SRV-319"

_BUFFERS_GIB = (12.0, 16.0, 24.0, 32.0, 48.0)
"""Larger PD buffers of a decoder that are tried, smallest first, while its KV cache still fits beside them."""

_LEAST_MODEL_LEN_TOKENS = 8192
_HEADROOM = 1.25
"""Requests are longer than the typical one; a quarter more still fits."""


class NoDraftError(ValueError):
    """No deployment of the answers passes the rules; `findings` says why the preferred one does not."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        self.findings = findings
        super().__init__("\n".join(finding.message for finding in findings))


@record
class Draft:
    """A deployment with what led to it."""

    deployment: Deployment
    answers: Answers
    plan: Plan

    preferred: tuple[Finding, ...]
    """Why bf16 weights, LMCache's hand-off and a whole node per worker are not possible; empty where they are."""

    sized_by: Capacity | None
    """Shape whose capacity decided the number of workers; None: no shape keeps the promises."""

    report: Report
    """What the rules say: nothing but warnings that the deployment acknowledges."""


def draft(answers: Answers, *, name: str) -> Draft:
    """Return a deployment for `answers` called `name`.

    Raises:
        NoDraftError: the rules refuse every candidate.
    """
    candidate, preferred = _possible(answers, name)
    sized_by = _sizing(make_plan(candidate), answers)
    sized = _buffered(_sized(candidate, sized_by, answers))
    routed = _routed(sized, make_plan(sized))
    plan = make_plan(routed)
    final = _acknowledged(routed, plan)
    report = check(final)
    if not report.clean:
        raise NoDraftError(report.findings)
    return Draft(
        deployment=final,
        answers=answers,
        plan=replace(plan, deployment=final),
        preferred=preferred,
        sized_by=sized_by,
        report=report,
    )


def _possible(answers: Answers, name: str) -> tuple[Deployment, tuple[Finding, ...]]:
    """Return the first candidate without errors, and the errors of the first candidate of all."""
    preferred: tuple[Finding, ...] | None = None
    for candidate in _candidates(answers, name):
        errors = check(candidate).errors
        if preferred is None:
            preferred = errors
        if not errors:
            return candidate, preferred
    raise NoDraftError(preferred or ())


def _candidates(answers: Answers, name: str) -> Iterator[Deployment]:
    """Yield deployments, the preferred one first.

    Whole nodes come first because they give the shortest time per token; stored precision before quantized weights
    because nothing else keeps the model's quality.
    """
    gpus = min(instance_type(each).gpus for each in (answers.instance_type, answers.decode_instance_type))
    degrees = [each for each in reversed(tensor_parallel_degrees(model(answers.model))) if each <= gpus]
    for weights, transfer, degree in product(("bf16", "fp8"), ("lmcache-pd", "nixl"), degrees):
        yield _deployment(answers, name, weights=weights, transfer=transfer, degree=degree)


def _deployment(answers: Answers, name: str, *, weights: str, transfer: str, degree: int) -> Deployment:
    return Deployment(
        name=name,
        region=answers.region,
        network=Network(gpu_zone_id=answers.zone_id, cluster_zone_ids=cluster_zones(answers)),
        hyperpod=HyperPod(
            instance_groups=tuple(
                InstanceGroup(name=role.value, role=role, instance_type=kind, count=1)
                for role, kind in (
                    (Role.PREFILL, answers.instance_type),
                    (Role.DECODE, answers.decode_instance_type),
                )
            )
        ),
        model=Model(
            name=answers.model,
            revision=answers.revision,
            weights=weights,  # type: ignore[arg-type] # from `_candidates`
        ),
        serving=Serving(
            tensor_parallel=degree,
            max_model_len_tokens=longest_sequence_tokens(answers),
            transfer=Transfer(type=transfer),  # type: ignore[arg-type] # from `_candidates`
        ),
        traffic=Traffic(
            input_tokens=answers.input_tokens,
            output_tokens=answers.output_tokens,
            concurrency=answers.concurrency,
        ),
        slo=Slo(ttft_p95_seconds=answers.ttft_p95_seconds, tpot_p95_seconds=answers.tpot_p95_seconds),
    )


def cluster_zones(answers: Answers) -> tuple[str, ...]:
    """Return two zones for EKS: the GPU zone where EKS accepts it, and others of the region."""
    accepted = region(answers.region).eks_zone_ids
    ordered = sorted(accepted, key=lambda zone: zone != answers.zone_id)
    return tuple(ordered[:2])


def longest_sequence_tokens(answers: Answers) -> int:
    """Return the power of two that holds the typical request with a quarter more, as far as the model goes."""
    wanted = max(
        _LEAST_MODEL_LEN_TOKENS, math.ceil((answers.input_tokens + answers.output_tokens) * _HEADROOM)
    )
    return min(1 << (wanted - 1).bit_length(), model(answers.model).max_position_tokens)


def _sizing(plan: Plan, answers: Answers) -> Capacity | None:
    """Return the shape that serves all requests in flight on the fewest nodes, within the promises."""
    if plan.search is None:
        return None
    kinds = (answers.instance_type, answers.decode_instance_type)
    found = [
        one
        for one in plan.search.capacities
        if one.shape.disaggregated
        and (one.shape.prefill_instance.name, one.shape.decode_instance.name) == kinds
    ]
    return min(found, key=lambda one: (times(one, answers) * one.shape.nodes, -one.users), default=None)


def times(capacity: Capacity, answers: Answers) -> int:
    """Return how many times `capacity` is needed for the requests in flight."""
    return -(-answers.concurrency // capacity.users)


def _sized(deployment: Deployment, capacity: Capacity | None, answers: Answers) -> Deployment:
    if capacity is None:
        return deployment
    shape = capacity.shape.times(times(capacity, answers))
    workers = {Role.PREFILL: shape.prefillers, Role.DECODE: shape.decoders}
    groups = tuple(
        replace(group, count=-(-workers[group.role] // _workers_per_node(group, shape.gpus_per_worker)))
        for group in deployment.hyperpod.instance_groups
        if group.role is not None
    )
    serving = replace(
        deployment.serving,
        prefill=Worker(replicas=shape.prefillers),
        decode=Worker(replicas=shape.decoders, max_num_seqs=_sequences(capacity, answers)),
    )
    return replace(deployment, serving=serving, hyperpod=replace(deployment.hyperpod, instance_groups=groups))


def _sequences(capacity: Capacity, answers: Answers) -> int:
    """Return the requests in flight of one decoder, in whole eights, for which vLLM captures graphs.

    More than the planner found fast enough would break the promised time per token.
    """
    decoders = capacity.shape.decoders * times(capacity, answers)
    return min(capacity.shape.max_num_seqs, -(-answers.concurrency // (8 * decoders)) * 8)


def _buffered(deployment: Deployment) -> Deployment:
    """Return `deployment` with a decoder's PD buffer that holds the declared load, where memory allows it."""
    sizes = (None, *_BUFFERS_GIB) if deployment.serving.transfer.type == "lmcache-pd" else ()
    for size_gib in sizes:
        transfer = replace(deployment.serving.transfer, decode_pd_buffer_gib=size_gib)
        larger = replace(deployment, serving=replace(deployment.serving, transfer=transfer))
        report = check(larger)
        if not report.errors and all(finding.rule != BUFFER_RULE for finding in report.warnings):
            return larger
    return deployment


def _workers_per_node(group: InstanceGroup, gpus_per_worker: int) -> int:
    return instance_type(group.instance_type).gpus // gpus_per_worker


def _routed(deployment: Deployment, plan: Plan) -> Deployment:
    """Return `deployment` with the planner's threshold; above every prompt it means that nothing is handed over."""
    if plan.threshold is None:
        return deployment
    recommended = plan.threshold.recommended_tokens
    if recommended > deployment.serving.max_model_len_tokens:
        return replace(deployment, routing=Routing(threshold_tokens="never"))
    return replace(deployment, routing=Routing(threshold_tokens=recommended))


def _acknowledged(deployment: Deployment, plan: Plan) -> Deployment:
    """Return `deployment` with a reason for each warning that follows from the answers alone."""
    verdict = plan.verdict.text if plan.verdict else "no verdict"
    reasons = {
        OPEN_ENDPOINT_RULE: "drafted without knowing your addresses; IAM and access entries still decide who gets in",
        BUFFER_RULE: "the router reserves room for a whole prompt before it prefills it, so requests wait for room",
        VALIDATED_RULE: f"follows from the model and the load that were asked for; planned: {verdict}",
        DEVICES_RULE: "follows from the two instance types that were asked for; the proof measures the transfer rate",
    }
    raised = dict.fromkeys(finding.rule for finding in check(deployment).warnings)
    return replace(
        deployment,
        acknowledge=tuple(
            Acknowledgement(rule=rule, reason=reasons[rule]) for rule in raised if rule in reasons
        ),
    )
