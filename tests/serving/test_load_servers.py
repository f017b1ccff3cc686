"""`infuse load` with what other servers write: KServe 0.16 and MLServer 1.7, their answers as they
sent them.
"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.cli_tools import Cli
from tests.serving.load_stage import SHORT, cli

__all__ = ["cli"]
pytestmark = pytest.mark.row("S6")

X = {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
Y = {**X, "name": "y"}
ELEMENTS = {"name": "y", "datatype": "FP32", "shape": [1, 4], "data": [1.0, 2.0, 3.0, 4.0]}
SERVERS: dict[str, tuple[Any, Any]] = {
    "KServe": (
        {"name": "add", "versions": None, "platform": "", "inputs": [X], "outputs": [Y]},
        {
            "id": "1",
            "model_name": "add",
            "model_version": None,
            "parameters": None,
            "outputs": [{**ELEMENTS, "parameters": None}],
        },
    ),
    "MLServer": (
        {
            "name": "add",
            "versions": [],
            "platform": "",
            "inputs": [X],
            "outputs": [Y],
            "parameters": {},
        },
        {
            "model_name": "add",
            "model_version": "1",
            "id": "88ae3a4e",
            "parameters": {},
            "outputs": [{**ELEMENTS, "parameters": {"content_type": "np"}}],
        },
    ),
}


@pytest.fixture(params=SERVERS)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    metadata, answer = SERVERS[request.param]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

        def _answer(self, content: Any) -> None:
            body = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self._answer(metadata)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(answer)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_answers_with_null_are_right(cli: Cli, url: str) -> None:
    answer = cli("load", url, "add", "--concurrency", 1, *SHORT, "--json-tensors", "--json")
    assert answer.status == 0, answer.err
    (level,) = answer.json["levels"]
    assert level["failed"] == 0 < level["requests"]
