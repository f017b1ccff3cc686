"""The application of the data port without a socket: inference, routes, statuses and errors."""

import gzip
import json

import numpy as np
import pytest

from infuse.errors import (
    DeadlineError,
    InputError,
    ModelFailureError,
    NotFoundError,
    OverloadError,
    UnavailableError,
)
from infuse.serving.config import Limits
from tests.serving.rest_apps import INFER, admin_app, data_app
from tests.serving.rest_tools import FakeEngine, ask, binary, plain, tensor

pytestmark = pytest.mark.row("S1")


# ---------------------------------------------------------------------------------------- inference


@pytest.mark.parametrize(
    ("path", "version"),
    [
        (INFER, ""),
        ("/v2/models/echo/versions/1/infer", "1"),
        ("/v2/models/%65cho/versions/st%61ble/infer", "stable"),
    ],
)
def test_binary_inference(path: str, version: str) -> None:
    engine = FakeEngine()
    array = np.arange(4, dtype=np.float32).reshape(1, 4)
    body, headers = binary(array, parameters={"binary_data_output": True}, id="7")
    reply = ask(data_app(engine), "POST", path, body, headers)
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/octet-stream"
    length = int(reply.headers["inference-header-content-length"])
    answer = json.loads(reply.body[:length])
    assert (answer["model_name"], answer["model_version"], answer["id"]) == ("echo", "1", "7")
    assert reply.body[length:] == array.tobytes()
    assert (engine.requests[0].model, engine.requests[0].version) == ("echo", version)


def test_json_inference_carries_id_trace_sticky_and_times() -> None:
    engine = FakeEngine()
    headers = {"TraceParent": "00-ab-cd-01", "X-User": "ann"}
    reply = ask(data_app(engine), "POST", INFER, plain([[1, 2, 3, 4]], [1, 4], id="9"), headers)
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert reply.json["outputs"][0] == {
        "name": "x",
        "datatype": "FP32",
        "shape": [1, 4],
        "data": [1, 2, 3, 4],
    }
    request = engine.requests[0]
    assert (request.id, request.trace, request.sticky, request.protocol) == (
        "9",
        "00-ab-cd-01",
        "ann",
        "http",
    )
    assert 0 < request.timeline.received <= request.timeline.sent


def test_a_raw_request_is_read_by_the_model() -> None:
    array = np.arange(4, dtype=np.float32)
    reply = ask(
        data_app(), "POST", INFER, array.tobytes(), {"Inference-Header-Content-Length": "0"}
    )
    assert reply.status == 200
    length = int(reply.headers["inference-header-content-length"])
    assert json.loads(reply.body[:length])["outputs"][0]["shape"] == [1, 4]
    words = ask(
        data_app(),
        "POST",
        "/v2/models/words/infer",
        b"any\0",
        {"Inference-Header-Content-Length": "0"},
    )
    assert words.body.endswith(b"\x04\0\0\0any\0")


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        (INFER, b"", {}, 400),
        (INFER, b"{", {}, 400),
        (INFER, b"{}", {"Inference-Header-Content-Length": "3"}, 400),
        (INFER, b"{}", {"Inference-Header-Content-Length": "-1"}, 400),
        (INFER, b"{}", {"Inference-Header-Content-Length": "many"}, 400),
        (INFER, b"123", {"Inference-Header-Content-Length": "0"}, 400),
        ("/v2/models/wild/infer", bytes(4), {"Inference-Header-Content-Length": "0"}, 400),
        (INFER, b"{}", {"Content-Encoding": "gzip"}, 400),
        (INFER, b"{}", {"Content-Encoding": "zstd"}, 415),
        (INFER, gzip.compress(bytes(1 << 21)), {"Content-Encoding": "gzip"}, 413),
        ("/v2/models/none/infer", plain([1.0], [1]), {}, 404),
        ("/v2/models/none/infer", b"{", {}, 404),
        ("/v2/models/echo/versions/9/infer", plain([1.0], [1]), {}, 404),
        ("/v2/models//infer", plain([1.0], [1]), {}, 404),
        ("/v2/models/%FF/infer", plain([1.0], [1]), {}, 400),
        ("/v2/models/..%2f..%2fetc/infer", plain([1.0], [1]), {}, 404),
    ],
)
def test_bad_requests_get_their_status(
    path: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    app = data_app(limits=Limits(request_bytes=1 << 20))
    reply = ask(app, "POST", path, body, headers)
    assert reply.status == status
    assert reply.error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InputError("no such input"), 400),
        (NotFoundError("no such version"), 404),
        (UnavailableError("it loads"), 503),
        (OverloadError("the queue is full"), 503),
        (DeadlineError("too late"), 504),
        (ModelFailureError("it crashed"), 500),
        (ZeroDivisionError("secret"), 500),
    ],
)
def test_errors_of_the_engine_are_told(
    error: Exception, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    reply = ask(data_app(FakeEngine(error=error)), "POST", INFER, plain([1.0], [1]))
    assert reply.status == status
    assert "secret" not in reply.error
    assert bool(caplog.records) is isinstance(error, ZeroDivisionError)


def test_an_error_does_not_echo_all_that_it_is_given() -> None:
    body = json.dumps(
        {"inputs": [{"name": "é" * 100_000, "shape": [1], "datatype": "FP32"}]}
    ).encode()
    reply = ask(data_app(), "POST", INFER, body)
    assert reply.status == 400
    assert len(reply.error) < 3000


def test_overload_says_when_to_try_again() -> None:
    error = OverloadError("the queue is full")
    error.retry_after = 2.3
    assert (
        ask(data_app(FakeEngine(error=error)), "POST", INFER, plain([1.0], [1])).headers[
            "retry-after"
        ]
        == "3"
    )


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("size", [4, 400_000])
def test_answers_are_compressed_when_it_is_asked_for(coding: str, size: int) -> None:
    from infuse.serving.transports.rest.compression import deflate, inflate

    body, headers = binary(np.zeros((1, size), np.float32), parameters={"binary_data_output": True})
    packed = deflate([body], coding)
    reply = ask(
        data_app(),
        "POST",
        INFER,
        packed,
        {**headers, "Content-Encoding": coding, "Accept-Encoding": coding},
    )
    assert reply.headers["content-encoding"] == coding
    whole = bytes(inflate(reply.body, coding, 1 << 24))
    length = int(reply.headers["inference-header-content-length"])
    assert json.loads(whole[:length])["outputs"][0]["shape"] == [1, size]
    assert len(whole) == length + 4 * size


def test_outputs_that_cannot_be_said_in_json_are_an_error_of_the_caller() -> None:
    engine = FakeEngine(outputs=[tensor("y", "FP16", [1.0], np.float16)])
    reply = ask(data_app(engine), "POST", INFER, plain([1.0], [1]))
    assert reply.status == 400
    assert "binary_data" in reply.error


# ------------------------------------------------------------------------------------------- routes


@pytest.mark.parametrize(
    ("method", "path", "key"),
    [
        ("GET", "/v2/health/live", "live"),
        ("GET", "/v2/health/ready", "ready"),
        ("GET", "/v2", "extensions"),
        ("GET", "/v2/", "extensions"),
        ("GET", "/v2/models/echo", "inputs"),
        ("GET", "/v2/models/echo/versions/1", "inputs"),
        ("GET", "/v2/models/echo/ready", "ready"),
        ("GET", "/v2/models/echo/versions/stable/ready", "ready"),
        ("GET", "/v2/models/echo/config", "max_batch_size"),
        ("GET", "/v2/models/echo/versions/1/config", "max_batch_size"),
        ("GET", "/v2/models/echo/stats", "model_stats"),
        ("GET", "/v2/models/echo/versions/1/stats", "model_stats"),
        ("GET", "/v2/models/stats", "model_stats"),
        ("GET", "/v2/logging", "log_info"),
        ("GET", "/v2/trace/setting", "trace_level"),
        ("GET", "/v2/models/echo/trace/setting", "trace_level"),
        ("GET", "/openapi.json", "paths"),
    ],
)
def test_what_can_be_looked_at_is_shown_on_both_ports(method: str, path: str, key: str) -> None:
    for app in (data_app(), admin_app()):
        reply = ask(app, method, path)
        assert reply.status == 200
        assert reply.headers["content-type"] == "application/json"
        assert key in reply.json


def test_the_index_takes_no_body_or_a_query() -> None:
    for body in (b"", b"{}", b'{"ready":true}'):
        assert ask(data_app(), "POST", "/v2/repository/index", body).json[0]["state"] == "READY"
    assert ask(data_app(), "POST", "/v2/repository/index", b'{"ready":1}').status == 400


def test_a_server_that_is_not_ready_is_alive() -> None:
    app = data_app(FakeEngine(serving=False))
    assert ask(app, "GET", "/v2/health/live").status == 200
    assert ask(app, "GET", "/v2/health/ready").status == 503
    assert ask(app, "GET", "/v2/models/echo/ready").status == 503
    assert ask(app, "GET", "/v2/models/none/ready").status == 404


@pytest.mark.parametrize(
    "path",
    ["/", "/v1/models/echo", "/v2/nothing", "/v2/models", "/v2/models/echo/infer/more", "/%00"],
)
def test_unknown_addresses_are_404(path: str) -> None:
    for method in ("GET", "POST"):
        reply = ask(data_app(), method, path)
        assert reply.status == 404
        assert reply.error


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", INFER, "POST"),
        ("DELETE", "/v2/models/echo", "GET, HEAD"),
        ("PUT", "/v2/repository/index", "POST"),
    ],
)
def test_other_methods_are_405(method: str, path: str, allowed: str) -> None:
    reply = ask(data_app(), method, path)
    assert reply.status == 405
    assert reply.headers["allow"] == allowed
    assert reply.error


@pytest.mark.parametrize("kind", ["system", "cuda"])
def test_shared_memory_is_honestly_not_there(kind: str) -> None:
    app, base = data_app(), f"/v2/{kind}sharedmemory"
    assert ask(app, "GET", f"{base}/status").json == []
    assert ask(app, "GET", f"{base}/region/r/status").status == 404
    assert ask(app, "POST", f"{base}/region/r/register", b"{}").status == 501
    assert ask(app, "POST", f"{base}/unregister").status == 200
    assert ask(app, "POST", f"{base}/region/r/unregister").status == 404
