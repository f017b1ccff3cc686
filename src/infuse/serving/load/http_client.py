"""Requests over HTTP."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.parse
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import aiohttp
import msgspec

from infuse.serving.load.encoding import HEADER, binary_body, json_body
from infuse.serving.load.remote import Call, Cause, Failure, RemoteModel, described, wrong_answer
from infuse.serving.messages import Tensor

_MOST_TEXT: Final = 300  # characters of a refusal
_CAUSES: Final[Mapping[int, Cause]] = {
    HTTPStatus.NOT_FOUND: "unknown",
    HTTPStatus.UNAUTHORIZED: "access",
    HTTPStatus.FORBIDDEN: "access",
}
_TRANSIENT: Final = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
)  # refusals that depend on the load


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
        path = f"/v2/models/{urllib.parse.quote(model, safe='')}"
        if version:
            path += f"/versions/{urllib.parse.quote(version, safe='')}"
        self._url = url.rstrip("/") + path
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections, ssl=tls or True),
            timeout=aiohttp.ClientTimeout(total=seconds),
            headers={"Authorization": f"Bearer {token}"} if token else None,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def describe(self) -> RemoteModel:
        async with _failures(), self._session.get(self._url) as answer:
            body = await answer.read()
            if answer.status != HTTPStatus.OK:
                raise _refusal(answer.status, body)
        try:
            return described(self._model, msgspec.json.decode(body))
        except msgspec.DecodeError as error:
            raise wrong_answer(f"its metadata are not JSON: {error}") from error

    def call(self, model: RemoteModel, inputs: Sequence[Tensor]) -> Call:
        names = [port.name for port in model.outputs]
        body, headers = (json_body if self._json else binary_body)(inputs, names)
        return _HttpCall(self._session, f"{self._url}/infer", model, body, headers)

    async def close(self) -> None:
        await self._session.close()


@dataclass(frozen=True)
class _HttpCall:
    session: aiohttp.ClientSession
    url: str
    model: RemoteModel
    body: bytes
    headers: Mapping[str, str]

    @property
    def size(self) -> int:
        return len(self.body)

    async def send(self) -> int:
        async with (
            _failures(),
            self.session.post(self.url, data=self.body, headers=self.headers) as answer,
        ):
            body = await answer.read()
            if answer.status != HTTPStatus.OK:
                raise _refusal(answer.status, body)
            self._check(answer.headers.get(HEADER, ""), body)
        return len(body)

    def _check(self, length: str, body: bytes) -> None:
        """Failure unless an answer has the declared outputs, each with its elements."""
        end = int(length) if length.isdecimal() else len(body)
        outputs = _outputs(body[:end])
        sizes = list(map(_binary_size, outputs))
        for output, size in zip(outputs, sizes):
            if size is None and output.data is msgspec.UNSET:
                raise wrong_answer(f"output {output.name!r} has no elements")
        if sum(size or 0 for size in sizes) != len(body) - end:
            raise wrong_answer(f"it has {len(body) - end} bytes of binary tensors, not {sizes}")
        self.model.check([(o.name, o.datatype, o.shape, n) for o, n in zip(outputs, sizes)])


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


@asynccontextmanager
async def _failures() -> AsyncIterator[None]:
    """Makes Failures of what the client raises."""
    try:
        yield
    except asyncio.TimeoutError as error:
        raise Failure("timeout", "no answer came in time", "timeout") from error
    except (aiohttp.ClientError, OSError) as error:
        text = f"{type(error).__name__}: {error}"
        raise Failure("connection", text, "connection") from error


def _refusal(status: int, body: bytes) -> Failure:
    """The failure of an answer with another status than 200."""
    try:
        text = str(msgspec.json.decode(body)["error"])
    except (msgspec.DecodeError, KeyError, TypeError):
        text = body.decode("utf-8", "replace")
    is_refused = status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _TRANSIENT
    cause: Cause = _CAUSES.get(status, "refused" if is_refused else "server")
    return Failure(f"HTTP {status}", text[:_MOST_TEXT], cause)
