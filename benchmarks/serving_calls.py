"""Requests that are made once and sent many times, and how their answers are read.

A `Call` is what goes over the wire. Load generators send it as it is; `check` sends it once and
looks at the outputs, before and after every load.
"""

from __future__ import annotations

import http.client
import json
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from infuse.serving.datatypes import name_of
from infuse.serving.load.encoding import HEADER, METHODS, binary_body, json_body, raw_message
from infuse.serving.messages import Tensor

Arrays = dict[str, np.ndarray]
Read = Callable[[Mapping[str, str], bytes], Arrays]

HOST = "127.0.0.1"
TIMEOUT = 60.0
METHOD = f"{METHODS}/ModelInfer"
TOLERANCE = 1e-3
"""Largest difference from the right answer, over its largest magnitude."""
_PREFIX = 5


class CallError(RuntimeError):
    """A request was answered with an error, or not rightly."""


@dataclass
class Call:
    """A request to a port of this machine; `body` of a gRPC call is one frame."""

    port: int
    path: str
    body: bytes
    read: Read
    headers: Mapping[str, str] = field(default_factory=dict)
    grpc: bool = False

    def raw(self) -> bytes:
        """All bytes of it, over HTTP/1.1."""
        lines = [
            f"POST {self.path} HTTP/1.1",
            f"host: {HOST}:{self.port}",
            f"content-length: {len(self.body)}",
        ]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + self.body

    def answer(self) -> tuple[Arrays, int]:
        """The outputs, and the bytes of the answer's body; CallError where it is an error."""
        if self.grpc:
            body = self._unary()
            return self.read({}, body), len(body) + _PREFIX
        connection = http.client.HTTPConnection(HOST, self.port, timeout=TIMEOUT)
        try:
            connection.request("POST", self.path, self.body, dict(self.headers))
            got = connection.getresponse()
            body = got.read()
        except (OSError, http.client.HTTPException) as error:
            raise CallError(f"no answer from port {self.port}: {error}") from error
        finally:
            connection.close()
        if got.status != http.client.OK:
            raise CallError(f"status {got.status}: {body[:300]!r}")
        return self.read({name.lower(): value for name, value in got.getheaders()}, body), len(body)

    def check(self, expected: Mapping[str, np.ndarray]) -> int:
        """Ask once; CallError unless the outputs are near `expected`. Bytes of the answer's
        body.
        """
        outputs, size = self.answer()
        if outputs.keys() != expected.keys():
            raise CallError(f"outputs {', '.join(outputs)}, not {', '.join(expected)}")
        for name, right in expected.items():
            got = outputs[name].reshape(right.shape)
            if not np.allclose(got, right, atol=TOLERANCE * float(np.abs(right).max()), rtol=0):
                raise CallError(
                    f"output {name} is {float(np.abs(got - right).max()):.3g} away from the right "
                    "one"
                )
        return size

    def _unary(self) -> bytes:
        import grpc

        with grpc.insecure_channel(f"{HOST}:{self.port}", _UNLIMITED) as channel:
            try:
                return bytes(channel.unary_unary(METHOD)(self.body[_PREFIX:], timeout=TIMEOUT))
            except grpc.RpcError as error:
                raise CallError(f"gRPC: {error.details()}") from error


_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def rest_binary(port: int, model: str, feeds: Mapping[str, np.ndarray], outputs: list[str]) -> Call:
    """The Open Inference Protocol over HTTP, with binary tensors both ways."""
    body, headers = binary_body(_tensors(feeds), outputs)
    return Call(port, f"/v2/models/{model}/infer", body, _read_binary, headers)


def rest_json(port: int, model: str, feeds: Mapping[str, np.ndarray], outputs: list[str]) -> Call:
    """The Open Inference Protocol over HTTP, with tensors as JSON."""
    body, headers = json_body(_tensors(feeds), outputs)
    return Call(port, f"/v2/models/{model}/infer", body, _read_json, headers)


def grpc_raw(port: int, model: str, feeds: Mapping[str, np.ndarray], outputs: list[str]) -> Call:
    """The Open Inference Protocol over gRPC, with raw tensors both ways."""
    text = raw_message(model, "", _tensors(feeds), outputs)
    frame = struct.pack(">BI", 0, len(text)) + text
    return Call(
        port,
        METHOD,
        frame,
        _read_message,
        {"content-type": "application/grpc", "te": "trailers"},
        True,
    )


def plain_json(port: int, feeds: Mapping[str, np.ndarray]) -> Call:
    """Nested lists by input name, as tutorials send them; the answer likewise."""
    body = json.dumps({"inputs": {name: x.tolist() for name, x in feeds.items()}}).encode()
    return Call(port, "/predict", body, _read_plain_json, {"content-type": "application/json"})


def plain_bytes(port: int, feeds: Mapping[str, np.ndarray], output: str) -> Call:
    """Elements alone, one input after the other; all have the shape that a header tells. The answer
    has one output.
    """
    shape = next(iter(feeds.values())).shape
    headers = {"content-type": "application/octet-stream", "x-shape": ",".join(map(str, shape))}
    body = b"".join(x.tobytes() for x in feeds.values())
    return Call(
        port, "/predict", body, lambda _, got: {output: np.frombuffer(got, np.float32)}, headers
    )


def _tensors(feeds: Mapping[str, np.ndarray]) -> list[Tensor]:
    return [Tensor(name, name_of(x.dtype), x) for name, x in feeds.items()]


def _read_binary(headers: Mapping[str, str], body: bytes) -> Arrays:
    start = int(headers[HEADER.lower()])
    found: Arrays = {}
    for output in json.loads(body[:start])["outputs"]:
        data = np.frombuffer(body, np.float32, math.prod(output["shape"]), start)
        found[output["name"]] = data.reshape(output["shape"])
        start += data.nbytes
    return found


def _read_json(_: Mapping[str, str], body: bytes) -> Arrays:
    outputs = json.loads(body)["outputs"]
    return {out["name"]: np.array(out["data"], np.float32).reshape(out["shape"]) for out in outputs}


def _read_plain_json(_: Mapping[str, str], body: bytes) -> Arrays:
    return {name: np.array(data, np.float32) for name, data in json.loads(body).items()}


def _read_message(_: Mapping[str, str], body: bytes) -> Arrays:
    from infuse.serving.transports.rpc.schema import message

    got = message("ModelInferResponse").FromString(body)
    if not got.raw_output_contents:
        return {out.name: np.array(out.contents.fp32_contents, np.float32) for out in got.outputs}
    return {
        out.name: np.frombuffer(data, np.float32)
        for out, data in zip(got.outputs, got.raw_output_contents)
    }
