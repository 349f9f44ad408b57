"""Strategy `continue`: the decoder goes on from the prompt's ids plus the prefiller's token."""

import asyncio
import dataclasses
import logging
from collections.abc import Sequence
from typing import Final

from aiohttp import web

from dpd_router.answers import Answer, Finish, answer_for
from dpd_router.config import Settings
from dpd_router.custodian import Custodian, Usage
from dpd_router.decision import Disaggregate
from dpd_router.eligibility import COPIED_FIELDS, Reason
from dpd_router.errors import DECODER_LOST, error_body
from dpd_router.generation import Generation, Json
from dpd_router.handoff import Handoff
from dpd_router.metrics import Metrics
from dpd_router.pool import Pool, Worker
from dpd_router.stops import StopMatcher, may_span
from dpd_router.tokenizer_check import TokenizerCheck
from dpd_router.transfer.base import FallbackError, Served, Transfer
from dpd_router.transfer.decoding import Choice, Decoding, ErrorEventError, open_decoding
from dpd_router.transfer.lane import FirstToken, Lane, Shipment, copied_fields, own_headers
from dpd_router.trouble import Trouble
from dpd_router.upstream import Upstream, UpstreamError

log = logging.getLogger(__name__)

# a stop string that the decoder does not know of ends the answer before it reports its cached tokens; so many
# tokens are worth the report, half a second of one sequence
_WORTH_THE_REPORT_TOKENS: Final = 64


@dataclasses.dataclass(slots=True, kw_only=True)
class _Joint:
    """How the first token's text and the decoder's are put together.

    Attributes:
        shown: text of the first token that may be shown at once.
        matcher: matches stop strings over the joint where the decoder cannot.
        prompt_text: what the decoder repeats before the first character that it completes.
    """

    shown: str
    matcher: StopMatcher | None = None
    prompt_text: str = ""


@dataclasses.dataclass(slots=True, kw_only=True)
class _Progress:
    """What a client has been sent so far.

    Attributes:
        max_tokens: output tokens at most.
        stopped: a stop string has ended the answer, which the decoder goes on with.
        checked: the decoder's report of cached tokens was judged.
    """

    max_tokens: int
    tokens: int = 1
    finish: Finish | None = None
    usage: Usage | None = None
    stopped: bool = False
    checked: bool = False


class ContinueTransfer(Transfer):
    """Streams the first token as soon as the prefiller has it, then the decoder's."""

    def __init__(
        self,
        *,
        settings: Settings,
        lane: Lane,
        custodian: Custodian,
        pool: Pool,
        upstream: Upstream,
        trouble: Trouble,
        metrics: Metrics,
        tokenizers: TokenizerCheck,
    ) -> None:
        self._timeouts = settings.timeouts
        self._lane = lane
        self._custodian = custodian
        self._pool = pool
        self._upstream = upstream
        self._trouble = trouble
        self._metrics = metrics
        self._tokenizers = tokenizers

    async def serve(self, request: web.BaseRequest, generation: Generation, decision: Disaggregate) -> Served:
        """Answer a request; see `Transfer.serve`."""
        sampling = copied_fields(generation.body, COPIED_FIELDS)
        # 1 keeps an end of sequence away only where the client asked for at least one token
        first_minimum = min(decision.limits.min_tokens, 1)
        sampling["min_tokens"] = first_minimum
        async with self._lane.shipment(generation, decision, sampling) as shipment:
            return await self._answer(request, generation, decision, shipment)

    async def _answer(
        self, request: web.BaseRequest, generation: Generation, decision: Disaggregate, shipment: Shipment
    ) -> Served:
        first = shipment.prefill.result()
        answer = answer_for(request, generation, self._metrics, len(decision.ids))
        answer.named(first.model)
        if first.finish_reason not in {"length", "stop"}:
            self._custodian.report_failure(shipment.handoff, Reason.PREFILL_FAILED, pair=False)
            raise FallbackError(Reason.PREFILL_FAILED)
        if first.finish_reason == "stop":
            # the answer is complete; the hand-off is drained
            finish = Finish(reason="stop", stop_reason=first.stop_reason)
            await answer.text(first.text, 1, finish)
            return Served(response=await answer.end(1))
        joint = self._join(generation, decision, first)
        if joint.shown:
            await answer.text(joint.shown, 1)
        try:
            await self._lane.await_landing(shipment)
            decoding = await self._consume(generation, decision, shipment.handoff, joint)
        except (FallbackError, UpstreamError) as error:
            reason = error.reason if isinstance(error, FallbackError) else Reason.DECODE_FAILED
            if not answer.started:
                raise FallbackError(reason) from error
            response = await self._resume(answer, generation, decision, handoff=shipment.handoff, joint=joint)
            return Served(response=response, fallback=reason)
        progress = _Progress(max_tokens=decision.max_tokens)
        return Served(response=await self._relay(answer, decoding, joint, progress, shipment.handoff))

    # the joint

    def _join(self, generation: Generation, decision: Disaggregate, first: FirstToken) -> _Joint:
        body = generation.body
        stops = _stops(body.get("stop"))
        include = body.get("include_stop_str_in_output") is True
        minimum = decision.limits.min_tokens
        if not first.text:
            return self._silent(generation, decision, first, stops)
        if not stops or not may_span(first.text, stops):
            return _Joint(shown=first.text)
        matcher = StopMatcher(stops, include=include, min_tokens=minimum)
        return _Joint(shown=matcher.push(first.text, 1).text, matcher=matcher)

    def _silent(
        self, generation: Generation, decision: Disaggregate, first: FirstToken, stops: Sequence[str]
    ) -> _Joint:
        """Join a first token without text: a special token, or the first part of a character.

        A worker's detokenizer that is primed with ids ending within a character shows the text of the
        whole prompt before the completed character (vLLM 0.25.1 with tokenizers 0.23), so that text has
        to be taken off, and stop strings must not be matched in it.
        """
        tokenizer = self._tokenizers.tokenizer
        if tokenizer is None:
            raise FallbackError(Reason.FIRST_TOKEN_TEXT_UNKNOWN)
        skip = generation.body.get("skip_special_tokens") is not False
        if not tokenizer.ends_within_character([*decision.ids, first.token], skip_special_tokens=skip):
            return _Joint(shown="")
        matcher = StopMatcher(
            stops,
            include=generation.body.get("include_stop_str_in_output") is True,
            min_tokens=decision.limits.min_tokens,
        )
        prompt_text = tokenizer.text_of(decision.ids, skip_special_tokens=skip)
        if tokenizer.ends_within_character(decision.ids, skip_special_tokens=skip):
            prompt_text = ""  # then direct decoding repeats it as well
        return _Joint(shown="", matcher=matcher, prompt_text=prompt_text)

    # the decoder

    def _body(self, generation: Generation, decision: Disaggregate, joint: _Joint, first_token: int) -> Json:
        body = copied_fields(generation.body, COPIED_FIELDS)
        if joint.matcher is not None:
            body.pop("stop", None)
        wants_counts = generation.stream_option("continuous_usage_stats") or joint.matcher is not None
        return {
            **body,
            "prompt": [*decision.ids, first_token],
            "max_tokens": decision.max_tokens - 1,
            "min_tokens": max(0, decision.limits.min_tokens - 1),
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": wants_counts},
        }

    async def _consume(
        self, generation: Generation, decision: Disaggregate, handoff: Handoff, joint: _Joint
    ) -> Decoding:
        assert handoff.first_token is not None
        body = self._body(generation, decision, joint, handoff.first_token)
        body |= {"kv_transfer_params": handoff.tag, "cache_salt": handoff.salt}

        async def attempt() -> Decoding:
            try:
                decoding = await self._open(generation, handoff.decoder, body)
            except UpstreamError:
                self._custodian.report_failure(handoff, Reason.DECODE_FAILED, pair=False)
                raise
            self._custodian.consumed(handoff)
            return decoding

        task = self._custodian.consume(handoff, attempt())
        try:
            decoding: Decoding = await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_close)
            raise
        return decoding

    async def _open(self, generation: Generation, decoder: Worker, body: Json) -> Decoding:
        try:
            return await open_decoding(
                self._upstream,
                self._pool,
                decoder,
                body,
                own_headers(generation, generation.request_id),
                idle_timeout_seconds=self._timeouts.idle_timeout_seconds,
            )
        except UpstreamError as error:
            self._trouble.report(decoder, error)
            raise

    async def _resume(
        self,
        answer: Answer,
        generation: Generation,
        decision: Disaggregate,
        *,
        handoff: Handoff,
        joint: _Joint,
    ) -> web.StreamResponse:
        """Go on without the hand-off after the client has seen the first token.

        The request carries no tag, so that it cannot read what the hand-off may have left half written.
        """
        assert handoff.first_token is not None
        body = self._body(generation, decision, joint, handoff.first_token)
        tried: set[Worker] = {handoff.decoder}
        decoder = self._pool.decoder(exclude=tried) or self._pool.decoder()
        while decoder is not None:
            tried.add(decoder)
            try:
                decoding = await self._open(generation, decoder, body)
            except UpstreamError as error:
                if error.final or isinstance(error, ErrorEventError):
                    break
                self._metrics.retries.labels(decoder.role).inc()
                decoder = self._pool.decoder(exclude=tried)
            else:
                progress = _Progress(max_tokens=decision.max_tokens)
                return await self._relay(answer, decoding, joint, progress, None)
        return await answer.fail(error_body(503, "no_decoder", "the answer cannot be continued"))

    async def _relay(
        self,
        answer: Answer,
        decoding: Decoding,
        joint: _Joint,
        progress: _Progress,
        handoff: Handoff | None,
    ) -> web.StreamResponse:
        failure: UpstreamError | None = None
        try:
            try:
                await self._show(answer, decoding, joint, progress)
            except UpstreamError as error:
                failure = error
                self._trouble.report(decoding.worker, error)
            if handoff is not None and failure is None and not progress.stopped:
                self._custodian.checked(handoff, progress.usage)
                progress.checked = True
            if failure is None or progress.finish is not None:
                return await answer.end(progress.tokens)
        finally:
            self._part(decoding, progress, handoff)
        if not answer.started:
            raise FallbackError(Reason.DECODE_FAILED) from failure
        event = failure.event if isinstance(failure, ErrorEventError) else None
        return await answer.fail(event or DECODER_LOST)

    def _part(self, decoding: Decoding, progress: _Progress, handoff: Handoff | None) -> None:
        """End a decoder's stream; every hand-off is checked or counted as one that was not."""
        if handoff is not None and not progress.checked:
            if progress.stopped and progress.max_tokens - progress.tokens <= _WORTH_THE_REPORT_TOKENS:
                self._custodian.check_later(handoff, self._check_rest(decoding, handoff))
                return
            self._custodian.unchecked()
        decoding.close()

    async def _check_rest(self, decoding: Decoding, handoff: Handoff) -> None:
        try:
            async with asyncio.timeout(self._timeouts.drain_timeout_seconds):
                usage = await decoding.rest()
        except (UpstreamError, TimeoutError):
            self._custodian.unchecked()
        else:
            self._custodian.checked(handoff, usage)
        finally:
            decoding.close()

    async def _show(self, answer: Answer, decoding: Decoding, joint: _Joint, progress: _Progress) -> None:
        """Send the decoder's chunks on until its stream ends or a stop string is complete."""
        async for chunk in decoding.chunks():
            generated = None if chunk.usage is None else chunk.usage.completion_tokens
            if not chunk.choices:
                progress.usage = chunk.usage
                if generated is not None:
                    progress.tokens = 1 + generated
                continue
            # without counts in the chunks a chunk is a token, until the final usage corrects it
            progress.tokens = progress.tokens + 1 if generated is None else 1 + generated
            await self._show_choice(answer, chunk.choices[0], joint, progress)
            if progress.stopped:
                return

    async def _show_choice(self, answer: Answer, choice: Choice, joint: _Joint, progress: _Progress) -> None:
        """Send one chunk's text, up to a stop string."""
        text = choice.text
        if joint.prompt_text and text:
            text = text.removeprefix(joint.prompt_text)
            joint.prompt_text = ""
        finish = None
        if choice.finish_reason is not None:
            finish = Finish(reason=choice.finish_reason, stop_reason=choice.stop_reason)
        if joint.matcher is not None:
            piece = joint.matcher.push(text, progress.tokens, finished=finish is not None)
            text = piece.text
            if piece.stop is not None:
                finish = Finish(reason="stop", stop_reason=piece.stop)
                progress.stopped = choice.finish_reason is None
        await answer.text(text, progress.tokens, finish)
        progress.finish = finish


def _stops(stop: object) -> list[str]:
    if isinstance(stop, str):
        return [stop]
    return [text for text in stop if isinstance(text, str)] if isinstance(stop, list) else []


def _close(task: "asyncio.Task[Decoding]") -> None:
    """End the stream of a client that is gone: its cache has been taken by now."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()
