"""What a request costs beside the model's work: a served model against the same model called in
this process.
"""

from __future__ import annotations

import http.client
import json
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

import infuse
from benchmarks.measure import WARM_UP
from benchmarks.serving_calls import HOST, TIMEOUT, Call, CallError, grpc_raw, rest_binary
from benchmarks.serving_load import apply
from benchmarks.serving_process import infuse_server

STAGES = ("queue", "compute_input", "compute_infer", "compute_output", "success")
IMAGE = (1, 3, 224, 224)
ROW = (1, 25)
_END = b"\r\n\r\n"
_LENGTH = b"content-length: "


def save_model(operator: str, shape: tuple[int | str, ...], file: Path) -> Path:
    """An ONNX model of one operator, y = operator(x); the file."""
    sizes: list[int | str] = [*shape[:2], 1, 1] if operator == "GlobalAveragePool" else list(shape)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, sizes)
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], operator, [x], [y])
    opsets = [helper.make_opsetid("", 20)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), file)
    return file


class Line:
    """A connection that is kept, for one request after another with as little of its own as Python
    can.
    """

    def __init__(self, call: Call) -> None:
        self._request = call.raw()
        self._place = memoryview(bytearray(1 << 20))
        self._socket = socket.create_connection((HOST, call.port), TIMEOUT)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self) -> int:
        """One request and its whole answer, of so many bytes; CallError where that is an error, or
        longer than 1 MiB.
        """
        place, got = self._place, 0
        self._socket.sendall(self._request)
        length = -1
        while length < 0 or got < length:
            more = self._socket.recv_into(place[got:])
            if not more:
                raise CallError("the connection was closed, or the answer is longer than expected")
            got += more
            if length < 0:
                length = _length(bytes(place[: min(got, 2048)]))
        return got

    def close(self) -> None:
        """End the connection."""
        self._socket.close()


def _length(text: bytes) -> int:
    """Bytes of an answer by its head; -1 while that is not all there."""
    end = text.find(_END)
    if end < 0:
        return -1
    if b" 200 " not in text[:16]:
        raise CallError(f"answered with {text[:200]!r}")
    start = text.lower().index(_LENGTH) + len(_LENGTH)
    return end + len(_END) + int(text[start : text.index(b"\r\n", start)])


@dataclass
class Row:
    """One kind of request. Seconds: half of the calls take at most so much, per turn.

    `stages`: means of the server's own statistics in the turns over HTTP: waiting, going to the
    worker, running, coming back, and `success`: all of it from the arrival to the outputs.
    """

    name: str
    bytes: int
    direct: list[float] = field(default_factory=list)
    served: list[float] = field(default_factory=list)
    stages: dict[str, float] = field(default_factory=dict)

    @property
    def added(self) -> float:
        """Seconds that serving adds: median of the turns."""
        return float(np.median(self.served) - np.median(self.direct))

    @property
    def least(self) -> float:
        """Seconds that serving adds in the best turns of both."""
        return min(self.served) - min(self.direct)


def measure(rounds: int, runs: int, folder: Path) -> list[Row]:
    """Large and small requests over HTTP and gRPC; direct calls and requests take turns of
    `runs`.
    """
    files = {
        "image": save_model("GlobalAveragePool", IMAGE, folder / "image.onnx"),
        "row": save_model("Identity", ROW, folder / "row.onnx"),
    }
    shapes = {"image": IMAGE, "row": ROW}
    rows = []
    with infuse_server(files) as ports:
        for name, shape in shapes.items():
            feeds = {"x": np.random.default_rng(0).standard_normal(shape, np.float32)}
            model = infuse.compile(files[name])
            expected = {key: np.array(value) for key, value in model.run(feeds).items()}
            calls = {
                "REST": rest_binary(ports.http, name, feeds, ["y"]),
                "gRPC": grpc_raw(ports.grpc, name, feeds, ["y"]),
            }
            for protocol, call in calls.items():
                call.check(expected)
                row = Row(f"{name}, {protocol}", feeds["x"].nbytes)
                before = _statistics(ports.http, name)
                for _ in range(rounds):
                    row.direct.append(_median(lambda: model.run(feeds), runs))  # noqa: B023 - called at once
                    row.served.append(_served(call, runs))
                after = _statistics(ports.http, name)
                row.stages = {stage: _mean(before[stage], after[stage]) for stage in STAGES}
                call.check(expected)
                rows.append(row)
    return rows


def _served(call: Call, runs: int) -> float:
    """Median seconds of a request. gRPC's client is h2load, for at least a second."""
    if call.grpc:
        return apply(call, 1, max(1, runs // 1000), 0).p50
    line = Line(call)
    try:
        return _median(line.send, runs)
    finally:
        line.close()


def _median(run: object, runs: int) -> float:
    assert callable(run)
    times = []
    for _ in range(runs + WARM_UP):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return float(np.median(times[WARM_UP:]))


def _statistics(port: int, model: str) -> dict[str, dict[str, int]]:
    connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT)
    try:
        connection.request("GET", f"/v2/models/{model}/stats")
        found: dict[str, dict[str, int]] = json.loads(connection.getresponse().read())[
            "model_stats"
        ][0]["inference_stats"]
        return found
    finally:
        connection.close()


def _mean(before: dict[str, int], after: dict[str, int]) -> float:
    return (after["ns"] - before["ns"]) / max(1, after["count"] - before["count"]) / 1e9
