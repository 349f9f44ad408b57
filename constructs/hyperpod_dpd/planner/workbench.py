"""Turns shapes into systems of engines, and measures them under the deployment's traffic."""

import math
from dataclasses import dataclass
from pathlib import Path

from hyperpod_dpd.catalog.calibration import HAND_OFF, MEASURED, StepCalibration
from hyperpod_dpd.catalog.instances import InstanceType
from hyperpod_dpd.catalog.vllm_defaults import VLLM_DEFAULTS
from hyperpod_dpd.derive import RoleFacts, ServingFacts
from hyperpod_dpd.physics import (
    MemoryFit,
    default_gpu_memory_utilization,
    efficiency_band,
    line_rate_bytes_per_second,
    memory_fit,
)
from hyperpod_dpd.planner.cost import usd_per_million_tokens
from hyperpod_dpd.planner.engine import EngineLimits
from hyperpod_dpd.planner.shape import Shape
from hyperpod_dpd.planner.simulation import PromptTooLongError, simulate
from hyperpod_dpd.planner.step import StepModel, step_model
from hyperpod_dpd.planner.summary import Summary, summarize
from hyperpod_dpd.planner.system import (
    ROUTER_BUFFER_WAIT_SECONDS,
    Colocated,
    Disaggregated,
    EngineSpec,
    Frontend,
    HandOff,
    HandOffFlow,
    System,
)
from hyperpod_dpd.planner.workload import (
    ClosedLoop,
    LengthSource,
    NoTrafficError,
    OpenLoop,
    RecordedLengths,
    Workload,
    lengths_of,
    poisson,
    read_trace,
)
from hyperpod_dpd.spec import Deployment, Slo

_NEVER_TOKENS = 1 << 62
_OPEN_LOOP_REQUESTS = 600
_OPEN_LOOP_SKIPPED = 100
_LONGEST_TRACE = 20_000
_LEAST_MEASURED = 96
_MANY_USERS = 512
"""From here on one turn of every user says enough."""

SATURATION = 0.95
"""Below this share of the offered rate the queue only grows."""

SLACK = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One shape under one workload."""

    shape: Shape
    summary: Summary
    usd_per_hour: float | None
    saturated: bool
    """More arrives than is served: waiting times have no end, and the figures depend on how long one looks."""

    meets_slo: bool

    @property
    def output_tokens_per_second_per_node(self) -> float:
        """Throughput normalised to one node."""
        return self.summary.output_tokens_per_second / self.shape.nodes

    @property
    def usd_per_million_output_tokens(self) -> float | None:
        """US dollars per million output tokens; None without a price or without throughput."""
        if self.usd_per_hour is None or self.summary.output_tokens_per_second <= 0:
            return None
        return usd_per_million_tokens(self.usd_per_hour, self.summary.output_tokens_per_second)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A workload and how much of its start is warming up."""

    workload: Workload
    skip: int
    offered_requests_per_second: float | None
    """None in a closed loop: users wait for the system."""

    shortened_from: int | None = None
    """Requests of a trace of which only the first part is used."""


class Workbench:
    """Measures shapes of one deployment."""

    def __init__(self, deployment: Deployment, facts: ServingFacts) -> None:
        self._deployment = deployment
        self._facts = facts
        self._times: dict[tuple[str, str, int], StepModel] = {}
        self._trace_read: OpenLoop | None = None

    # -- workloads --------------------------------------------------------------------------------------------------

    def load(self) -> Load:
        """Return the deployment's traffic as a workload in its steady state.

        Raises:
            NoTrafficError: the deployment names neither users, nor a rate, nor a trace with a request.
            PromptTooLongError: a request is longer than the model serves.
            UnreadableTraceError: the trace file is not one.
        """
        traffic = self._deployment.traffic
        if traffic.trace_file is not None:
            return self._trace(Path(traffic.trace_file))
        for prompt in {
            traffic.input_tokens,
            *([traffic.short_input_tokens] if traffic.long_share < 1 else []),
        }:
            refuse_longer_than(self._facts.max_model_len_tokens, prompt, traffic.output_tokens)
        if traffic.concurrency is not None:
            return self.users(traffic.concurrency, turns=2 if traffic.concurrency <= _MANY_USERS else 1)
        if traffic.requests_per_second is None:
            raise NoTrafficError(
                "zero traffic: `traffic` names neither users, nor a rate, nor a trace. "
                "help: set `traffic.concurrency`, `traffic.requests_per_second` or `traffic.trace_file`"
            )
        arrivals = poisson(
            traffic.requests_per_second,
            self._lengths(),
            _OPEN_LOOP_REQUESTS,
        )
        return Load(
            workload=arrivals,
            skip=_OPEN_LOOP_SKIPPED,
            offered_requests_per_second=traffic.requests_per_second,
        )

    def users(self, concurrency: int, *, turns: int = 2) -> Load:
        """Return a closed loop of `concurrency` users in its steady state.

        Args:
            concurrency: users.
            turns: requests of each user before and during the measurement.
        """
        lengths = self._lengths()
        skip = turns * concurrency
        measured = max(_LEAST_MEASURED, turns * concurrency)
        loop = ClosedLoop(
            concurrency=concurrency,
            lengths=lengths,
            requests=8 * (skip + measured),
            stop_after=skip + measured,
        )
        return Load(workload=loop, skip=skip, offered_requests_per_second=None)

    def _lengths(self) -> LengthSource:
        traffic = self._deployment.traffic
        if traffic.trace_file is not None:
            return RecordedLengths(requests=self._recorded(Path(traffic.trace_file)).requests)
        return lengths_of(traffic, self._facts.max_model_len_tokens)

    def _recorded(self, path: Path) -> OpenLoop:
        if self._trace_read is None:
            self._trace_read = read_trace(path)
            for request in self._trace_read.requests:
                refuse_longer_than(
                    self._facts.max_model_len_tokens, request.input_tokens, request.output_tokens
                )
        return self._trace_read

    def _trace(self, path: Path) -> Load:
        trace = self._recorded(path)
        used = trace.requests[:_LONGEST_TRACE]
        seconds = used[-1].arrival_seconds - used[0].arrival_seconds
        return Load(
            workload=OpenLoop(requests=used),
            skip=0,
            offered_requests_per_second=len(used) / seconds if seconds > 0 else None,
            shortened_from=len(trace.requests) if len(trace.requests) > len(used) else None,
        )

    # -- measuring --------------------------------------------------------------------------------------------------

    def evaluate(self, shape: Shape, load: Load, calibration: StepCalibration = MEASURED) -> Evaluation:
        """Return what `shape` does with `load`.

        Raises:
            PromptTooLongError: a request fits into no worker.
            UndatedPriceError: a given price has no date.
        """
        outcome = simulate(
            self.system(shape, calibration),
            load.workload,
            prefix_hit_share=self._deployment.traffic.prefix_hit_share,
        )
        summary = summarize(outcome, skip=min(load.skip, max(0, len(outcome.requests) - 1)))
        offered = load.offered_requests_per_second
        saturated = offered is not None and summary.requests_per_second < SATURATION * offered
        return Evaluation(
            shape=shape,
            summary=summary,
            usd_per_hour=shape.usd_per_hour(self._deployment.prices),
            saturated=saturated,
            meets_slo=not saturated and meets(summary, self._deployment.slo),
        )

    def decode_times(self, shape: Shape, calibration: StepCalibration = MEASURED) -> StepModel:
        """Return the step times of the decoders or colocated workers of `shape`."""
        graphs = VLLM_DEFAULTS.graph_tokens(
            max_num_seqs=shape.max_num_seqs,
            max_num_batched_tokens=shape.max_num_batched_tokens,
            eager=shape.disaggregated and self._facts.decode.enforce_eager,
        )
        return self._step_times(shape.decode_instance, graphs, calibration)

    def prefill_times(self, instance: InstanceType, calibration: StepCalibration = MEASURED) -> StepModel:
        """Return the step times of a prefiller on `instance`."""
        prefill = self._facts.prefill
        graphs = VLLM_DEFAULTS.graph_tokens(
            max_num_seqs=prefill.max_num_seqs,
            max_num_batched_tokens=prefill.max_num_batched_tokens,
            eager=prefill.enforce_eager,
        )
        return self._step_times(instance, graphs, calibration)

    def kernel_times(self, instance: InstanceType) -> StepModel:
        """Return the step times of a worker on `instance` whose host launches kernels in no time.

        For advice that is to hold on other hosts and with other graphs than those of the measurements.
        """
        return self._step_times(instance, _NEVER_TOKENS, MEASURED)

    def _step_times(
        self, instance: InstanceType, graph_tokens: int, calibration: StepCalibration
    ) -> StepModel:
        key = (instance.name, calibration.name, graph_tokens)
        if key not in self._times:
            model = self._deployment.model
            self._times[key] = step_model(
                self._facts.geometry,
                instance.gpu,
                tensor_parallel=self._facts.tensor_parallel,
                weights=model.weights,
                kv_cache=model.kv_cache,
                line_rate_bytes_per_second=instance.efa_bytes_per_second_per_gpu,
                graph_tokens=graph_tokens,
                calibration=calibration,
            )
        return self._times[key]

    def memory(self, shape: Shape) -> tuple[MemoryFit, ...]:
        """Return the memory of one GPU of each kind of worker of `shape`."""
        if not shape.disaggregated:
            return (self._colocated_memory(shape.decode_instance),)
        return (
            self._role_memory(self._facts.prefill, shape.prefill_instance),
            self._role_memory(self._facts.decode, shape.decode_instance),
        )

    def system(self, shape: Shape, calibration: StepCalibration = MEASURED) -> System:
        """Return the engines of `shape` and what lies between them."""
        decode_times = self.decode_times(shape, calibration)
        if not shape.disaggregated:
            memory = self._colocated_memory(shape.decode_instance)
            engine = self._engine(decode_times, shape.max_num_batched_tokens, shape.max_num_seqs, memory)
            return Colocated(engine=engine, workers=shape.decoders, frontend=_frontend())
        facts = self._facts
        prefill_memory, decode_memory = self.memory(shape)
        prefill_times = self.prefill_times(shape.prefill_instance, calibration)
        return Disaggregated(
            prefill=self._engine(
                prefill_times,
                facts.prefill.max_num_batched_tokens,
                facts.prefill.max_num_seqs,
                prefill_memory,
            ),
            decode=self._engine(
                decode_times, shape.max_num_batched_tokens, shape.max_num_seqs, decode_memory
            ),
            prefillers=shape.prefillers,
            decoders=shape.decoders,
            threshold_tokens=self._threshold_tokens(),
            hand_off=self.hand_off(shape, prefill_times, decode_times),
            frontend=_frontend(),
            # the operator's router is closed; whether it gives up waiting is not known
            buffer_wait_seconds=math.inf
            if self._deployment.serving.backend == "operator"
            else ROUTER_BUFFER_WAIT_SECONDS,
        )

    def hand_off(self, shape: Shape, prefill_times: StepModel, decode_times: StepModel) -> HandOff:
        """Return what moving a prompt costs between the roles of `shape`."""
        facts = self._facts
        line_rate = line_rate_bytes_per_second(shape.prefill_instance, shape.decode_instance)
        share = efficiency_band(self._deployment.serving.transfer.backend, prefill_times.transfer).expected
        wire = facts.kv_bytes_per_token_per_rank / (share * line_rate)
        pulls = self._deployment.serving.transfer.type == "nixl"
        return HandOff(
            flow=self._flow(),
            # NixlConnector reads and writes vLLM's own blocks: no copies, no buffer
            store_seconds_per_token=0.0 if pulls else prefill_times.store_seconds(1),
            transfer_fixed_seconds=prefill_times.transfer.fixed_seconds,
            transfer_seconds_per_token=wire,
            retrieve_seconds_per_token=0.0 if pulls else decode_times.retrieve_seconds(1),
            inline=not pulls and not facts.engine.transfers_asynchronously,
            serial_seconds=0.0,
            unit_tokens=facts.block_size_tokens if pulls else facts.chunk_tokens,
            chunk_tokens=facts.chunk_tokens,
            buffer_chunks=_NEVER_TOKENS if pulls else facts.decode.pd_buffer.chunks,
            # measured where the prefiller is eager and transfers beside its steps, and only there
            held_by_next_step=not pulls
            and facts.engine.transfers_asynchronously
            and facts.prefill.enforce_eager,
        )

    def _flow(self) -> HandOffFlow:
        serving = self._deployment.serving
        if serving.transfer.type == "nixl" or serving.backend == "operator":
            return HandOffFlow.RECOMPUTE
        return HandOffFlow(self._deployment.routing.strategy)

    def _threshold_tokens(self) -> int:
        threshold = self._deployment.routing.threshold_tokens
        return _NEVER_TOKENS if threshold == "never" else threshold

    def _engine(self, times: StepModel, budget: int, most_sequences: int, memory: MemoryFit) -> EngineSpec:
        return EngineSpec(
            times=times,
            limits=EngineLimits(
                max_num_batched_tokens=budget,
                max_num_seqs=min(most_sequences, budget),
                kv_tokens=memory.kv_tokens,
                schedules_ahead=self._facts.engine.vllm_version >= (0, 14),
            ),
        )

    def _role_memory(self, role: RoleFacts, instance: InstanceType) -> MemoryFit:
        buffer = role.pd_buffer.usable_bytes
        given = role.worker.gpu_memory_utilization
        return self._memory(
            instance,
            given if given is not None else default_gpu_memory_utilization(instance.gpu, buffer),
            buffer,
        )

    def _colocated_memory(self, instance: InstanceType) -> MemoryFit:
        return self._memory(instance, self._deployment.serving.baseline.gpu_memory_utilization, 0)

    def _memory(self, instance: InstanceType, utilization: float, buffer_bytes: int) -> MemoryFit:
        facts = self._facts
        return memory_fit(
            instance.gpu,
            weights_bytes=facts.weights_bytes_per_rank,
            kv_bytes_per_token=facts.kv_bytes_per_token_per_rank,
            sequence_tokens=facts.max_model_len_tokens,
            tensor_parallel=facts.tensor_parallel,
            gpu_memory_utilization=utilization,
            pd_buffer_bytes=buffer_bytes,
        )


def refuse_longer_than(longest_tokens: int, input_tokens: int, output_tokens: int) -> None:
    """Check that the engines accept such a request.

    Raises:
        PromptTooLongError: prompt and answer together are longer than `max_model_len_tokens`.
    """
    if input_tokens + output_tokens > longest_tokens:
        raise PromptTooLongError(
            f"a request of {input_tokens:,} + {output_tokens:,} tokens is longer than "
            f"`serving.max_model_len_tokens: {longest_tokens}`. help: raise it, or plan with shorter requests"
        )


def meets(summary: Summary, slo: Slo) -> bool:
    """Return whether `summary` keeps the promises `slo`."""
    if summary.ttft_seconds.p95 > slo.ttft_p95_seconds + SLACK:
        return False
    return summary.tpot_seconds is None or summary.tpot_seconds.p95 <= slo.tpot_p95_seconds + SLACK


def _frontend() -> Frontend:
    return Frontend(
        request_seconds=HAND_OFF.request_seconds,
        request_seconds_per_token=HAND_OFF.request_seconds_per_token,
        router_seconds=HAND_OFF.router_seconds,
    )
