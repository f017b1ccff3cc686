"""Models whose answers are known by version, and an object store that fails now and then."""

from __future__ import annotations

import contextlib
import http.client
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Literal

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Kind = Literal["good", "slow", "failing", "drifting"]

KEYS: Final = {"access_key_id": "key", "secret_access_key": "secret", "region": "us-east-1"}
BUCKET: Final = "models"
DRIFT: Final = 1.5
"""What a drifting version multiplies its input with."""
_PLACES: Final = 1 << 16
_SLOW_TURNS: Final = 1000  # some 30 ms
_SECONDS: Final = 0.3  # of a slow answer of the store


def expected(kind: Kind, version: int, value: float) -> float:
    """What a version answers to `value`, if it answers."""
    return (DRIFT * value if kind == "drifting" else value) + version


def model(kind: Kind, version: int) -> bytes:
    """FP32[rows, 4] → `expected`; a slow one takes some 30 ms, a failing one fails for every fourth
    even number.
    """
    constants = {"version": np.float32(version)}
    nodes: list[Any] = []
    if kind == "slow":
        nodes += _slow(constants)
    elif kind == "failing":
        nodes += _failing(constants)
    elif kind == "drifting":
        constants["drift"] = np.float32(DRIFT)
        nodes.append(helper.make_node("Mul", ["x", "drift"], ["begin"]))
    else:
        nodes.append(helper.make_node("Identity", ["x"], ["begin"]))
    nodes.append(helper.make_node("Add", ["begin", "version"], ["y"]))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 4]) for name in ("x", "y")
    ]
    kept = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, kind, ends[:1], ends[1:], kept)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString())


def _slow(constants: dict[str, Any]) -> list[Any]:
    """Begin = x + (the largest of x, counted up and down again)."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Add", ["v", "one"], ["w"]),
        ],
        "body",
        [
            info("i", TensorProto.INT64, []),
            info("go", TensorProto.BOOL, []),
            info("v", TensorProto.DOUBLE, [_PLACES]),
        ],
        [info("on", TensorProto.BOOL, []), info("w", TensorProto.DOUBLE, [_PLACES])],
    )
    constants |= {
        "one": np.array([1.0]),
        "places": np.array([_PLACES]),
        "turns": np.array(_SLOW_TURNS),
        "yes": np.array(True),
        "counted": np.array([float(_SLOW_TURNS)]),
    }
    return [
        helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0),
        helper.make_node("Cast", ["top"], ["wide"], to=TensorProto.DOUBLE),
        helper.make_node("Expand", ["wide", "places"], ["start"]),
        helper.make_node("Loop", ["turns", "yes", "start"], ["end"], body=body),
        helper.make_node("ReduceMax", ["end"], ["last"], keepdims=1),
        helper.make_node("Sub", ["last", "counted"], ["back"]),
        helper.make_node("Sub", ["back", "wide"], ["nothing"]),
        helper.make_node("Cast", ["nothing"], ["zero"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "zero"], ["begin"]),
    ]


def _failing(constants: dict[str, Any]) -> list[Any]:
    """Begin = x + table[x / 2 mod 4], and the table has three places."""
    constants |= {"half": np.float32(0.5), "four": np.array(4), "table": np.zeros(3, np.float32)}
    return [
        helper.make_node("Mul", ["x", "half"], ["halves"]),
        helper.make_node("Cast", ["halves"], ["whole"], to=TensorProto.INT64),
        helper.make_node("Mod", ["whole", "four"], ["place"]),
        helper.make_node("Gather", ["table", "place"], ["zero"]),
        helper.make_node("Add", ["x", "zero"], ["begin"]),
    ]


# ---------------------------------------------------------------------------------------- the store


class _Proxy(ThreadingHTTPServer):
    """Between the server and the store: `share` of the answers are spoilt."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, store: str, share: float, seed: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.store = store
        self.share = share
        self.random = random.Random(seed)
        self.faults: Counter[str] = Counter()
        self.answers = 0

    def draw(self) -> str:
        """What happens to this answer."""
        self.answers += 1
        if self.random.random() >= self.share:
            return ""
        fault = self.random.choice(("error", "slow", "cut", "drop"))
        self.faults[fault] += 1
        return fault

    def handle_error(self, *_: Any) -> None:
        """A client that went away is nothing to tell of."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Proxy

    def do_GET(self) -> None:
        """Pass a request on, and its answer back, as luck will have it."""
        fault = self.server.draw()
        if fault == "drop":
            self.close_connection = True
            return
        if fault == "error":
            self._send(503, [], b"")
            return
        if fault == "slow":
            time.sleep(_SECONDS)
        store = http.client.HTTPConnection(self.server.store, timeout=30)
        store.request(self.command, self.path, headers=dict(self.headers))
        answer = store.getresponse()
        body = answer.read()
        store.close()
        size = len(body) // 2 if fault == "cut" else len(body)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(body))
        skipped = ("content-length", "transfer-encoding", "connection", "date", "server")
        headers = [
            (name, value) for name, value in answer.getheaders() if name.lower() not in skipped
        ]
        self._send(answer.status, [*headers, ("Content-Length", length or "0")], body[:size])
        self.close_connection = self.close_connection or fault == "cut"

    do_HEAD = do_GET

    def _send(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers or [("Content-Length", "0")]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""


class Store:
    """A bucket in a local S3 server, reached through a proxy that spoils answers."""

    def __init__(self, client: Any, proxy: _Proxy) -> None:
        self._client = client
        self._proxy = proxy

    @property
    def options(self) -> dict[str, str]:
        """`store_options` of a server that reads it."""
        return {
            **KEYS,
            "endpoint": f"http://127.0.0.1:{self._proxy.server_address[1]}",
            "allow_http": "true",
        }

    @property
    def faults(self) -> dict[str, int]:
        """Answers that were given, and those that were spoilt, by kind."""
        return {"answers": self._proxy.answers, **self._proxy.faults}

    def put(self, key: str, content: bytes) -> None:
        """Write an object."""
        self._client.put_object(Bucket=BUCKET, Key=f"repository/{key}", Body=content)

    def put_version(self, name: str, version: int, content: bytes) -> None:
        """Write a version of a model; its mark says when it is whole."""
        self.put(f"{name}/{version}/model.onnx", content)
        self.put(f"{name}/{version}/_SUCCESS", b"")

    def drop_version(self, name: str, version: int) -> None:
        """Take a version away."""
        for file in ("_SUCCESS", "model.onnx"):
            self._client.delete_object(Bucket=BUCKET, Key=f"repository/{name}/{version}/{file}")


@contextlib.contextmanager
def store(share: float, seed: int = 0) -> Iterator[Store]:
    """A bucket; `share` of the answers to its readers are errors, late, cut off, or none at all."""
    import boto3  # type: ignore[import-untyped]
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    proxy = _Proxy(f"{host}:{port}", share, seed)
    thread = threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    keys = {f"aws_{name}": value for name, value in KEYS.items() if name != "region"}
    client = boto3.client(
        "s3", endpoint_url=f"http://{host}:{port}", region_name=KEYS["region"], **keys
    )
    try:
        client.create_bucket(Bucket=BUCKET)
        yield Store(client, proxy)
    finally:
        client.close()
        proxy.shutdown()
        thread.join()
        proxy.server_close()
        server.stop()
