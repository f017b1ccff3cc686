"""How long callers may take to send the messages of a call.

gRPC tells when a call has begun and when a message is whole, and nothing of what is between.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from types import TracebackType

import grpc
import grpc.aio

from infuse.errors import DeadlineError, InfuseError, OverloadError, RequestError
from infuse.serving.config import Limits

_Single = Callable[[AsyncIterator[bytes], grpc.aio.ServicerContext], Awaitable[bytes]]
_Stream = Callable[[AsyncIterator[bytes], grpc.aio.ServicerContext], AsyncIterator[bytes]]
_Refuse = Callable[[grpc.aio.ServicerContext, Exception], Awaitable[None]]


class Arrival:
    """Handlers of calls whose messages must come in time; `refuse` ends a call with the status of
    an error.

    The message of a call that has only one must be whole `body_seconds` after the call began. A
    stream may be silent for as long as it likes, but only so many at once as there may be
    connections: one that has waited for its next message for `body_seconds`, with no answer under
    way, is ended when that many are silent already.
    """

    def __init__(self, limits: Limits, refuse: _Refuse) -> None:
        self._seconds = limits.body_seconds
        self._refuse = refuse
        self.most_silent = limits.connections
        self.silent = 0
        """Streams that have been silent for longer than `body_seconds`."""

    def timed(self, handlers: grpc.GenericRpcHandler) -> grpc.GenericRpcHandler:
        """The same handlers, with messages that are waited for as long as that."""
        return _Timed(handlers, self._timed)

    def _timed(self, handler: grpc.RpcMethodHandler) -> grpc.RpcMethodHandler:
        forms = {
            "request_deserializer": handler.request_deserializer,
            "response_serializer": handler.response_serializer,
        }
        if handler.request_streaming:
            return grpc.stream_stream_rpc_method_handler(
                self._stream(handler.stream_stream), **forms
            )
        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(
                self._single(handler.unary_stream), **forms
            )
        return grpc.stream_unary_rpc_method_handler(self._single(handler.unary_unary), **forms)

    def _single(
        self, answer: Callable[[bytes, grpc.aio.ServicerContext], Awaitable[bytes]]
    ) -> _Single:
        """A handler that reads the one message of its call itself, so that it can stop waiting for
        it.
        """

        async def answered(_: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> bytes:
            try:
                with _Patience(self._seconds):
                    message = await context.read()
                if message is grpc.aio.EOF:
                    raise RequestError("the call has no message")
            except InfuseError as error:
                await self._refuse(context, error)
            return await answer(message, context)

        return answered

    def _stream(
        self, answer: Callable[[_Messages, grpc.aio.ServicerContext], AsyncIterator[bytes]]
    ) -> _Stream:
        async def answered(
            _: AsyncIterator[bytes], context: grpc.aio.ServicerContext
        ) -> AsyncIterator[bytes]:
            messages = _Messages(self, self._seconds, context)
            try:
                async with aclosing(answer(messages, context)) as answers:  # type: ignore[type-var]
                    async for each in answers:
                        messages.unanswered -= 1
                        yield each
            except OverloadError as error:
                await self._refuse(context, error)

        return answered


class _Timed(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Handlers of another, each changed when it is first asked for."""

    def __init__(
        self,
        handlers: grpc.GenericRpcHandler,
        change: Callable[[grpc.RpcMethodHandler], grpc.RpcMethodHandler],
    ) -> None:
        self._handlers = handlers
        self._change = change
        self._known: dict[str, grpc.RpcMethodHandler] = {}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        """The handler of a call, None for one that is not known."""
        timed = self._known.get(handler_call_details.method)
        if timed is None and (handler := self._handlers.service(handler_call_details)) is not None:
            timed = self._known[handler_call_details.method] = self._change(handler)
        return timed


class _Messages:
    """The messages of a stream."""

    def __init__(self, arrival: Arrival, seconds: float, context: grpc.aio.ServicerContext) -> None:
        self._arrival = arrival
        self._seconds = seconds
        self._context = context
        self._silent = False
        self.unanswered = 0

    def __aiter__(self) -> _Messages:
        return self

    async def __anext__(self) -> bytes:
        try:
            with _Patience(self._seconds, self._pardoned):
                message: bytes = await self._context.read()
        except DeadlineError:
            most = self._arrival.most_silent
            raise OverloadError(f"{most} streams are silent already") from None
        finally:
            self._arrival.silent -= self._silent
            self._silent = False
        if message is grpc.aio.EOF:
            raise StopAsyncIteration
        self.unanswered += 1
        return message

    def _pardoned(self) -> bool:
        """Whether the stream may wait on."""
        if self.unanswered or self._silent:
            return True
        self._silent = self._arrival.silent < self._arrival.most_silent
        self._arrival.silent += self._silent
        return self._silent


class _Patience:
    """Waits in its block for so many seconds, and again for as long as it is pardoned; then
    DeadlineError.
    """

    def __init__(self, seconds: float, pardoned: Callable[[], bool] | None = None) -> None:
        self._seconds = seconds
        self._pardoned = pardoned
        self._late = False

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._seconds, self._expire)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        if self._late and kind is asyncio.CancelledError:
            raise DeadlineError("the request did not arrive in time") from None

    def _expire(self) -> None:
        if self._pardoned is not None and self._pardoned():
            self._timer = self._loop.call_later(self._seconds, self._expire)
            return
        self._late = True
        if self._task is not None:
            self._task.cancel()
