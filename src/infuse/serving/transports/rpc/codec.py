"""Requests and responses for inference: from and to the bytes of gRPC messages.

Raw contents of large requests are views of the message, never copied; responses are joined in one
go.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Final

from google.protobuf.message import Message as ProtobufMessage

from infuse.errors import RequestError
from infuse.serving.control.callers import Caller
from infuse.serving.datatypes import BYTES
from infuse.serving.messages import InferRequest, InferResponse, Parameter, RequestedOutput, Tensor
from infuse.serving.transports.elements import (
    MOST_DIMENSIONS,
    are_long,
    classified,
    from_bytes,
    to_bytes,
)
from infuse.serving.transports.limits import (
    MOST_PARAMETERS,
    check_id,
    check_names,
    check_parameters,
    refuse_shared_memory,
)
from infuse.serving.transports.rpc import wire
from infuse.serving.transports.rpc.contents import from_contents
from infuse.serving.transports.rpc.requests import (
    InferenceRequest,
    InputTensor,
    OutputTensor,
    Parameterized,
    Value,
)
from infuse.serving.transports.rpc.schema import message, parse

_Request: Final = message("ModelInferRequest")
_Response: Final = message("ModelInferResponse")
_StreamResponse: Final = message("ModelStreamInferResponse")
_RAW_INPUTS: Final = 7
_RAW_OUTPUTS: Final = 6
_ID: Final = 3
_INFER_RESPONSE: Final = 2
_LARGE: Final = (
    1 << 14
)  # bytes; below, protobuf reads a message faster than its raw contents are kept out of it
_CLASSES: Final = "classification"
_MOST: Final = 1 << 62  # of a priority or a timeout


class InferMessage:
    """A ModelInferRequest message, of which nothing is read but where its fields are.

    RequestError: it is cut off, or has too many fields.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._split = wire.split(data, _RAW_INPUTS) if len(data) >= _LARGE else None
        self._request: InferenceRequest | None = None

    def admit(self, door: Callable[[str], Caller]) -> None:
        """Call `door` with the name of the model."""
        if self._split is None:
            door(self._parsed().model_name)
            return
        try:
            name = bytes(self._split.name).decode()
        except UnicodeDecodeError as error:
            raise RequestError("the name of the model is not UTF-8") from error
        door(name)

    def is_long(self, size: int, many: int) -> bool:
        """Whether it has more than so many bytes besides raw contents, or so many elements of BYTES
        in those.
        """
        if self._split is None:
            return False
        if self._split.size > size:
            return True
        texts = [
            tensor.shape[:MOST_DIMENSIONS]
            for tensor in self._parsed().inputs
            if tensor.datatype == BYTES
        ]
        return bool(self._split.fields) and sum(map(prod, texts)) > many

    def decode(self) -> InferRequest:
        """The request. Its deadline is that of its `timeout` parameter (µs).

        RequestError: it is no message, contents do not fit their shapes, raw and typed contents are
        mixed, a name occurs twice. UnsupportedRequestError: shared memory.
        """
        request = self._parsed()
        check_id(request.id)
        inputs, outputs = request.inputs, request.outputs
        check_names("input", inputs)
        check_names("output", outputs)
        every: list[Parameterized] = [request, *inputs, *outputs]
        owners = [owner for owner in every if owner.parameters]
        if owners and sum(len(owner.parameters) for owner in owners) > MOST_PARAMETERS:
            raise RequestError(f"the request has more than {MOST_PARAMETERS} parameters")
        parameters = decode_parameters(request.parameters) if request.parameters else {}
        raw = request.raw_input_contents if self._split is None else self._split.fields
        result = InferRequest(
            request.model_name,
            request.model_version,
            request.id,
            _inputs(inputs, raw),
            _outputs(outputs),
            parameters,
            protocol="grpc",
        )
        if owners:
            parts: list[Tensor | RequestedOutput] = [*result.inputs, *result.outputs]
            check_parameters([parameters, *(part.parameters for part in parts)])
        if parameters:
            result.priority = _natural(parameters, "priority")
            timeout = _natural(parameters, "timeout")
            result.deadline = time.monotonic() + timeout * 1e-6 if timeout else None
        return result

    def _parsed(self) -> InferenceRequest:
        if self._request is None:
            data = self._data if self._split is None else b"".join(self._split.rest)
            self._request = parse(_Request, data)
        return self._request


def decode(data: bytes) -> InferRequest:
    """The request that a ModelInferRequest message is, as `InferMessage.decode`."""
    return InferMessage(data).decode()


def decode_parameters(parameters: Mapping[str, Value]) -> dict[str, Parameter]:
    """The values of a map of InferParameter; RequestError where one is empty."""
    return {name: _parameter(name, value) for name, value in parameters.items()}


def encode(request: InferRequest, response: InferResponse) -> bytes:
    """A ModelInferResponse message; outputs that `classification` was asked for are their best
    classes.
    """
    return b"".join(parts_of(request, response))


def encode_streamed(request: InferRequest, response: InferResponse) -> bytes:
    """A ModelStreamInferResponse message, marked as the last (and only) one of its request."""
    return b"".join(streamed_parts_of(request, response))


def streamed_parts_of(request: InferRequest, response: InferResponse) -> list[bytes | memoryview]:
    """The message of `encode_streamed` in pieces."""
    parts = [*parts_of(request, response), _FINAL]
    return [wire.field(_INFER_RESPONSE, sum(map(len, parts))), *parts]


def encode_failure(text: str, id: str) -> bytes:
    """A ModelStreamInferResponse message for the failure of the request `id`."""
    result = _StreamResponse(error_message=text)
    result.infer_response.id = id
    data: bytes = result.SerializeToString() + wire.field(_INFER_RESPONSE, len(_FINAL)) + _FINAL
    return data


def _final() -> bytes:
    result = _Response()
    result.parameters["triton_final_response"].bool_param = True
    data: bytes = result.SerializeToString()
    return data


_FINAL: Final = _final()


# ----------------------------------------------------------------------------------------- requests


def _inputs(tensors: Sequence[InputTensor], raw: Sequence[bytes | memoryview]) -> list[Tensor]:
    result = []
    if raw and len(raw) != len(tensors):
        _refuse_shared_memory(tensors)
        raise RequestError(
            f"there are {len(raw)} raw contents for {len(tensors)} inputs",
            hint="send one for each input",
        )
    for index, tensor in enumerate(tensors):
        name = tensor.name
        parameters = decode_parameters(tensor.parameters) if tensor.parameters else {}
        if parameters:
            refuse_shared_memory(parameters, f"input {name!r}")
        if not raw:
            data = from_contents(name, tensor.datatype, tuple(tensor.shape), tensor.contents)
        elif tensor.HasField("contents") and tensor.contents.ListFields():
            raise RequestError(
                "it has typed contents, but the request has raw ones too", where=f"input {name!r}"
            )
        else:
            data = from_bytes(name, tensor.datatype, tuple(tensor.shape), raw[index])
        result.append(Tensor(name, tensor.datatype, data, parameters))
    _check_names("input", result)
    return result


def _outputs(outputs: Sequence[OutputTensor]) -> list[RequestedOutput]:
    result = []
    for output in outputs:
        parameters = decode_parameters(output.parameters) if output.parameters else {}
        if parameters:
            where = f"output {output.name!r}"
            refuse_shared_memory(parameters, where)
            _natural(parameters, _CLASSES, where)
        result.append(RequestedOutput(output.name, parameters))
    _check_names("output", result)
    return result


def _check_names(what: str, parts: Sequence[Tensor] | Sequence[RequestedOutput]) -> None:
    if len(parts) > 1 and len({part.name for part in parts}) < len(parts):
        raise RequestError(f"two of the {what}s have the same name")


def _parameter(name: str, value: Value) -> Parameter:
    choice = value.WhichOneof("parameter_choice")
    if choice is None:
        raise RequestError(f"the parameter '{name}' has no value")
    result: Parameter = getattr(value, choice)
    return result


def _natural(parameters: Mapping[str, Parameter], name: str, where: str | None = None) -> int:
    value = parameters.get(name, 0)
    if type(value) is not int or not 0 <= value <= _MOST:
        raise RequestError(
            f"the parameter {name} is not a whole number from 0: {value!r:.40}", where=where
        )
    return value


def _refuse_shared_memory(tensors: Sequence[InputTensor]) -> None:
    """Inputs in shared memory have no raw contents."""
    for tensor in tensors:
        refuse_shared_memory(tensor.parameters, f"input {tensor.name!r}")


# ---------------------------------------------------------------------------------------- responses


def is_long_answer(request: InferRequest, response: InferResponse, many: int, large: int) -> bool:
    """Whether more elements of an answer, or bytes of its texts, are to be written one by one, or
    classified.
    """
    classes = {output.name for output in request.outputs if output.parameters.get(_CLASSES, 0)}
    outputs = [o for o in response.outputs if o.datatype == BYTES or o.name in classes]
    return are_long(outputs, many, large)


def parts_of(request: InferRequest, response: InferResponse) -> list[bytes | memoryview]:
    """The message of `encode` in pieces, some of which are views of the outputs' arrays."""
    outputs = response.outputs
    if any(output.parameters for output in request.outputs):
        outputs = _classified(request, outputs)
    described = tuple([(o.name, o.datatype, o.data.shape) for o in outputs])
    parts: list[bytes | memoryview]
    if response.parameters or any(o.parameters for o in outputs):
        parts = [_described_with(response, outputs)]
    else:
        parts = [_described(response.model, response.version, described)]
    if response.id:
        id = response.id.encode()
        parts += (wire.field(_ID, len(id)), id)
    for output in outputs:
        data = to_bytes(output.data, output.datatype)
        parts += (wire.field(_RAW_OUTPUTS, len(data)), data)
    return parts


def _classified(request: InferRequest, outputs: Sequence[Tensor]) -> list[Tensor]:
    """Outputs, those of them as their best classes for which a number of classes was asked."""
    classes = {output.name: output.parameters.get(_CLASSES, 0) for output in request.outputs}
    result = []
    for output in outputs:
        most = classes.get(output.name)
        if isinstance(most, int) and most:
            best = classified(output.name, output.data, output.datatype, most, output.labels)
            output = Tensor(output.name, BYTES, best, output.parameters)
        result.append(output)
    return result


@lru_cache(maxsize=1024)
def _described(
    model: str, version: str, outputs: tuple[tuple[str, str, tuple[int, ...]], ...]
) -> bytes:
    """All of a response that is the same for every request of these shapes."""
    result = _Response(model_name=model, model_version=version)
    for name, datatype, shape in outputs:
        result.outputs.add(name=name, datatype=datatype, shape=shape)
    data: bytes = result.SerializeToString()
    return data


def _described_with(response: InferResponse, outputs: Sequence[Tensor]) -> bytes:
    """As `_described`, with the parameters of the response and of its outputs."""
    result = _Response(model_name=response.model, model_version=response.version)
    _set_parameters(result.parameters, response.parameters)
    for output in outputs:
        described = result.outputs.add(
            name=output.name, datatype=output.datatype, shape=output.data.shape
        )
        _set_parameters(described.parameters, output.parameters)
    data: bytes = result.SerializeToString()
    return data


def _set_parameters(target: ProtobufMessage, parameters: Mapping[str, Parameter]) -> None:
    for name, value in parameters.items():
        if isinstance(value, bool):
            target[name].bool_param = value
        elif isinstance(value, int):
            target[name].int64_param = value
        elif isinstance(value, float):
            target[name].double_param = value
        else:
            target[name].string_param = value
