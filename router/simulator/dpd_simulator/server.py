"""The HTTP side of an engine: vLLM's API, and the simulator's own routes under `/simulator`."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec
from aiohttp import web

from dpd_simulator import answers
from dpd_simulator.config import EngineConfig
from dpd_simulator.engine import Engine
from dpd_simulator.faults import Fault, FaultBoard, FaultKind
from dpd_simulator.generation import ChatAnswer, CompletionAnswer, Generation, Preparer, Prompt, answer_head
from dpd_simulator.protocol import (
    BadRequestError,
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    GenerationRequest,
    TokenizeRequest,
)
from dpd_simulator.sequence import GenerationError
from dpd_simulator.tokenizer import Vocabulary

_LARGEST_BODY_BYTES = 256 * 1024**2
_JSON = "application/json"

_completion_decoder = msgspec.json.Decoder(CompletionRequest)
_chat_decoder = msgspec.json.Decoder(ChatRequest)
_tokenize_decoder = msgspec.json.Decoder(TokenizeRequest)
_detokenize_decoder = msgspec.json.Decoder(DetokenizeRequest)
_faults_decoder = msgspec.json.Decoder(list[Fault])

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Host(Protocol):
    """What the server needs of the process that it runs in."""

    config: EngineConfig
    vocabulary: Vocabulary
    faults: FaultBoard
    requests: dict[str, int]

    @property
    def engine(self) -> Engine:
        """The running engine."""
        ...

    def die(self) -> None:
        """End as if killed."""
        ...

    async def add_fault(self, fault: Fault) -> None:
        """Switch a fault on."""
        ...

    async def remove_faults(self, kind: FaultKind | None = None) -> None:
        """Switch faults off."""
        ...


class Server:
    """Routes and handlers of one engine."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._preparer = Preparer(config=host.config, vocabulary=host.vocabulary)

    def application(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application(client_max_size=_LARGEST_BODY_BYTES, middlewares=[_errors])
        app.router.add_post("/v1/completions", self._completions)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/embeddings", self._embeddings)
        app.router.add_post("/tokenize", self._tokenize)
        app.router.add_post("/detokenize", self._detokenize)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/version", self._version)
        app.router.add_get("/simulator/state", self._state)
        app.router.add_post("/simulator/faults", self._add_faults)
        app.router.add_delete("/simulator/faults", self._remove_faults)
        app.router.add_post("/simulator/die", self._die)
        return app

    # Generation ------------------------------------------------------------------------------------------------------

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        await self._strike_on_arrival(request)
        body = _completion_decoder.decode(await request.read())
        prompts = self._preparer.completion(body)
        head = self._head(request, body, prefix="cmpl")
        answer = CompletionAnswer(
            config=self._host.config, vocabulary=self._host.vocabulary, request=body, head=head
        )
        return await self._generate(request, body, prompts, head, answer)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        await self._strike_on_arrival(request)
        body = _chat_decoder.decode(await request.read())
        prompts = self._preparer.chat(body)
        head = self._head(request, body, prefix="chatcmpl")
        answer = ChatAnswer(
            config=self._host.config, vocabulary=self._host.vocabulary, request=body, head=head
        )
        return await self._generate(request, body, prompts, head, answer)

    def _head(self, request: web.Request, body: GenerationRequest, *, prefix: str) -> answers.Head:
        return answer_head(
            self._host.config, body, prefix=prefix, request_id=request.headers.get("X-Request-Id")
        )

    async def _generate(
        self,
        request: web.Request,
        body: GenerationRequest,
        prompts: list[Prompt],
        head: answers.Head,
        answer: CompletionAnswer | ChatAnswer,
    ) -> web.StreamResponse:
        generation = Generation(
            engine=self._host.engine, request=body, prompts=prompts, answer_id=head.answer_id
        )
        try:
            if body.stream:
                return await _stream(request, answer, generation)
            return web.Response(body=answers.encode_json(await answer.whole(generation)), content_type=_JSON)
        finally:
            generation.close()

    async def _strike_on_arrival(self, request: web.Request) -> None:
        host = self._host
        self._count(request)
        if host.faults.strike(FaultKind.DIE_ON_REQUEST):
            host.die()
        if delay := host.faults.strike(FaultKind.DELAY):
            await host.engine.sleep(delay.seconds)
        if refusal := host.faults.strike(FaultKind.ERROR_STATUS):
            raise BadRequestError("injected by a fault", status=refusal.status)

    # Everything else of vLLM -----------------------------------------------------------------------------------------

    async def _models(self, _: web.Request) -> web.Response:
        config = self._host.config
        return _json(
            {
                "object": "list",
                "data": [
                    {
                        "id": name,
                        "object": "model",
                        "created": 0,
                        "owned_by": "vllm",
                        "root": config.model,
                        "parent": None,
                        "max_model_len": config.max_model_len,
                        "permission": [],
                    }
                    for name in config.served_model_names
                ],
            }
        )

    async def _embeddings(self, _: web.Request) -> web.Response:
        raise BadRequestError("The model does not support Embeddings API")

    async def _tokenize(self, request: web.Request) -> web.Response:
        self._count(request)
        body = _tokenize_decoder.decode(await request.read())
        self._preparer.check_model(body.model)
        vocabulary = self._host.vocabulary
        ids = body.ids(vocabulary)
        return _json(
            {
                "count": len(ids),
                "max_model_len": self._host.config.max_model_len,
                "tokens": ids,
                "token_strs": [vocabulary.token_piece(token_id) for token_id in ids]
                if body.return_token_strs
                else None,
            }
        )

    async def _detokenize(self, request: web.Request) -> web.Response:
        self._count(request)
        body = _detokenize_decoder.decode(await request.read())
        self._preparer.check_model(body.model)
        return _json({"prompt": self._host.vocabulary.decode(body.tokens)})

    def _count(self, request: web.Request) -> None:
        self._host.requests[request.path] = self._host.requests.get(request.path, 0) + 1

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(status=503 if self._host.engine.dead else 200)

    async def _version(self, _: web.Request) -> web.Response:
        return _json({"version": "0.25.1"})

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(
            body=self._host.engine.metrics.render(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    # The simulator's own ---------------------------------------------------------------------------------------------

    async def _state(self, _: web.Request) -> web.Response:
        return _json({"requests": self._host.requests, **self._host.engine.state()})

    async def _add_faults(self, request: web.Request) -> web.Response:
        for fault in _faults_decoder.decode(await request.read()):
            await self._host.add_fault(fault)
        return web.Response(status=204)

    async def _remove_faults(self, request: web.Request) -> web.Response:
        kind = request.query.get("kind")
        try:
            chosen = None if kind is None else FaultKind(kind)
        except ValueError:
            raise BadRequestError(f"no fault is called `{kind}`", parameter="kind") from None
        await self._host.remove_faults(chosen)
        return web.Response(status=204)

    async def _die(self, _: web.Request) -> web.Response:
        self._host.die()
        return web.Response(status=204)


async def _stream(
    request: web.Request, answer: CompletionAnswer | ChatAnswer, generation: Generation
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    try:
        # The status goes out before the first token exists, as in vLLM: 200 promises nothing.
        await response.prepare(request)
        try:
            async for event in answer.stream(generation):
                await response.write(event)
        except GenerationError as error:
            await response.write(answers.event(answers.error_body(str(error), status=500)))
        await response.write(answers.DONE)
        await response.write_eof()
    except ConnectionResetError:
        # The client has left; the caller aborts what is still generated for it.
        return response
    return response


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except BadRequestError as error:
        return _error(str(error), status=error.status, parameter=error.parameter)
    except msgspec.DecodeError as error:
        # Malformed JSON is 400 in vLLM as well as a field of a wrong type.
        return _error(str(error), status=400)
    except GenerationError as error:
        return _error(str(error), status=500)


def _json(body: Any) -> web.Response:
    return web.Response(body=answers.encode_json(body), content_type=_JSON)


def _error(message: str, *, status: int, parameter: str | None = None) -> web.Response:
    body = answers.error_body(message, status=status, parameter=parameter)
    return web.Response(body=answers.encode_json(body), content_type=_JSON, status=status)
