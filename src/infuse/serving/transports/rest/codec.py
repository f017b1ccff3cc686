"""Between the bytes of HTTP and the engine's requests and responses: JSON and the binary tensor
extension.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isinf, prod
from typing import Final

import msgspec
import numpy as np

from infuse.errors import RequestError
from infuse.runtime.session import Array
from infuse.serving.datatypes import BYTES, NUMPY
from infuse.serving.messages import (
    InferRequest,
    InferResponse,
    Parameter,
    RequestedOutput,
    Tensor,
)
from infuse.serving.transports.elements import (
    MOST_DIMENSIONS,
    Buffer,
    are_long,
    classified,
    from_bytes,
    to_bytes,
)
from infuse.serving.transports.json_elements import from_json, to_json
from infuse.serving.transports.limits import (
    check_id,
    check_names,
    check_parameters,
    refuse_shared_memory,
)
from infuse.serving.transports.rest.wire import (
    Answer,
    Inference,
    InputTensor,
    LooseInference,
    LooseTensor,
    OutputTensor,
    Parameters,
    WantedOutput,
)

_NONE: Final[Mapping[str, Parameter]] = {}
_MOST_TEXT: Final = 19  # digits of a header's number
_MOST_TIMEOUT: Final = 1 << 62
_requests: Final = msgspec.json.Decoder(Inference)


@dataclass(frozen=True, slots=True)
class Signature:
    """What a raw binary request is read by: a model's only input, and whether its first dimension
    counts rows.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    batched: bool = False


def header_length(text: str | None) -> int | None:
    """The value of Inference-Header-Content-Length; none when it is not there, RequestError when it
    is no number.
    """
    if text is None:
        return None
    text = text.strip()
    if not (text.isascii() and text.isdigit()) or len(text) > _MOST_TEXT:
        raise RequestError(f"Inference-Header-Content-Length is not a length: {text[:40]!r}")
    return int(text)


def decode(body: Buffer, length: int | None, model: str, version: str = "") -> InferRequest:
    """A request for inference from its body, whose first `length` bytes are JSON (none: all of it).

    Tensors behind the JSON are views of `body`. RequestError says what is not of the protocol.
    """
    head = head_of(body, length)
    return request_of(read(head), body, len(head), model, version)


def head_of(body: Buffer, length: int | None) -> Buffer:
    """The JSON of a body; RequestError when the body is shorter than that."""
    if length is not None and length > len(body):
        raise RequestError(
            f"Inference-Header-Content-Length is {length}, but the body has {len(body)} bytes"
        )
    # A copy, which nobody changes while it is read: the body may lie where a worker can write.
    return body if length is None or length == len(body) else bytes(memoryview(body)[:length])


def texts_behind(message: Inference | LooseInference) -> int:
    """How many elements of BYTES a message says to be behind its JSON."""
    behind = [
        item for item in message.inputs if item.datatype == BYTES and item.data is msgspec.UNSET
    ]
    return sum(prod(item.shape[:MOST_DIMENSIONS]) for item in behind)


def request_of(
    message: Inference | LooseInference, body: Buffer, start: int, model: str, version: str
) -> InferRequest:
    """The request that a message is, whose binary tensors begin at `start` of the body."""
    _check_limits(message)
    inputs = [
        Tensor(item.name, item.datatype, _array(item, content), item.parameters or _NONE)
        for item, content in _contents(message.inputs, body, start)
    ]
    if len(inputs) > 1 and len({tensor.name for tensor in inputs}) != len(inputs):
        raise RequestError("two inputs have the same name")
    request = InferRequest(model, version, message.id or "", inputs, protocol="http")
    if message.outputs:
        request.outputs = _outputs(message.outputs)
    if message.parameters:
        _apply(request, message.parameters)
    return request


def _check_limits(message: Inference | LooseInference) -> None:
    """RequestError for more or longer parts of a message than are taken, before any is read."""
    outputs = message.outputs or ()
    check_id(message.id or "")
    check_names("input", message.inputs)
    check_names("output", outputs)
    owners = (message, *message.inputs, *outputs)
    check_parameters([owner.parameters for owner in owners if owner.parameters])


def _contents(
    items: Sequence[InputTensor | LooseTensor], body: Buffer, start: int
) -> Iterator[tuple[InputTensor | LooseTensor, memoryview | None]]:
    """Inputs with their bytes behind the JSON, from `start` on, one after another; None for one
    whose elements are JSON. RequestError where they are not all of the body.
    """
    rest = memoryview(body)[start:]
    for item in items:
        size = _binary_size(item)
        if size is None:
            yield item, None
            continue
        if size > len(rest):
            raise RequestError(
                f"its binary_data_size is {size}, but {len(rest)} bytes of the body are left",
                where=f"input {item.name!r}",
            )
        yield item, rest[:size]
        rest = rest[size:]
    if rest:
        raise RequestError(f"{len(rest)} bytes of the body belong to no input")


def _array(item: InputTensor | LooseTensor, content: memoryview | None) -> Array:
    """The elements of an input: those of its bytes, or of its JSON where it has none."""
    if content is not None:
        return from_bytes(item.name, item.datatype, item.shape, content)
    if item.data is msgspec.UNSET:
        raise RequestError("it has neither data nor binary_data_size", where=f"input {item.name!r}")
    return from_json(item.name, item.datatype, item.shape, item.data)


def read(head: Buffer) -> Inference | LooseInference:
    """The message that JSON is; RequestError when it is no request."""
    try:
        return _requests.decode(head)
    except msgspec.ValidationError as error:
        raise RequestError(f"the request is not one of the protocol: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        text = bytes(head)
        if b"NaN" not in text and b"Infinity" not in text:
            raise RequestError(f"the request is not JSON: {error}") from error
        return _loose(text)


def _loose(text: bytes) -> LooseInference:
    """A request with NaN or Infinity, by Python's own reader, which is ten times slower."""
    try:
        plain = json.loads(text, parse_float=_finite)
        if b"\\u" in text:
            json.dumps(plain, ensure_ascii=False).encode()  # halves of characters are no text
        return msgspec.convert(plain, LooseInference)
    except msgspec.ValidationError as error:
        raise RequestError(f"the request is not one of the protocol: {error}") from error
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the request is not JSON: {error}") from error


def _finite(text: str) -> float:
    value = float(text)
    if isinf(value):
        raise ValueError(f"{text[:40]} is out of range")
    return value


def _binary_size(item: InputTensor | LooseTensor) -> int | None:
    parameters = item.parameters
    if not parameters:
        return None
    refuse_shared_memory(parameters, f"input {item.name!r}")
    size = parameters.get("binary_data_size")
    if size is None:
        return None
    if type(size) is not int or size < 0:
        raise RequestError(
            f"its binary_data_size is not a size: {size!r}", where=f"input {item.name!r}"
        )
    if item.data is not msgspec.UNSET:
        raise RequestError("it has both data and binary_data_size", where=f"input {item.name!r}")
    return size


def _outputs(items: Sequence[WantedOutput]) -> list[RequestedOutput]:
    outputs = []
    for item in items:
        parameters = item.parameters or _NONE
        where = f"output {item.name!r}"
        refuse_shared_memory(parameters, where)
        if type(parameters.get("binary_data", False)) is not bool:
            raise RequestError("binary_data is neither true nor false", where=where)
        most = parameters.get("classification", 0)
        if type(most) is not int or most < 0:
            raise RequestError(f"classification is not a number of classes: {most!r}", where=where)
        outputs.append(RequestedOutput(item.name, parameters))
    if len({output.name for output in outputs}) != len(outputs):
        raise RequestError("an output is asked for twice")
    return outputs


def _apply(request: InferRequest, parameters: Parameters) -> None:
    """What parameters of a request mean to the engine."""
    request.parameters = parameters
    if type(parameters.get("binary_data_output", False)) is not bool:
        raise RequestError("the parameter binary_data_output is neither true nor false")
    request.priority = _natural(parameters, "priority")
    timeout = _natural(parameters, "timeout")
    if timeout:
        request.deadline = time.monotonic() + timeout / 1e6


def _natural(parameters: Parameters, name: str) -> int:
    value = parameters.get(name, 0)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _MOST_TEXT:
        value = int(value)
    if type(value) is not int or not 0 <= value <= _MOST_TIMEOUT:
        raise RequestError(f"the parameter {name} is not a whole number from 0: {value!r:.40}")
    return value


# ------------------------------------------------------------------------------------- raw requests


def decode_raw(body: Buffer, signature: Signature, model: str, version: str = "") -> InferRequest:
    """A raw binary request (Inference-Header-Content-Length: 0): the body is the model's only
    input, one row of it.

    BYTES have the shape [1] and the body as their element. All outputs are to be binary.
    """
    name, datatype, shape = signature.name, signature.datatype, list(signature.shape)
    if signature.batched and shape:
        shape[0] = 1
    if datatype == BYTES:
        if any(size not in (1, -1) for size in shape):
            raise RequestError(
                f"a raw binary request needs BYTES of the shape [1], not {shape}",
                where=f"input {name!r}",
            )
        array = np.empty([1] * len(shape), object)
        array[...] = bytes(body)
    else:
        array = from_bytes(name, datatype, _deduced(name, datatype, shape, len(body)), body)
    tensor = Tensor(name, datatype, array)
    return InferRequest(
        model, version, inputs=[tensor], parameters={"binary_data_output": True}, protocol="http"
    )


def _deduced(name: str, datatype: str, shape: list[int], size: int) -> list[int]:
    """The shape with its variable dimension found from the number of bytes."""
    free = [axis for axis, extent in enumerate(shape) if extent < 0]
    if len(free) > 1:
        raise RequestError(
            "a raw binary request needs an input with one variable dimension at most, it has "
            f"{len(free)}",
            where=f"input {name!r}",
            hint="send the shape in JSON, with Inference-Header-Content-Length",
        )
    if free:
        row = NUMPY[datatype].itemsize
        for extent in shape:
            row *= extent if extent >= 0 else 1
        if row == 0 or size % row:
            raise RequestError(
                f"{size} bytes are not whole number of {row} bytes", where=f"input {name!r}"
            )
        shape[free[0]] = size // row
    return shape


# ---------------------------------------------------------------------------------------- responses


def is_long(request: InferRequest, response: InferResponse, many: int, large: int) -> bool:
    """Whether more elements of an answer, or bytes of its texts, are to be written one by one, or
    classified.
    """
    binary = bool(request.parameters.get("binary_data_output", False))
    parameters = {output.name: output.parameters for output in request.outputs}
    written: list[Tensor] = []
    for tensor in response.outputs:
        asked = parameters.get(tensor.name, _NONE)
        copied = (
            asked.get("binary_data", binary)
            and not asked.get("classification", 0)
            and tensor.datatype != BYTES
        )
        if not copied:
            written.append(tensor)
    return are_long(written, many, large)


def encode(
    request: InferRequest, response: InferResponse
) -> tuple[int | None, list[bytes | memoryview]]:
    """An answer as the length of its JSON (none: all of it is) and the parts of its body.

    Outputs are binary as the request says: an output's own `binary_data` first, then
    `binary_data_output`. The parts are views of the outputs' arrays, which must stay as they are
    until they are sent.
    """
    binary = bool(request.parameters.get("binary_data_output", False))
    parameters = {output.name: output.parameters for output in request.outputs}
    items: list[OutputTensor] = []
    parts: list[bytes | memoryview] = [b""]
    extended = False
    for tensor in response.outputs:
        asked = parameters.get(tensor.name, _NONE)
        array, datatype = tensor.data, tensor.datatype
        most = asked.get("classification", 0)
        if most:
            array, datatype = (
                classified(tensor.name, array, datatype, int(most), tensor.labels),
                BYTES,
            )
        item = OutputTensor(tensor.name, datatype, array.shape)
        if tensor.parameters:
            item.parameters = dict(tensor.parameters)
        if asked.get("binary_data", binary):
            part = to_bytes(array, datatype)
            item.parameters = {**tensor.parameters, "binary_data_size": len(part)}
            parts.append(part)
            extended = True
        else:
            item.data = to_json(tensor.name, array, datatype)
        items.append(item)
    answer = Answer(response.model, items, response.version, response.id)
    if response.parameters:
        answer.parameters = dict(response.parameters)
    parts[0] = msgspec.json.encode(answer)
    return (len(parts[0]) if extended else None), parts
