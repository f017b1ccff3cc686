"""Closed loops of short and long requests with deadlines: is one refused at an idle worker, or
answered late?

`python -m benchmarks.serving_deadlines [--minutes 30] [--json FILE]`

The model computes for as long as a number in the request says, which no size of an input tells. In
the first half one caller asks, so the worker is idle whenever a request arrives: long ones without
a deadline, ones whose deadline is too short, ones whose caller goes away, and after each of them
short ones with deadlines from 0.1 to 1 s, all of which must be answered. In the second half two
callers of short requests with deadlines meet one of long ones: what has no time left is refused,
and nothing that is answered may be late. Over HTTP and gRPC in turns. Exit status 1 where one was
refused at an idle worker, or answered later than its deadline and the tolerance.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import tritonclient.grpc as triton
from onnx import TensorProto, helper, numpy_helper
from tritonclient.utils import InferenceServerException

from benchmarks import machine
from benchmarks.serving_process import HOST, Ports, infuse_server

_SHORT: Final = 1  # turns of the model's loop
_LONG: Final = 2.0  # seconds, as turns that are measured at the start
_WIDTH: Final = 256
_TOLERANCE: Final = 0.1
"""Seconds that an answer may take through the sockets of a busy machine."""
_AFTER: Final = 20  # short requests after each that is not


def model() -> bytes:
    """INT64[1] turns, FP32[rows, 256] → as many products by the identity as the turns say."""
    turn = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("MatMul", ["before", "w"], ["after"]),
        ],
        "turn",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("before", TensorProto.FLOAT, ["rows", _WIDTH]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("after", TensorProto.FLOAT, ["rows", _WIDTH]),
        ],
    )
    nodes = [
        helper.make_node("Squeeze", ["turns"], ["count"]),
        helper.make_node("Loop", ["count", "", "x"], ["y"], body=turn),
    ]
    rows = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", _WIDTH])
        for name in ("x", "y")
    ]
    turns = helper.make_tensor_value_info("turns", TensorProto.INT64, [1])
    weights = numpy_helper.from_array(np.eye(_WIDTH, dtype=np.float32), "w")
    graph = helper.make_graph(nodes, "work", [turns, rows[0]], rows[1:], [weights])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString())


@dataclass
class Seen:
    """What became of the requests of one half."""

    answers: Counter[str] = field(default_factory=Counter)
    late: list[float] = field(default_factory=list)
    """Seconds past the deadline."""
    slowest: float = 0.0
    """Seconds of the slowest short request that was answered."""

    def note(self, kind: str, status: str, took: float, deadline: float | None) -> None:
        """Count one."""
        self.answers[f"{kind}: {status}"] += 1
        if status == "answered":
            if deadline is not None and took > deadline + _TOLERANCE:
                self.late.append(took - deadline)
            if kind == "short":
                self.slowest = max(self.slowest, took)


class Caller:
    """One caller with a connection of either protocol."""

    def __init__(self, ports: Ports, seed: int) -> None:
        self.long = 1
        """Turns that take some 2 seconds."""
        self._ports = ports
        self._random = random.Random(seed)
        self._http = http.client.HTTPConnection(HOST, ports.http, timeout=120)
        self._grpc = triton.InferenceServerClient(f"{HOST}:{ports.grpc}")

    def deadline(self) -> float:
        """Seconds, at random."""
        return self._random.uniform(0.1, 1.0)

    def ask(self, turns: int, deadline: float | None) -> tuple[str, float]:
        """What became of a request, and its seconds."""
        begin = time.monotonic()
        over = self._over_http if self._random.random() < 0.5 else self._over_grpc
        return over(turns, deadline), time.monotonic() - begin

    def measure(self) -> int:
        """Turns that take some 2 seconds; `long` from now on."""
        while (took := self.ask(self.long, None)[1]) < _LONG / 4:
            self.long *= 2
        self.long = int(self.long * _LONG / took)
        return self.long

    def leave(self, turns: int, seconds: float) -> None:
        """Ask, and go away before the answer."""
        gone = http.client.HTTPConnection(HOST, self._ports.http)
        gone.request("POST", "/v2/models/work/infer", self._body(turns, None))
        time.sleep(seconds)
        gone.close()

    def _body(self, turns: int, deadline: float | None) -> str:
        data: dict[str, Any] = {
            "inputs": [
                {"name": "turns", "shape": [1], "datatype": "INT64", "data": [turns]},
                {"name": "x", "shape": [1, _WIDTH], "datatype": "FP32", "data": [1.0] * _WIDTH},
            ]
        }
        if deadline is not None:
            data["parameters"] = {"timeout": int(deadline * 1e6)}
        return json.dumps(data)

    def _over_http(self, turns: int, deadline: float | None) -> str:
        self._http.request("POST", "/v2/models/work/infer", self._body(turns, deadline))
        answer = self._http.getresponse()
        text = answer.read()
        if answer.status != http.client.OK:
            return f"{answer.status} {json.loads(text)['error'].split(':')[0][:60]}"
        assert json.loads(text)["outputs"][0]["data"] == [1.0] * _WIDTH
        return "answered"

    def _over_grpc(self, turns: int, deadline: float | None) -> str:
        inputs = [
            triton.InferInput("turns", [1], "INT64"),
            triton.InferInput("x", [1, _WIDTH], "FP32"),
        ]
        inputs[0].set_data_from_numpy(np.array([turns], np.int64))
        inputs[1].set_data_from_numpy(np.ones((1, _WIDTH), np.float32))
        timeout = None if deadline is None else int(deadline * 1e6)
        try:
            answer = self._grpc.infer("work", inputs, timeout=timeout)
        except InferenceServerException as error:
            return f"{error.status()} {str(error.message()).split(':')[0][:60]}"
        assert (answer.as_numpy("y") == 1).all()
        return "answered"


def alone(ports: Ports, seconds: float) -> Seen:
    """One caller, until the time is over."""
    seen, caller, turn = Seen(), Caller(ports, 0), 0
    long, end = caller.measure(), time.monotonic() + seconds
    while time.monotonic() < end:
        kind, turn = ("long", "too long", "left")[turn % 3], turn + 1
        if kind == "left":
            caller.leave(long, 0.05)
            # Nobody waits for that run; the next short request may have to, as long as it takes.
            seen.note("after one that left", *caller.ask(_SHORT, 60.0), 60.0)
        else:
            deadline = None if kind == "long" else 0.2
            status, took = caller.ask(long if kind == "long" else 2 * long, deadline)
            seen.note(kind, status, took, deadline)
            if kind == "too long":
                seen.note("after one too long", *caller.ask(_SHORT, 60.0), 60.0)
        for _ in range(_AFTER):
            deadline = caller.deadline()
            seen.note("short", *caller.ask(_SHORT, deadline), deadline)
    return seen


def together(ports: Ports, seconds: float) -> Seen:
    """Two callers of short requests and one of long ones, until the time is over."""
    seen, lock = Seen(), threading.Lock()
    long, end = Caller(ports, 0).measure(), time.monotonic() + seconds

    def ask(number: int) -> None:
        caller = Caller(ports, number)
        while time.monotonic() < end:
            kind = "long" if number == 0 else "short"
            deadline = None if kind == "long" else caller.deadline()
            status, took = caller.ask(long if kind == "long" else _SHORT, deadline)
            with lock:
                seen.note(kind, status, took, deadline)
            time.sleep(caller.deadline() if kind == "long" else 0.001)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


def main() -> int:
    """Run both halves, print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "work.onnx")
        path.write_bytes(model())
        with infuse_server({"work": path}) as ports:
            halves = {
                "one caller": alone(ports, options.minutes * 30),
                "three callers": together(ports, options.minutes * 30),
            }
    for name, seen in halves.items():
        counts = ", ".join(f"{kind} {count}" for kind, count in sorted(seen.answers.items()))
        print(f"{name}: {counts}; late {len(seen.late)}; slowest {seen.slowest:.3f} s")
    refused = sum(
        count
        for kind, count in halves["one caller"].answers.items()
        if not kind.startswith("too long") and not kind.endswith(": answered")
    )
    late = [seconds for seen in halves.values() for seconds in seen.late]
    print(f"refused at an idle worker: {refused}; answered late: {len(late)}")
    if options.json:
        rows = {name: {**vars(seen)} for name, seen in halves.items()}
        options.json.write_text(json.dumps({"machine": machine.describe(), "halves": rows}))
    return 1 if refused or late else 0


if __name__ == "__main__":
    sys.exit(main())
