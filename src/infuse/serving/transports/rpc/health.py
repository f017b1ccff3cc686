"""grpc.health.v1: the server by the empty name and by that of its service, and every model by its
own.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2

from infuse.errors import InfuseError, NotFoundError
from infuse.serving.transports.rpc.calls import metadata_of
from infuse.serving.transports.rpc.refusals import refuse
from infuse.serving.transports.rpc.schema import SERVICE
from infuse.serving.tuning import LOOK_SECONDS

if TYPE_CHECKING:
    from infuse.serving.engine.interface import Readiness
    from infuse.serving.transports.security import Guard

NAME: Final[str] = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
_SERVER: Final = ("", SERVICE)
_Request: Final = health_pb2.HealthCheckRequest
_Response: Final = health_pb2.HealthCheckResponse


class Health:
    """Serving is what is ready. Those who watch hear of a change within `every` seconds.

    Where callers need tokens, `guard` admits those who ask for a model.
    """

    def __init__(
        self, engine: Readiness, guard: Guard | None = None, every: float = LOOK_SECONDS
    ) -> None:
        self._engine = engine
        self._guard = guard if guard is not None and guard.with_tokens else None
        self._every = every

    def handlers(self) -> grpc.GenericRpcHandler:
        """What a server of grpc.aio takes."""
        forms = {
            "request_deserializer": _Request.FromString,
            "response_serializer": _Response.SerializeToString,
        }
        methods = {
            "Check": grpc.unary_unary_rpc_method_handler(self.check, **forms),
            "Watch": grpc.unary_stream_rpc_method_handler(self.watch, **forms),
        }
        return grpc.method_handlers_generic_handler(NAME, methods)

    async def check(
        self, request: health_pb2.HealthCheckRequest, context: grpc.aio.ServicerContext
    ) -> health_pb2.HealthCheckResponse:
        """The status of a service; NOT_FOUND for one that is not known."""
        await self._admit(request.service, context)
        status = self._status(request.service)
        if status == _Response.SERVICE_UNKNOWN:
            await context.abort(
                grpc.StatusCode.NOT_FOUND, f"there is no service or model '{request.service[:200]}'"
            )
        return _Response(status=status)

    async def watch(
        self, request: health_pb2.HealthCheckRequest, context: grpc.aio.ServicerContext
    ) -> None:
        """The status of a service now and whenever it changes, until the caller ends it."""
        await self._admit(request.service, context)
        last = None
        while True:
            status = self._status(request.service)
            if status != last:
                await context.write(_Response(status=status))
                last = status
            await asyncio.sleep(self._every)

    async def _admit(self, service: str, context: grpc.aio.ServicerContext) -> None:
        """Only go on if the caller may know of this: of the server everybody may."""
        if self._guard is None or service in _SERVER:
            return
        try:
            self._guard.admit(metadata_of(context), context.peer(), "infer", service)
        except InfuseError as error:
            await refuse(context, error)

    def _status(self, service: str) -> int:
        try:
            ready = (
                self._engine.ready() if service in _SERVER else self._engine.model_ready(service)
            )
        except NotFoundError:
            return int(_Response.SERVICE_UNKNOWN)
        return int(_Response.SERVING if ready else _Response.NOT_SERVING)
