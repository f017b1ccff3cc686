"""The calls of the protocol: each takes a message and gives one, thin over the engine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import grpc
import grpc.aio
from google.protobuf import json_format
from google.protobuf.message import Message

from infuse.errors import (
    AccessError,
    NotFoundError,
    RequestError,
    TooLargeError,
    UnsupportedRequestError,
)
from infuse.serving.config import ServerConfig
from infuse.serving.control.callers import ANYBODY, Caller, forbidden
from infuse.serving.control.telemetry.settings import log_settings, trace_settings
from infuse.serving.messages import (
    InferRequest,
    InferResponse,
    JsonObject,
    ModelMetadata,
    ServerMetadata,
)
from infuse.serving.transports.coders.memory import joined
from infuse.serving.transports.coders.pool import LARGE, MANY, Coders
from infuse.serving.transports.rpc import codec, large, wire
from infuse.serving.transports.rpc.loads import check_repository, read_load, unknown_parameter
from infuse.serving.transports.rpc.refusals import refuse, text_of
from infuse.serving.transports.rpc.requests import (
    IndexRequest,
    ModelRequest,
    RegionRequest,
    SettingsRequest,
    UnloadRequest,
)
from infuse.serving.transports.rpc.schema import POOL, SERVICE, message, parse
from infuse.serving.transports.rpc.streams import in_order
from infuse.serving.transports.security import Guard, Role
from infuse.serving.tuning import PIECE_BYTES

if TYPE_CHECKING:
    from infuse.serving.engine.interface import ServingEngine

_MODEL: Final = 2  # fields of RepositoryModelLoadRequest
_PARAMETERS: Final = 3
_Answer = Callable[[Message, Caller], Awaitable[Message]]
_ServerLive: Final = message("ServerLiveResponse")
_ServerReady: Final = message("ServerReadyResponse")
_ModelReady: Final = message("ModelReadyResponse")
_ServerMetadata: Final = message("ServerMetadataResponse")
_ModelMetadata: Final = message("ModelMetadataResponse")
_ModelConfig: Final = message("ModelConfigResponse")
_ModelStatistics: Final = message("ModelStatisticsResponse")
_RepositoryIndex: Final = message("RepositoryIndexResponse")
_Load: Final = message("RepositoryModelLoadResponse")
_Unload: Final = message("RepositoryModelUnloadResponse")
_Traces: Final = message("TraceSettingResponse")
_Logs: Final = message("LogSettingsResponse")


class Calls:
    """The calls of GRPCInferenceService, answered by an engine.

    `coders` read and write large messages; `guard` admits callers (none: everybody may call). Every
    call fails with the status of its error and its text; what a caller must not read of an error
    that nobody expected is logged instead.
    """

    def __init__(
        self,
        engine: ServingEngine,
        config: ServerConfig,
        coders: Coders,
        guard: Guard | None = None,
    ) -> None:
        self._engine = engine
        self._coders = coders
        self._config = config
        self._guard = guard

    def handlers(self) -> grpc.GenericRpcHandler:
        """What a server of grpc.aio takes: they read and write the bytes of messages."""
        unary: dict[str, tuple[Role, _Answer]] = {
            "ServerLive": ("health", self._server_live),
            "ServerReady": ("health", self._server_ready),
            "ModelReady": ("infer", self._model_ready),
            "ServerMetadata": ("infer", self._server_metadata),
            "ModelMetadata": ("infer", self._model_metadata),
            "ModelConfig": ("infer", self._model_config),
            "ModelStatistics": ("infer", self._model_statistics),
            "RepositoryIndex": ("watch", self._repository_index),
            "RepositoryModelUnload": ("admin", self._unload),
            "SystemSharedMemoryStatus": ("infer", _no_regions),
            "SystemSharedMemoryRegister": ("infer", _no_shared_memory),
            "SystemSharedMemoryUnregister": ("infer", _no_region),
            "CudaSharedMemoryStatus": ("infer", _no_regions),
            "CudaSharedMemoryRegister": ("infer", _no_shared_memory),
            "CudaSharedMemoryUnregister": ("infer", _no_region),
            "TraceSetting": ("settings", self._trace_setting),
            "LogSettings": ("settings", self._log_settings),
        }
        methods = {
            "ModelInfer": grpc.unary_unary_rpc_method_handler(self._infer),
            "ModelStreamInfer": grpc.stream_stream_rpc_method_handler(self._stream_infer),
            "RepositoryModelLoad": grpc.unary_unary_rpc_method_handler(self._load),
        }
        for name, (role, answer) in unary.items():
            kind = message(POOL.FindMethodByName(f"{SERVICE}.{name}").input_type.name)
            methods[name] = grpc.unary_unary_rpc_method_handler(
                partial(self._unary, kind, role, answer)
            )
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    # ------------------------------------------------------------------------------------ inference

    async def _infer(self, data: bytes, context: grpc.aio.ServicerContext) -> bytes:
        started = time.perf_counter_ns()
        try:
            request = await self._decoded(data, context)
            request.timeline.received = started
            self._complete(request, context)
            response = await self._engine.infer(request)
            answer = await self._encoded(request, response, streamed=False)
        except Exception as error:
            await refuse(context, error)
        request.timeline.sent = time.perf_counter_ns()
        return answer

    async def _stream_infer(
        self, requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext
    ) -> AsyncIterator[bytes]:
        """Requests of a stream run side by side; each has one answer, in the order of the
        requests.
        """
        async for answer in in_order(requests, partial(self._streamed, context)):
            yield answer

    async def _streamed(self, context: grpc.aio.ServicerContext, data: bytes) -> bytes:
        started = time.perf_counter_ns()
        id = ""
        try:
            request = await self._decoded(data, context)
            id = request.id
            request.timeline.received = started
            self._complete(request, context)
            response = await self._engine.infer(request)
            answer = await self._encoded(request, response, streamed=True)
        except Exception as error:
            return codec.encode_failure(text_of(error), id)
        request.timeline.sent = time.perf_counter_ns()
        return answer

    async def _decoded(self, data: bytes, context: grpc.aio.ServicerContext) -> InferRequest:
        """The request of a message, once its caller is admitted."""
        message = codec.InferMessage(data)
        if (door := self._door(context)) is not None:
            message.admit(door)
        if message.is_long(LARGE, MANY):
            return await self._coders.request(large.request, data)
        return message.decode()

    async def _encoded(
        self, request: InferRequest, response: InferResponse, streamed: bool
    ) -> bytes:
        """The message of an answer."""
        if codec.is_long_answer(request, response, MANY, LARGE):
            work = large.streamed_answer if streamed else large.answer
            return await self._coders.message(work, request, response)
        parts = (
            codec.streamed_parts_of(request, response)
            if streamed
            else codec.parts_of(request, response)
        )
        if sum(map(len, parts)) > PIECE_BYTES:
            return await asyncio.to_thread(joined, parts)
        return b"".join(parts)

    def _door(self, context: grpc.aio.ServicerContext) -> Callable[[str], Caller] | None:
        """Admits the caller to inference with a model, or raises; None: everybody may."""
        if self._guard is None or self._guard.open:
            return None
        return partial(self._guard.admit, metadata_of(context), context.peer(), "infer")

    def _complete(self, request: InferRequest, context: grpc.aio.ServicerContext) -> None:
        """Add what the call itself says: until when its answer is awaited, what it sticks by, and
        in which trace.
        """
        remaining = context.time_remaining()
        if remaining is not None:
            deadline = time.monotonic() + remaining
            request.deadline = (
                deadline if request.deadline is None else min(request.deadline, deadline)
            )
        sticky = self._engine.sticky_header(request.model)
        for key, value in context.invocation_metadata():
            if key == "traceparent":
                request.trace = value
            elif key == sticky:
                request.sticky = value

    # ---------------------------------------------------------------------------------- other calls

    async def _unary(
        self,
        kind: type[Message],
        role: Role,
        answer: _Answer,
        data: bytes,
        context: grpc.aio.ServicerContext,
    ) -> bytes:
        try:
            if len(data) > LARGE:
                raise TooLargeError(
                    f"the message has {len(data)} bytes, at most {LARGE} are taken here"
                )
            request = parse(kind, data)
            caller = self._admitted(context, *_asked(role, request))
            result: bytes = (await answer(request, caller)).SerializeToString()
        except Exception as error:
            await refuse(context, error)
        return result

    def _admitted(self, context: grpc.aio.ServicerContext, role: Role, model: str) -> Caller:
        """The caller; AccessError or OverloadError unless they may do this."""
        if role == "admin" and not self._config.security.admin_on_data_port:
            raise _admin_elsewhere()
        if self._guard is None:
            return ANYBODY
        return self._guard.admit(metadata_of(context), context.peer(), role, model)

    async def _server_live(self, _: Message, _caller: Caller) -> Message:
        return _ServerLive(live=self._engine.live())

    async def _server_ready(self, _: Message, _caller: Caller) -> Message:
        return _ServerReady(ready=self._engine.ready())

    async def _model_ready(self, request: ModelRequest, _: Caller) -> Message:
        try:
            return _ModelReady(ready=self._engine.model_ready(request.name, request.version))
        except NotFoundError:
            return _ModelReady(ready=False)

    async def _server_metadata(self, _: Message, _caller: Caller) -> Message:
        return _filled(_ServerMetadata(), self._engine.server_metadata())

    async def _model_metadata(self, request: ModelRequest, _: Caller) -> Message:
        return _filled(_ModelMetadata(), self._engine.model_metadata(request.name, request.version))

    async def _model_config(self, request: ModelRequest, _: Caller) -> Message:
        return _filled(
            _ModelConfig(), {"config": self._engine.model_config(request.name, request.version)}
        )

    async def _model_statistics(self, request: ModelRequest, _: Caller) -> Message:
        return _filled(
            _ModelStatistics(), self._engine.admin.statistics(request.name, request.version)
        )

    async def _repository_index(self, request: IndexRequest, _: Caller) -> Message:
        check_repository(request)
        return _filled(
            _RepositoryIndex(), {"models": await self._engine.admin.index(request.ready)}
        )

    async def _load(self, data: bytes, context: grpc.aio.ServicerContext) -> bytes:
        try:
            try:
                model = bytes(wire.split(data, _PARAMETERS, _MODEL).name).decode()
            except UnicodeDecodeError as error:
                raise RequestError("the name of the model is not UTF-8") from error
            caller = self._admitted(context, "admin", model)
            if len(data) > LARGE:
                config, files = await self._coders.load(large.load, data)
            else:
                config, files = read_load(data)
            await self._engine.admin.load(model, config, files, caller=caller)
        except Exception as error:
            await refuse(context, error)
        done: bytes = _Load().SerializeToString()
        return done

    async def _unload(self, request: UnloadRequest, caller: Caller) -> Message:
        check_repository(request)
        dependents = False
        for name, value in request.parameters.items():
            if name != "unload_dependents" or value.WhichOneof("parameter_choice") != "bool_param":
                raise unknown_parameter(name, "unload_dependents (true or false)")
            dependents = value.bool_param
        await self._engine.admin.unload(request.model_name, dependents, caller=caller)
        return _Unload()

    async def _trace_setting(self, request: SettingsRequest, _: Caller) -> Message:
        _check_unchanged(request, "traces are set in the server's configuration")
        settings = trace_settings(self._config.telemetry).items()
        values = {
            name: {"value": [value] if isinstance(value, str) else value}
            for name, value in settings
        }
        return _filled(_Traces(), {"settings": values})

    async def _log_settings(self, request: SettingsRequest, _: Caller) -> Message:
        _check_unchanged(request, "set the level over the admin port, POST /v2/logging")
        values = {
            name: _log_value(value) for name, value in log_settings(self._config.telemetry).items()
        }
        return _filled(_Logs(), {"settings": values})


async def _no_regions(request: RegionRequest, _: Caller) -> Message:
    """Which regions of shared memory are registered: never any."""
    if request.name:
        raise _no_such_region(request.name)
    return message(request.DESCRIPTOR.name.replace("Request", "Response"))()


async def _no_region(request: RegionRequest, caller: Caller) -> Message:
    """Unregister all regions (there are none), or one, which cannot be there."""
    return await _no_regions(request, caller)


async def _no_shared_memory(_: Message, _caller: Caller) -> Message:
    raise UnsupportedRequestError(
        "this server takes no shared memory from callers",
        hint="send and ask for tensors as raw contents",
    )


def _filled(result: Message, plain: JsonObject | ModelMetadata | ServerMetadata) -> Message:
    """A message with the fields of plain data; those that the protocol does not have are left
    out.
    """
    return json_format.ParseDict(plain, result, ignore_unknown_fields=True)


def _asked(role: Role, request: Message) -> tuple[Role, str]:
    """What a call asks for, and of which model; statistics of all models are for those who may see
    all.
    """
    fields = request.DESCRIPTOR.fields_by_name
    named = "model_name" if "model_name" in fields else "name"
    model = getattr(request, named) if named in fields else ""
    return ("watch" if "Statistics" in request.DESCRIPTOR.name and not model else role), model


def metadata_of(context: grpc.aio.ServicerContext) -> dict[str, str]:
    """What a call says besides its message, by name; RequestError for two tokens."""
    pairs = context.invocation_metadata()
    named = dict(pairs)
    if len(named) < len(pairs) and sum(name == "authorization" for name, _ in pairs) > 1:
        raise RequestError("the metadata authorization is there twice")
    return named


def _log_value(value: bool | int | str) -> JsonObject:
    """A setting of logs as the message has it."""
    if isinstance(value, bool):
        return {"bool_param": value}
    return {"uint32_param": value} if isinstance(value, int) else {"string_param": value}


def _check_unchanged(request: SettingsRequest, hint: str) -> None:
    """Settings are shown only."""
    for name, value in request.settings.items():
        if value.ListFields():
            raise UnsupportedRequestError(
                f"the setting '{name}' cannot be changed by this call", hint=hint
            )


def _no_such_region(name: str) -> NotFoundError:
    return NotFoundError(
        f"there is no region '{name}' of shared memory", hint="this server takes none from callers"
    )


def _admin_elsewhere() -> AccessError:
    hint = "use the admin port, or set `security.admin_on_data_port` in the server's configuration"
    return forbidden("this port does not change the server", hint)
