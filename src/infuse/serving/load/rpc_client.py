"""Requests over gRPC."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from infuse.errors import OptionError
from infuse.serving.load.encoding import METHODS, raw_message
from infuse.serving.load.remote import Call, Cause, Failure, RemoteModel, described, wrong_answer
from infuse.serving.messages import Tensor
from infuse.serving.transports.rpc.schema import message

MOST_CHANNELS: Final = 16
"""Connections; each carries many requests at once."""
_Response: Final = message("ModelInferResponse")
_MetadataRequest: Final = message("ModelMetadataRequest")
_MetadataResponse: Final = message("ModelMetadataResponse")
_MOST_BYTES: Final = 128 << 20  # of an answer, also unpacked
_OPTIONS: Final = [
    ("grpc.max_receive_message_length", _MOST_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
]
_CAUSES: Final[Mapping[str, Cause]] = {
    "NOT_FOUND": "unknown",
    "UNAUTHENTICATED": "access",
    "PERMISSION_DENIED": "access",
    "INVALID_ARGUMENT": "refused",
    "UNIMPLEMENTED": "refused",
    "DEADLINE_EXCEEDED": "timeout",
}


class RpcClient:
    """Channels to `address` (host:port), which requests take in turn; `seconds` is the longest that
    an answer may take.
    """

    def __init__(
        self,
        address: str,
        model: str,
        version: str,
        token: str,
        seconds: float,
        connections: int,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        if not (token.isascii() and token.isprintable()):
            raise OptionError("the token has characters that no header can carry")
        self._model, self._version, self._seconds = model, version, seconds
        self._metadata = (("authorization", f"Bearer {token}"),) if token else None
        self._channels = [
            grpc.aio.secure_channel(address, credentials, _OPTIONS)
            if credentials is not None
            else grpc.aio.insecure_channel(address, _OPTIONS)
            for _ in range(min(connections, MOST_CHANNELS))
        ]

    async def describe(self) -> RemoteModel:
        request = _MetadataRequest(name=self._model, version=self._version)
        ask = self._methods("ModelMetadata")[0]
        data = await self.ask(ask, request.SerializeToString())
        answer = _parsed(_MetadataResponse, data)
        plain = {
            kind: [{"name": p.name, "datatype": p.datatype, "shape": list(p.shape)} for p in ports]
            for kind, ports in (("inputs", answer.inputs), ("outputs", answer.outputs))
        }
        return described(self._model, plain)

    def call(self, model: RemoteModel, inputs: Sequence[Tensor]) -> Call:
        names = [port.name for port in model.outputs]
        body = raw_message(self._model, self._version, inputs, names)
        return _RpcCall(self, itertools.cycle(self._methods("ModelInfer")), model, body)

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()

    async def ask(self, method: grpc.aio.UnaryUnaryMultiCallable, data: bytes) -> bytes:
        """The answer's bytes; Failure where it is an error."""
        try:
            answer: bytes = await method(data, timeout=self._seconds, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            raise _failure(error.code().name, error.details() or "") from error
        return answer

    def _methods(self, name: str) -> list[grpc.aio.UnaryUnaryMultiCallable]:
        """A method on each channel, from bytes to bytes."""
        return [channel.unary_unary(f"{METHODS}/{name}") for channel in self._channels]


@dataclass(frozen=True)
class _RpcCall:
    client: RpcClient
    methods: itertools.cycle[grpc.aio.UnaryUnaryMultiCallable]
    model: RemoteModel
    body: bytes

    @property
    def size(self) -> int:
        return len(self.body)

    async def send(self) -> int:
        data = await self.client.ask(next(self.methods), self.body)
        answer = _parsed(_Response, data)
        raw = answer.raw_output_contents
        if raw and len(raw) != len(answer.outputs):
            raise wrong_answer(f"it has {len(raw)} contents for {len(answer.outputs)} outputs")
        sizes: list[int | None] = [None] * len(answer.outputs)
        if raw:
            sizes = [len(content) for content in raw]
        self.model.check([(o.name, o.datatype, o.shape, n) for o, n in zip(answer.outputs, sizes)])
        return len(data)


def _parsed(kind: type[Message], data: bytes) -> Message:
    """The message that an answer is; Failure where it is none."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise wrong_answer(f"it is none of the protocol: {error}") from error


def _failure(code: str, text: str) -> Failure:
    """The failure of a call with this status. Servers that are not there, and those that refuse
    work, both answer UNAVAILABLE.
    """
    cause = _CAUSES.get(code, "connection" if code == "UNAVAILABLE" else "server")
    return Failure("timeout" if cause == "timeout" else f"gRPC {code}", text, cause)
