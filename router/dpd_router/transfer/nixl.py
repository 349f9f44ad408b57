"""Transfer `nixl`: the decoder pulls the prefiller's blocks for the unchanged request."""

import msgspec
from aiohttp import web

from dpd_router.decision import Disaggregate
from dpd_router.eligibility import Reason
from dpd_router.generation import Generation, Json, Kind, encode_json
from dpd_router.metrics import Metrics
from dpd_router.passthrough import Passthrough
from dpd_router.pool import Pool, Worker, least_loaded
from dpd_router.transfer.base import FallbackError, NotTakenError, Served, Transfer, prefill_reason
from dpd_router.transfer.prefill import Prefill
from dpd_router.upstream import UpstreamError, read_answer

# what a NixlConnector prefiller needs to keep the blocks for a decoder that is not known yet
_REMOTE_DECODE: Json = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}


class _Answer(msgspec.Struct):
    kv_transfer_params: Json | None = None


_decode = msgspec.json.Decoder(_Answer).decode


class NixlTransfer(Transfer):
    """Owns nothing between the two requests: a prefiller frees blocks that nobody pulls after its lease."""

    def __init__(
        self,
        *,
        pool: Pool,
        prefills: Prefill,
        passthrough: Passthrough,
        metrics: Metrics,
    ) -> None:
        self._pool = pool
        self._prefills = prefills
        self._passthrough = passthrough
        self._metrics = metrics

    async def serve(self, request: web.BaseRequest, generation: Generation, decision: Disaggregate) -> Served:
        """Answer a request; see `Transfer.serve`."""
        parameters = await self._prefill(generation, decision)
        decoder = self._pool.decoder(generation.affinity_key)
        if decoder is None:
            raise FallbackError(Reason.DECODER_GONE)
        body = encode_json({**generation.body, "kv_transfer_params": parameters})
        try:
            response = await self._passthrough.serve_from(
                decoder,
                request,
                generation.kind,
                body,
                generation.headers,
                retry_statuses=True,
                decision="disaggregated",
                on_first_byte=lambda: self._metrics.answered("disaggregated", generation.arrived_at),
            )
        except UpstreamError as error:
            self._metrics.handoff_failures.labels(Reason.DECODE_FAILED).inc()
            raise FallbackError(Reason.DECODE_FAILED) from error
        return Served(response=response)

    async def _prefill(self, generation: Generation, decision: Disaggregate) -> Json:
        tried: set[Worker] = set()
        while True:
            prefillers = [worker for worker in self._pool.usable_prefillers() if worker not in tried]
            if not prefillers:
                raise NotTakenError(Reason.NO_PREFILLER)
            prefiller = least_loaded(prefillers)
            tried.add(prefiller)
            try:
                return await self._prefill_at(prefiller, generation, decision.tokens)
            except UpstreamError as error:
                reason = prefill_reason(error)
                self._metrics.handoff_failures.labels(reason).inc()
                if not self._prefills.another(error, tried=tried):
                    raise FallbackError(reason) from error

    async def _prefill_at(self, prefiller: Worker, generation: Generation, tokens: int) -> Json:
        parameters = await self._prefills.run(
            prefiller,
            tokens=tokens,
            path=generation.kind,
            body=prefill_body(generation),
            headers=generation.headers,
            read=_parameters,
        )
        if not parameters:
            self._metrics.handoff_failures.labels(Reason.REMOTE_BLOCKS_MISSING).inc()
            raise FallbackError(Reason.REMOTE_BLOCKS_MISSING)
        return parameters


def _parameters(answer: bytes) -> Json | None:
    return read_answer(_decode, answer).kv_transfer_params


def prefill_body(generation: Generation) -> Json:
    """Return a request as its prefiller gets it: one token, not streamed, blocks kept for a decoder."""
    body = {
        name: value for name, value in generation.body.items() if name not in {"stream_options", "min_tokens"}
    }
    body |= {"max_tokens": 1, "stream": False, "kv_transfer_params": _REMOTE_DECODE}
    if generation.kind is Kind.CHAT:
        body["max_completion_tokens"] = 1
    return body
