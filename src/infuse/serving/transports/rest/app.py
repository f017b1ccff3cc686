"""The ASGI applications of the data port and the admin port: thin over the engine."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from infuse.errors import InfuseError, NotFoundError, RequestError, TooLargeError, UnavailableError
from infuse.runtime.session import Array
from infuse.serving.config import ServerConfig
from infuse.serving.control.callers import ANYBODY, Caller, forbidden
from infuse.serving.messages import InferRequest
from infuse.serving.transports.coders.pool import LARGE, MANY, Coders
from infuse.serving.transports.elements import Buffer
from infuse.serving.transports.rest import codec, large
from infuse.serving.transports.rest.admin import CHANGES, INSIGHTS, SETTINGS
from infuse.serving.transports.rest.asgi import Application, Receive, Scope, Send
from infuse.serving.transports.rest.compression import accepted_coding, deflate, inflate
from infuse.serving.transports.rest.data import INFERENCE, SHARED_MEMORY, VIEWS
from infuse.serving.transports.rest.exchange import ABANDON
from infuse.serving.transports.rest.openapi import document
from infuse.serving.transports.rest.refusals import JSON, Headers, Refusal, refused
from infuse.serving.transports.rest.routes import Call, Route, Router, name_of, segments
from infuse.serving.transports.security import PAGE_HEADERS, Guard, Role, check_browser
from infuse.serving.tuning import PIECE_BYTES

if TYPE_CHECKING:
    from infuse.serving.engine.interface import ServingEngine

_MOST_INFLATION: Final = 1032  # times, by deflate
_BINARY: Final = (b"content-type", b"application/octet-stream")
_END: Final = b"/infer"
_log: Final = logging.getLogger("infuse.serving.rest")


class _Gone(Exception):
    """The caller does not wait any more."""


@dataclass(frozen=True, slots=True)
class Mount:
    """Another ASGI application, and who may see it."""

    application: Application
    role: Role


class _App:
    """What both applications do: admit callers, find routes, answer with JSON, and tell of
    errors.
    """

    def __init__(
        self,
        engine: ServingEngine,
        config: ServerConfig,
        guard: Guard | None,
        routes: Sequence[Route],
        coders: Coders | None,
    ) -> None:
        self.coders = coders or Coders(config.limits.request_bytes)
        self.engine = engine
        self.config = config
        self._guard = guard
        self._router = Router(routes)
        self._headers: Headers = []
        self._document = msgspec.json.encode(document(routes, engine.server_metadata()["version"]))
        self._mounts: Mapping[str, Mount] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, always."""
        if scope["type"] != "http":
            return
        try:
            await self._answer(scope, receive, send)
        except _Gone:
            return
        except asyncio.CancelledError:
            await _send(send, *refused(UnavailableError("the server is stopping")))
        except Exception as error:
            if not isinstance(error, InfuseError):
                _log.error("a request failed", exc_info=error)
            status, headers, body = refused(error)
            await _send(send, status, headers + self._headers, body)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = _path(scope)
        headers = _headers(scope)
        mount = self._mounts.get(segments(path)[0]) if self._mounts else None
        if mount is not None:
            self._admit(scope, headers, mount.role)
            await mount.application(scope, receive, send)
            return
        if path == b"/openapi.json" and scope["method"] in ("GET", "HEAD"):
            self._admit(scope, headers, "infer")
            await _send(send, 200, [JSON, *self._headers], self._document)
            return
        route, names = self._router.find(scope["method"], path)
        if route.handler is None:
            await self._infer(
                scope, receive, send, names["model_name"], names.get("model_version", "")
            )
            return
        caller = self._admit(scope, headers, route.role, names.get("model_name", ""))
        body = await _body(receive, self.config)
        if "content-encoding" in headers:
            body = await self._inflated(body, headers["content-encoding"])
        result = await route.handler(
            Call(self.engine, self.config, names, body, caller, self.coders)
        )
        answer = b"" if result is None else msgspec.json.encode(result)
        await _send(send, 200, [JSON, *self._headers], answer)

    async def _infer(
        self, scope: Scope, receive: Receive, send: Send, model: str, version: str
    ) -> None:
        """Answer a request for inference, however its path is spelled."""
        raise NotFoundError("inference is on the data port")

    async def _inflated(self, body: Buffer, coding: str) -> Buffer:
        most = self.config.limits.request_bytes
        if len(body) * _MOST_INFLATION > PIECE_BYTES:
            return await asyncio.to_thread(inflate, body, coding, most)
        return inflate(body, coding, most)

    def _admit(
        self, scope: Scope, headers: Mapping[str, str], role: Role, model: str = ""
    ) -> Caller:
        """The caller; AccessError or OverloadError unless they may do this."""
        check_browser(self.config, scope["method"], headers)
        if self._guard is None:
            return ANYBODY
        client = scope.get("client")
        return self._guard.admit(headers, client[0] if client else "", role, model)


class DataApp(_App):
    """The data port: inference, and what one may look at.

    Routes of the admin port are answered here only with `security.admin_on_data_port`. `coders`
    read and write large messages; without any, the application has its own.
    """

    def __init__(
        self,
        engine: ServingEngine,
        config: ServerConfig,
        guard: Guard | None = None,
        *,
        coders: Coders | None = None,
    ) -> None:
        views = [*VIEWS, *INFERENCE, *SETTINGS]
        own = [*views, *INSIGHTS, *CHANGES] if config.security.admin_on_data_port else views
        super().__init__(engine, config, guard, own, coders)
        self._router = Router([*own, *SHARED_MEMORY])
        self._elsewhere = Router(
            [] if config.security.admin_on_data_port else [*INSIGHTS, *CHANGES]
        )

    def receive_buffer(self, scope: Scope, size: int) -> Array | None:
        """Memory for so many bytes of the body of a request that arrives; None: there is none of
        its own for it.
        """
        named = _inferred(scope["method"], _path(scope))
        if named is None or any(name == b"content-encoding" for name, _ in scope["headers"]):
            return None
        return self.engine.receive_buffer(*named, size)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = _path(scope)
        named = _inferred(scope["method"], path)
        if named is not None:
            await self._infer(scope, receive, send, *named)
            return
        try:
            await super()._answer(scope, receive, send)
        except InfuseError as error:
            raise self._explained(scope, path, error) from error

    def _explained(self, scope: Scope, path: bytes, error: InfuseError) -> InfuseError:
        """The error of a request that belongs to the other port says so."""
        try:
            self._elsewhere.find(scope["method"], path)
        except InfuseError:
            return error
        hint = (
            "use the admin port, or set security.admin_on_data_port in the server's configuration"
        )
        if isinstance(error, Refusal):
            error.hint = hint
            return error
        return forbidden("this port does not change the server", hint)

    async def _infer(
        self, scope: Scope, receive: Receive, send: Send, model: str, version: str
    ) -> None:
        headers = _headers(scope)
        self._admit(scope, headers, "infer", model)
        body = await _body(receive, self.config)
        received = time.perf_counter_ns()
        scope[ABANDON] = True
        if "content-encoding" in headers:
            body = await self._inflated(body, headers["content-encoding"])
        try:
            request = await self._decoded(
                body, headers.get("inference-header-content-length"), model, version
            )
        except RequestError:
            self.engine.model_ready(model, version)  # that there is no such model is told first
            raise
        self._complete(request, headers, received)
        response = await self.engine.infer(request)
        parts: Sequence[Buffer]
        if codec.is_long(request, response, MANY, LARGE):
            length, parts = await self.coders.answer(large.answer, request, response)
        else:
            length, parts = codec.encode(request, response)
        answer = [JSON if length is None else _BINARY]
        if length is not None:
            answer.append((b"inference-header-content-length", b"%d" % length))
        answer.append((b"vary", b"accept-encoding"))
        coding = accepted_coding(headers["accept-encoding"]) if "accept-encoding" in headers else ""
        if coding:
            answer.append((b"content-encoding", coding.encode()))
            aside = sum(map(len, parts)) > PIECE_BYTES
            parts = [
                await asyncio.to_thread(deflate, parts, coding) if aside else deflate(parts, coding)
            ]
        request.timeline.sent = time.perf_counter_ns()
        await _send(send, 200, answer, parts[0], parts[1:])

    async def _decoded(
        self, body: Buffer, length: str | None, model: str, version: str
    ) -> InferRequest:
        size = codec.header_length(length)
        if size == 0:
            return codec.decode_raw(body, self._signature(model, version), model, version)
        if (len(body) if size is None else size) <= LARGE:
            head = codec.head_of(body, size)
            message = codec.read(head)
            if codec.texts_behind(message) <= MANY:
                return codec.request_of(message, body, len(head), model, version)
        return await self.coders.request(large.request, body, size, model, version)

    def _complete(self, request: InferRequest, headers: Mapping[str, str], received: int) -> None:
        """Adds what the headers say."""
        request.timeline.received = received
        request.trace = headers.get("traceparent", "")
        sticky = self.engine.sticky_header(request.model)
        request.sticky = headers.get(sticky, "") if sticky else ""

    def _signature(self, model: str, version: str) -> codec.Signature:
        """What a raw binary request is read by."""
        inputs = self.engine.model_metadata(model, version)["inputs"]
        if len(inputs) != 1:
            raise RequestError(
                f"a raw binary request needs a model with one input, {model!r} has {len(inputs)}",
                hint="describe the inputs in JSON, with Inference-Header-Content-Length",
            )
        most = self.engine.model_config(model, version).get("max_batch_size", 0)
        item = inputs[0]
        batched = isinstance(most, int) and most > 0
        return codec.Signature(item["name"], item["datatype"], tuple(item["shape"]), batched)


class AdminApp(_App):
    """The admin port: all but inference. `mounts`: applications by the first part of their path
    (`metrics`).

    `coders` read large messages; without any, the application has its own.
    """

    def __init__(
        self,
        engine: ServingEngine,
        config: ServerConfig,
        guard: Guard | None = None,
        mounts: Mapping[str, Mount] | None = None,
        *,
        coders: Coders | None = None,
    ) -> None:
        routes = [*VIEWS, *SETTINGS, *INSIGHTS, *CHANGES]
        super().__init__(engine, config, guard, routes, coders)
        self._router = Router([*routes, *SHARED_MEMORY])
        self._mounts = mounts or {}
        self._headers = [(name.encode(), value.encode()) for name, value in PAGE_HEADERS.items()]


def _inferred(method: str, path: bytes) -> tuple[str, str] | None:
    """The model and version that a request is for inference with; None: it is for something
    else.
    """
    if path.endswith(_END) and method == "POST":
        parts = path.split(b"/")
        if len(parts) == 5 and parts[2] == b"models" and parts[1] == b"v2":
            return name_of(parts[3]), ""
        if (
            len(parts) == 7
            and parts[2] == b"models"
            and parts[1] == b"v2"
            and parts[4] == b"versions"
        ):
            return name_of(parts[3]), name_of(parts[5])
    return None


def _path(scope: Scope) -> bytes:
    raw = scope.get("raw_path")
    return raw if isinstance(raw, bytes) else scope["path"].encode()


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


async def _body(receive: Receive, config: ServerConfig) -> Buffer:
    """All of the request's body."""
    message = await receive()
    if message["type"] != "http.request":
        raise _Gone
    first: Buffer = message.get("body", b"")
    if not message.get("more_body", False):
        return first
    body = bytearray(first)
    while message.get("more_body", False):
        message = await receive()
        if message["type"] != "http.request":
            raise _Gone
        body += message.get("body", b"")
        if len(body) > config.limits.request_bytes:
            raise TooLargeError(
                f"the body has more than the {config.limits.request_bytes} bytes that are taken"
            )
    return body


async def _send(
    send: Send, status: int, headers: Headers, body: Buffer, parts: Sequence[Buffer] = ()
) -> None:
    length = len(body) + sum(map(len, parts))
    named = [*headers, (b"content-length", b"%d" % length)]
    await send({"type": "http.response.start", "status": status, "headers": named})
    for part in parts:
        await _send_part(send, body, more=True)
        body = part
    await _send_part(send, body, more=False)


async def _send_part(send: Send, part: Buffer, *, more: bool) -> None:
    """Part of a body, which is handed over in pieces where it is long: sockets of TLS, and
    asyncio's, copy it.
    """
    start = 0
    while len(part) - start > PIECE_BYTES:
        await send(
            {
                "type": "http.response.body",
                "body": memoryview(part)[start : start + PIECE_BYTES],
                "more_body": True,
            }
        )
        start += PIECE_BYTES
    rest = memoryview(part)[start:] if start else part
    await send({"type": "http.response.body", "body": rest, "more_body": more})
