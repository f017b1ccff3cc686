"""The applications of the data port and the admin port, without a socket: routes, statuses, errors,
access.
"""

import base64
import gzip
import hashlib
import json
import logging
from typing import Any

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
from infuse.serving.config import Limits, Security, Telemetry, Token
from infuse.serving.transports.rest.app import AdminApp, DataApp, Mount
from infuse.serving.transports.security import Guard
from tests.serving.rest_tools import FakeEngine, ask, binary, config, plain, tensor

pytestmark = pytest.mark.row("S1")
INFER = "/v2/models/echo/infer"


def data_app(engine: FakeEngine | None = None, **fields: Any) -> DataApp:
    settings = config(**fields)
    return DataApp(engine or FakeEngine(), settings, Guard(settings))


def admin_app(engine: FakeEngine | None = None, **fields: Any) -> AdminApp:
    settings = config(**fields)
    return AdminApp(engine or FakeEngine(), settings, Guard(settings))


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


# -------------------------------------------------------------------------------------------- admin


def test_models_are_loaded_with_configuration_and_files() -> None:
    engine = FakeEngine()
    app = admin_app(engine)
    body = {
        "parameters": {
            "config": '{"a": 1}',
            "file:1/model.onnx": base64.b64encode(b"\0onnx").decode(),
        }
    }
    assert (
        ask(app, "POST", "/v2/repository/models/echo/load", json.dumps(body).encode()).status == 200
    )
    assert ask(app, "POST", "/v2/repository/models/echo/load").status == 200
    assert (
        ask(
            app,
            "POST",
            "/v2/repository/models/echo/unload",
            b'{"parameters":{"unload_dependents":true}}',
        ).status
        == 200
    )
    assert engine.loads == [
        ("echo", '{"a": 1}', {"1/model.onnx": b"\0onnx"}),
        ("echo", "", {}),
        ("echo", True),
    ]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v2/repository/models/none/load", b"{}", 404),
        ("/v2/repository/models/echo/load", b"[]", 400),
        ("/v2/repository/models/echo/load", b'{"parameters":{"config":1}}', 400),
        ("/v2/repository/models/echo/load", b'{"parameters":{"file:1/m":"no base64!"}}', 400),
        ("/v2/repository/models/echo/load", b'{"parameters":{"other":"x"}}', 400),
        ("/v2/repository/models/echo/unload", b'{"parameters":{"unload_dependents":1}}', 400),
        ("/v2/models/echo/labels", b"{}", 400),
        ("/v2/models/echo/labels", b'{"label":"a","version":0}', 400),
        ("/v2/models/echo/split", b'{"weights":{"1":-1}}', 400),
        ("/v2/models/echo/shadow", b'{"shares":{"1":2}}', 400),
        ("/v2/models/echo/rollout", b'{"version":2,"canary":{"unknown":1}}', 400),
        ("/v2/models/none/promote", b"", 404),
        ("/v2/logging", b'{"log_verbose_level":-1}', 400),
        ("/v2/logging", b'{"log_info":false,"log_verbose_level":1}', 409),
        ("/v2/logging", b'{"log_file":"x"}', 409),
        ("/v2/trace/setting", b'{"unknown":1}', 400),
        ("/v2/trace/setting", b'{"trace_rate":"7"}', 409),
    ],
)
def test_wrong_changes_are_refused(path: str, body: bytes, status: int) -> None:
    engine = FakeEngine()
    reply = ask(admin_app(engine), "POST", path, body)
    assert reply.status == status
    assert reply.error
    assert engine.loads == []
    assert engine.told.calls == []


@pytest.mark.parametrize(
    ("verb", "body", "call"),
    [
        ("labels", {"label": "stable", "version": 2}, ("set_label", "stable", 2)),
        ("labels", {"label": "stable"}, ("remove_label", "stable")),
        ("split", {"weights": {"1": 0.5, "stable": 1}}, ("set_split", {"1": 0.5, "stable": 1.0})),
        ("shadow", {"shares": {"2": 0.5}}, ("set_shadow", {"2": 0.5})),
        ("rollout", {"version": 2}, ("start_rollout", 2, None)),
        ("rollback", {"reason": "slow"}, ("rollback", "slow")),
        ("promote", {}, ("promote",)),
        ("pause", {}, ("pause",)),
        ("resume", {}, ("resume",)),
    ],
)
def test_traffic_is_changed(verb: str, body: dict[str, Any], call: tuple[Any, ...]) -> None:
    engine = FakeEngine()
    reply = ask(admin_app(engine), "POST", f"/v2/models/echo/{verb}", json.dumps(body).encode())
    assert reply.status == 200
    assert reply.json == {"model": "echo", "calls": 1}
    assert engine.told.calls == [call]


def test_a_rollout_takes_its_own_steps() -> None:
    engine = FakeEngine()
    ask(
        admin_app(engine),
        "POST",
        "/v2/models/echo/rollout",
        b'{"version":2,"canary":{"steps":[0.5,1],"step_seconds":1}}',
    )
    assert engine.told.calls[0][2].steps == (0.5, 1.0)


def test_log_settings_are_those_in_force() -> None:
    logger = logging.getLogger("infuse")
    before = logger.level
    app = admin_app(telemetry=Telemetry(log_format="json"))
    try:
        for body, level in (
            (
                {"log_verbose_level": 1, "log_info": True, "log_warning": True, "log_error": True},
                logging.DEBUG,
            ),
            ({"log_verbose_level": 0}, logging.INFO),
            ({"log_info": False}, logging.WARNING),
            ({"log_warning": False}, logging.ERROR),
            ({"log_error": False}, logging.CRITICAL),
        ):
            shown = ask(app, "POST", "/v2/logging", json.dumps(body).encode())
            assert shown.status == 200
            assert logger.level == level
            assert shown.json == ask(app, "GET", "/v2/logging").json
            assert shown.json.items() >= body.items()
            assert shown.json["log_format"] == "json"
    finally:
        logger.setLevel(before)


def test_trace_settings_are_those_of_the_configuration() -> None:
    on = admin_app(telemetry=Telemetry(traces="http://127.0.0.1:1", trace_share=0.1))
    assert ask(on, "GET", "/v2/trace/setting").json["trace_rate"] == "10"
    assert (
        ask(on, "POST", "/v2/trace/setting", b'{"trace_rate":"10","trace_level":null}').status
        == 200
    )
    assert ask(on, "POST", "/v2/models/none/trace/setting", b"{}").status == 404


# ------------------------------------------------------------------------------------------- access


@pytest.mark.parametrize(
    "path", ["/v2/repository/models/echo/load", "/v2/models/echo/labels", "/v2/logging"]
)
@pytest.mark.row("S9")
def test_the_data_port_changes_nothing_unless_it_may(path: str) -> None:
    engine = FakeEngine()
    reply = ask(data_app(engine), "POST", path, b'{"label":"a","version":1}')
    assert reply.status == (
        405 if path == "/v2/logging" else 403
    )  # settings can be looked at there
    assert "admin port" in reply.error
    assert engine.loads == []
    assert engine.told.calls == []
    opened = data_app(engine, security=Security(admin_on_data_port=True))
    assert ask(opened, "POST", "/v2/models/echo/labels", b'{"label":"a","version":1}').status == 200
    assert ask(opened, "GET", "/v2/placement").status == 200


def token(text: str, role: Any, **more: Any) -> Token:
    return Token(sha256=hashlib.sha256(text.encode()).hexdigest(), role=role, name=text[:4], **more)


@pytest.mark.row("S9")
def test_tokens_are_asked_for_everywhere_but_for_health() -> None:
    tokens = (token("user" * 9, "infer", models=("echo",)), token("root" * 9, "admin"))
    fields = {"security": Security(tokens=tokens)}
    user, root = ({"Authorization": f"Bearer {name * 9}"} for name in ("user", "root"))
    data, admin = data_app(**fields), admin_app(**fields)
    assert ask(data, "GET", "/v2/health/ready").status == 200
    denied = ask(data, "POST", INFER, plain([1.0], [1]))
    assert denied.status == 401
    assert denied.headers["www-authenticate"].startswith("Bearer")
    assert ask(data, "POST", INFER, plain([1.0], [1]), user).status == 200
    assert ask(data, "POST", "/v2/models/free/infer", plain([1], [1], "INT32"), user).status == 403
    assert ask(data, "GET", "/v2/models/stats", b"", user).status == 403
    assert ask(admin, "POST", "/v2/repository/models/echo/unload", b"", user).status == 403
    assert ask(admin, "POST", "/v2/repository/models/echo/unload", b"", root).status == 200
    assert ask(data, "GET", "/openapi.json").status == 401


@pytest.mark.row("S9")
def test_rates_are_limited() -> None:
    app = data_app(limits=Limits(requests_per_second=0.001, burst=1))
    assert ask(app, "POST", INFER, plain([1.0], [1])).status == 200
    reply = ask(app, "POST", INFER, plain([1.0], [1]))
    assert reply.status == 503
    assert int(reply.headers["retry-after"]) >= 1


@pytest.mark.row("S9")
def test_pages_of_other_sites_change_nothing() -> None:
    headers = {
        "Origin": "https://elsewhere.example",
        "Sec-Fetch-Site": "cross-site",
        "Content-Type": "text/plain",
    }
    engine = FakeEngine()
    assert (
        ask(admin_app(engine), "POST", "/v2/repository/models/echo/unload", b"{}", headers).status
        == 403
    )
    assert engine.loads == []
    rebound = ask(data_app(), "GET", "/v2", b"", {"Host": "evil.example"})
    assert rebound.status == 403


def test_other_applications_are_mounted_on_the_admin_port() -> None:
    async def metrics(scope: Any, receive: Any, send: Any) -> None:
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
        )
        await send({"type": "http.response.body", "body": b"up"})

    settings = config(security=Security(tokens=(token("root" * 9, "admin"),)))
    app = AdminApp(FakeEngine(), settings, Guard(settings), {"metrics": Mount(metrics, "watch")})
    assert ask(app, "GET", "/metrics").status == 401
    assert ask(app, "GET", "/metrics", b"", {"Authorization": f"Bearer {'root' * 9}"}).body == b"up"
    assert ask(app, "POST", INFER, b"{}").status == 404
