"""Requests over HTTP."""

from __future__ import annotations

import json
import ssl
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from infuse.serving.load.encoding import HEADER, binary_body, json_body
from infuse.serving.load.remote import Call, RemoteModel, described, wrong_answer
from infuse.serving.load.session import MOST_BYTES, Session
from infuse.serving.messages import Tensor

_MOST_METADATA: Final = 4 << 20  # bytes


class _Output(msgspec.Struct):
    """An output of an answer. Some servers write null for what they leave out."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    parameters: dict[str, Any] | None = None
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _LooseOutput(_Output):
    """An output whose elements are Python's objects already."""

    data: Any = msgspec.UNSET


class _Answer(msgspec.Struct):
    outputs: list[_Output]


class _LooseAnswer(msgspec.Struct):
    """An answer that holds NaN or Infinity, which strict JSON does not know."""

    outputs: list[_LooseOutput]


_answers: Final = msgspec.json.Decoder(_Answer)


class HttpClient:
    """Connections that stay open, at most `connections`; a request waits for a free one.

    `url` may have a path before `/v2`; `seconds` is the longest that an answer may take.
    """

    def __init__(
        self,
        url: str,
        model: str,
        version: str,
        token: str,
        seconds: float,
        connections: int,
        json_tensors: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._model, self._json = model, json_tensors
        self._path = f"/v2/models/{urllib.parse.quote(model, safe='')}"
        if version:
            self._path += f"/versions/{urllib.parse.quote(version, safe='')}"
        self._session = Session(url, token, seconds, connections, tls)

    async def describe(self) -> RemoteModel:
        answer = await self._session.ask(self._path, most=_MOST_METADATA)
        try:
            return described(self._model, msgspec.json.decode(answer.body))
        except (msgspec.DecodeError, RecursionError) as error:
            raise wrong_answer(f"its metadata are not JSON: {error}") from error

    def call(self, model: RemoteModel, inputs: Sequence[Tensor]) -> Call:
        names = [port.name for port in model.outputs]
        body, headers = (json_body if self._json else binary_body)(inputs, names)
        return _HttpCall(self._session, f"{self._path}/infer", model, body, headers)

    async def close(self) -> None:
        await self._session.close()


@dataclass(frozen=True)
class _HttpCall:
    session: Session
    path: str
    model: RemoteModel
    body: bytes
    headers: Mapping[str, str]

    @property
    def size(self) -> int:
        return len(self.body)

    async def send(self) -> int:
        answer = await self.session.ask(self.path, self.body, self.headers, keep=_head_size)
        self._check(answer.body, answer.size)
        return answer.size

    def _check(self, head: bytes, size: int) -> None:
        """Failure unless an answer of so many bytes has the declared outputs, each with its
        elements.
        """
        if len(head) == MOST_BYTES < size:
            raise wrong_answer(f"its JSON has more than {MOST_BYTES} bytes")
        outputs = _outputs(head)
        sizes = list(map(_binary_size, outputs))
        for output, count in zip(outputs, sizes):
            if count is None and output.data is msgspec.UNSET:
                raise wrong_answer(f"output {output.name!r} has no elements")
        if sum(count or 0 for count in sizes) != size - len(head):
            raise wrong_answer(f"it has {size - len(head)} bytes of binary tensors, not {sizes}")
        self.model.check([(o.name, o.datatype, o.shape, n) for o, n in zip(outputs, sizes)])


def _head_size(headers: Mapping[str, str]) -> int:
    """The bytes of an answer's JSON, which alone is kept."""
    length = headers.get(HEADER, "")
    return (
        int(length) if length.isascii() and length.isdecimal() and len(length) < 20 else MOST_BYTES
    )


def _binary_size(output: _Output) -> int | None:
    """The bytes of an output behind the JSON, None where its elements are in it."""
    size = output.parameters.get("binary_data_size") if output.parameters else None
    if size is not None and not isinstance(size, int):
        raise wrong_answer(f"output {output.name!r} has a binary_data_size that is not a number")
    return size


def _outputs(head: bytes) -> Sequence[_Output]:
    """The outputs of an answer's JSON; Failure where it is none of the protocol."""
    try:
        try:
            return _answers.decode(head).outputs
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            return msgspec.convert(json.loads(head), _LooseAnswer).outputs
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
        raise wrong_answer(f"it is none of the protocol: {error}") from error
