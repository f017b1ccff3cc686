"""What the server and a coder tell each other, and how requests and responses lie in memory between
them.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from math import prod
from typing import Final

import msgspec
import numpy as np

from infuse.errors import RuntimeFailure
from infuse.runtime.session import Array
from infuse.serving.datatypes import BYTES, NUMPY
from infuse.serving.messages import InferRequest, InferResponse, RequestedOutput, Tensor
from infuse.serving.transports.coders.memory import Memory, Place
from infuse.serving.transports.elements import Buffer, to_bytes
from infuse.serving.tuning import PIECE_ELEMENTS
from infuse.serving.workers.failures import Described

Values = dict[str, bool | int | float | str]
PLACE: Final = struct.Struct("<QQ")
"""A message through the socket: where the job, or what came of it, lies in memory."""
_texts: Final = msgspec.msgpack.Decoder(list[bytes])


class Flat(msgspec.Struct, array_like=True):
    """A tensor: its bytes at one place; those of BYTES as lists, at several."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    places: list[Place]
    parameters: Values
    labels: list[bytes]


class Request(msgspec.Struct, array_like=True):
    """An InferRequest; its deadline is a time of the machine's monotonic clock, which all processes
    share.
    """

    model: str
    version: str
    id: str
    inputs: list[Flat]
    outputs: list[tuple[str, Values]]
    parameters: Values
    priority: int
    deadline: float | None
    protocol: str


class Response(msgspec.Struct, array_like=True):
    """An InferResponse."""

    model: str
    version: str
    id: str
    outputs: list[Flat]
    parameters: Values


class Job(msgspec.Struct):
    """What a coder is to do: `work` names a function, as MODULE:NAME, that takes a job and both
    sides' memory.
    """

    work: str
    body: Place = (0, 0)
    length: int | None = None
    model: str = ""
    version: str = ""
    request: Request | None = None
    response: Response | None = None


class Done(msgspec.Struct):
    """What came of it: a request; or the parts of an answer, and the length of its JSON; or files
    by name.
    """

    error: Described | None = None
    request: Request | None = None
    length: int | None = None
    parts: list[Place] = []
    config: str = ""
    files: list[tuple[str, Place]] = []


def request_to(memory: Memory, request: InferRequest, tensors: bool = True) -> Request:
    """A request whose inputs (unless there are to be no `tensors`) are written to memory."""
    return Request(
        request.model,
        request.version,
        request.id,
        [_flat(memory, tensor) for tensor in request.inputs] if tensors else [],
        [(output.name, dict(output.parameters)) for output in request.outputs],
        dict(request.parameters),
        request.priority,
        request.deadline,
        request.protocol,
    )


def request_from(memory: Memory, told: Request) -> InferRequest:
    """The request that was written; its inputs are views of the memory, but for BYTES."""
    return InferRequest(
        told.model,
        told.version,
        told.id,
        [_tensor(memory, flat) for flat in told.inputs],
        [RequestedOutput(name, parameters) for name, parameters in told.outputs],
        told.parameters,
        told.priority,
        told.deadline,
        protocol=told.protocol,
    )


def response_to(memory: Memory, response: InferResponse) -> Response:
    """A response whose outputs are written to memory."""
    outputs = [_flat(memory, tensor) for tensor in response.outputs]
    return Response(
        response.model, response.version, response.id, outputs, dict(response.parameters)
    )


def pair_from(memory: Memory, job: Job) -> tuple[InferRequest, InferResponse]:
    """The request and the response of a job."""
    asked, told = job.request, job.response
    if asked is None or told is None:
        raise RuntimeFailure("a coder's job has no response")
    outputs = [_tensor(memory, flat) for flat in told.outputs]
    return request_from(memory, asked), InferResponse(
        told.model, told.version, told.id, outputs, told.parameters
    )


def load_to(memory: Memory, config: str, files: Mapping[str, Buffer]) -> Done:
    """A configuration, and files that are written to memory."""
    return Done(
        config=config, files=[(name, memory.put(content)) for name, content in files.items()]
    )


def _flat(memory: Memory, tensor: Tensor) -> Flat:
    array, datatype = tensor.data, tensor.datatype
    if datatype != BYTES:
        places = [memory.put(to_bytes(array, datatype))] if array.size else []
    else:
        elements = iter(array.reshape(-1))
        places = []
        while piece := list(islice(elements, PIECE_ELEMENTS)):
            places.append(memory.put(msgspec.msgpack.encode(piece)))
    return Flat(
        tensor.name, datatype, array.shape, places, dict(tensor.parameters), list(tensor.labels)
    )


def _tensor(memory: Memory, flat: Flat) -> Tensor:
    dtype = NUMPY.get(flat.datatype)
    count = prod(flat.shape)
    if dtype is None or count < 0:
        raise RuntimeFailure(
            f"a coder's message has a tensor of {flat.datatype!r} and the shape {flat.shape}"
        )
    if flat.datatype == BYTES:
        data = _elements(memory, flat.places, count)
    elif count:
        data = np.frombuffer(memory.view(flat.places[0]), dtype)
    else:
        data = np.empty(0, dtype)
    if data.size != count:
        raise RuntimeFailure("a coder's message gives a tensor another size than its shape")
    return Tensor(flat.name, flat.datatype, data.reshape(flat.shape), flat.parameters, flat.labels)


def _elements(memory: Memory, places: Sequence[Place], count: int) -> Array:
    data = np.empty(count, object)
    start = 0
    for place in places:
        piece = _texts.decode(memory.view(place))
        data[start : start + len(piece)] = piece
        start += len(piece)
        time.sleep(0)  # Python's lock goes to whoever waits for it
    if start != count:
        raise RuntimeFailure("a coder's message has fewer elements of BYTES than its shape")
    return data
