"""Tokens, limits, TLS and refusals of a whole server, over its ports."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest

from infuse.errors import ConfigurationError
from infuse.serving.config import Limits, Listener, Security, ServerConfig, Tls, Token
from infuse.serving.server import Server
from infuse.serving.transports.rpc.schema import SERVICE
from infuse.serving.transports.security import new_token
from tests.serving.console_server import WIDTH, Running, serving, write_model
from tests.serving.rpc_tools import messages
from tests.serving.test_security_tls import DAY, NOW, pair

pytestmark = pytest.mark.row("S9")

ROW = json.dumps(
    {"inputs": [{"name": "x", "shape": [1, WIDTH], "datatype": "FP32", "data": [0.5] * WIDTH}]}
)
JSON = {"Content-Type": "application/json"}
TENANT, ANYBODY, OPERATOR = new_token(), new_token(), new_token()
TOKENS = (
    Token(sha256=TENANT[1], role="infer", name="tenant", models=("mine",)),
    Token(sha256=ANYBODY[1], role="infer", name="anybody"),
    Token(sha256=OPERATOR[1], role="admin", name="operator"),
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "models"
    for name in ("mine", "other"):
        write_model(folder / name / "1")
    return folder


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[Running]:
    with serving(repository, security=Security(tokens=TOKENS), grpc=Listener()) as running:
        yield running


def ask(
    port: int,
    method: str,
    path: str,
    token: str = "",
    headers: Mapping[str, str] = JSON,
    body: str | None = None,
    context: ssl.SSLContext | None = None,
) -> tuple[int, http.client.HTTPMessage, Any]:
    """Status, headers and JSON of an answer."""
    if context is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    else:
        connection = http.client.HTTPSConnection("localhost", port, timeout=60, context=context)
    shown = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        connection.request(method, path, body, {**headers, **shown})
        response = connection.getresponse()
        text = response.read()
        return (
            response.status,
            response.headers,
            json.loads(text) if text[:1] in (b"{", b"[") else None,
        )
    finally:
        connection.close()


def data_port(running: Running) -> int:
    assert running.server.http is not None
    return running.server.http.port


def admin_port(running: Running) -> int:
    assert running.server.admin is not None
    return running.server.admin.port


INFER = "/v2/models/{}/infer"
CALLS = {  # method, path, body, statuses for nobody, the tenant, anybody, the operator
    "health": ("GET", "/v2/health/ready", None, (200, 200, 200, 200)),
    "ready": ("GET", "/v2/models/mine/ready", None, (401, 200, 200, 200)),
    "other ready": ("GET", "/v2/models/other/ready", None, (401, 403, 200, 200)),
    "label ready": ("GET", "/v2/models/other/versions/1/ready", None, (401, 403, 200, 200)),
    "no model ready": ("GET", "/v2/models/none/ready", None, (401, 403, 404, 404)),
    "logging": ("GET", "/v2/logging", None, (401, 403, 403, 200)),
    "tracing": ("GET", "/v2/trace/setting", None, (401, 403, 403, 200)),
    "model tracing": ("GET", "/v2/models/mine/trace/setting", None, (401, 403, 403, 200)),
    "set tracing": ("POST", "/v2/models/mine/trace/setting", "{}", (401, 403, 403, 200)),
    "own model": ("POST", INFER.format("mine"), ROW, (401, 200, 200, 200)),
    "other model": ("POST", INFER.format("other"), ROW, (401, 403, 200, 200)),
    "metadata": ("GET", "/v2/models/other", None, (401, 403, 200, 200)),
    "server": ("GET", "/v2", None, (401, 200, 200, 200)),
    "all statistics": ("GET", "/v2/models/stats", None, (401, 403, 200, 200)),
    "metrics": ("GET", "/metrics", None, (401, 403, 200, 200)),
    "index": ("POST", "/v2/repository/index", "{}", (401, 403, 200, 200)),
    "placement": ("GET", "/v2/placement", None, (401, 403, 200, 200)),
    "label": (
        "POST",
        "/v2/models/mine/labels",
        '{"label": "a", "version": 1}',
        (401, 403, 403, 200),
    ),
    "load": ("POST", "/v2/repository/models/mine/load", "{}", (401, 403, 403, 200)),
}


@pytest.mark.parametrize("name", CALLS)
def test_roles_and_models_of_tokens_hold(server: Running, name: str) -> None:
    method, path, body, wanted = CALLS[name]
    port = data_port(server) if path.endswith("/infer") else admin_port(server)
    answers = [
        ask(port, method, path, token, body=body)
        for token in ("", TENANT[0], ANYBODY[0], OPERATOR[0])
    ]
    assert tuple(status for status, _, _ in answers) == wanted
    for status, headers, plain in answers:
        assert (headers["www-authenticate"] == 'Bearer realm="infuse"') == (status == 401)
        if status >= 400:
            assert list(plain) == ["error"]


SPELLINGS = {  # of paths, and what the tenant of "mine" gets
    "//v2/models/mine/infer": 200,
    "/v2/models/mine/infer/": 200,
    "/v2/models/%6dine/%69nfer": 200,
    "/v2/models/mine/versions/1/infer/": 200,
    "//v2/models/other/infer": 403,
    "/v2/models/o%74her/%69nfer": 403,
    "/v2/models/other/versions/1/infer/": 403,
    "/v2/models/mine%2F..%2Fother/infer": 403,
    "/v2/models/mine/../other/infer": 404,
    "/v2//models/mine/infer": 404,
    "//v2/repository/models/mine/unload": 403,
    "/v2/%72epository/models/mine/unload/": 403,
}


@pytest.mark.parametrize("path", SPELLINGS)
def test_another_spelling_of_a_path_opens_nothing(server: Running, path: str) -> None:
    status, _, plain = ask(data_port(server), "POST", path, TENANT[0], body=ROW)
    assert (status, "error" in plain) == (SPELLINGS[path], SPELLINGS[path] != 200)
    assert ask(data_port(server), "POST", path, body=ROW)[0] in (401, 403, 404)


@pytest.mark.parametrize(
    "path", ["/console/%2e%2e/data.py", "/console/../assets.py", "/%63onsole/page/console.js", "//"]
)
def test_the_console_has_its_files_only(server: Running, path: str) -> None:
    assert ask(admin_port(server), "GET", path)[0] == 404


RPC_CALLS: dict[str, tuple[str, Any, tuple[str, ...]]] = {
    # method, message, codes for nobody, the tenant, anybody, the operator
    "ready": (
        f"{SERVICE}/ModelReady",
        messages.ModelReadyRequest(name="mine"),
        ("UNAUTHENTICATED", "OK", "OK", "OK"),
    ),
    "label ready": (
        f"{SERVICE}/ModelReady",
        messages.ModelReadyRequest(name="other", version="stable"),
        ("UNAUTHENTICATED", "PERMISSION_DENIED", "OK", "OK"),
    ),
    "server": ("grpc.health.v1.Health/Check", HealthCheckRequest(), ("OK",) * 4),
    "health": (
        "grpc.health.v1.Health/Check",
        HealthCheckRequest(service="other"),
        ("UNAUTHENTICATED", "PERMISSION_DENIED", "OK", "OK"),
    ),
    "unknown": (
        "grpc.health.v1.Health/Check",
        HealthCheckRequest(service="none"),
        ("UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND", "NOT_FOUND"),
    ),
    "logging": (
        f"{SERVICE}/LogSettings",
        messages.LogSettingsRequest(),
        ("UNAUTHENTICATED", "PERMISSION_DENIED", "PERMISSION_DENIED", "OK"),
    ),
    "tracing": (
        f"{SERVICE}/TraceSetting",
        messages.TraceSettingRequest(model_name="mine"),
        ("UNAUTHENTICATED", "PERMISSION_DENIED", "PERMISSION_DENIED", "OK"),
    ),
}


@pytest.mark.parametrize("name", RPC_CALLS)
def test_grpc_tells_no_more_than_http(server: Running, name: str) -> None:
    method, message, wanted = RPC_CALLS[name]
    assert server.server.grpc is not None
    with grpc.insecure_channel(f"127.0.0.1:{server.server.grpc.port}") as channel:
        codes = []
        for token in ("", TENANT[0], ANYBODY[0], OPERATOR[0]):
            metadata = (("authorization", f"Bearer {token}"),) if token else ()
            try:
                call = channel.unary_unary(f"/{method}")
                call(message.SerializeToString(), metadata=metadata, timeout=60)
                codes.append("OK")
            except grpc.RpcError as error:
                codes.append(error.code().name)
    assert tuple(codes) == wanted


def test_grpc_holds_to_the_same_tokens(server: Running) -> None:
    assert server.server.grpc is not None
    with grpc.insecure_channel(f"127.0.0.1:{server.server.grpc.port}") as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelMetadata")

        def code(model: bytes, token: str) -> str:
            shown = (("authorization", f"Bearer {token}"),) if token else ()
            try:
                call(b"\x0a" + bytes([len(model)]) + model, metadata=shown, timeout=60)
            except grpc.RpcError as error:
                return str(error.code().name)
            return "OK"

        assert code(b"mine", "") == code(b"mine", "wrong") == "UNAUTHENTICATED"
        assert code(b"mine", TENANT[0]) == code(b"other", ANYBODY[0]) == "OK"
        assert code(b"other", TENANT[0]) == "PERMISSION_DENIED"


def test_the_data_port_does_not_change_the_server_even_for_an_operator(server: Running) -> None:
    status, _, plain = ask(
        data_port(server), "POST", "/v2/repository/models/mine/unload", OPERATOR[0], body="{}"
    )
    assert status == 403
    assert "admin port" in plain["error"]
    assert server.engine.model_ready("mine")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example", **JSON},
        {"Origin": "null", "Content-Type": "text/plain"},
        {"Sec-Fetch-Site": "cross-site", **JSON},
        {"Referer": "https://evil.example/", "Content-Type": "application/x-www-form-urlencoded"},
    ],
)
def test_a_strange_page_changes_nothing(repository: Path, headers: dict[str, str]) -> None:
    with serving(repository, models=()) as running:
        status, _, plain = ask(
            admin_port(running),
            "POST",
            INFER.format("mine").replace("infer", "labels"),
            "",
            headers,
        )
        assert status == 403
        assert "INF-709" in plain["error"]
        assert (
            ask(admin_port(running), "OPTIONS", "/v2", "", headers)[1][
                "access-control-allow-origin"
            ]
            is None
        )


def test_who_asks_too_often_is_told_when_to_come_back(repository: Path) -> None:
    with serving(
        repository, models=(), limits=Limits(requests_per_second=0.01, burst=3)
    ) as running:
        answers = [ask(data_port(running), "GET", "/v2") for _ in range(4)]
        assert [status for status, _, _ in answers] == [200, 200, 200, 503]
        assert 90 <= int(answers[-1][1]["retry-after"]) <= 100
        assert "more requests" in answers[-1][2]["error"]
        assert ask(data_port(running), "GET", "/v2/health/live")[0] == 200


def test_mutual_tls_over_http(repository: Path, tmp_path: Path) -> None:
    authority = pair(tmp_path, "authority")
    own, caller = (
        pair(tmp_path, "server", issuer=authority),
        pair(tmp_path, "caller", issuer=authority),
    )
    listener = Listener(tls=own.tls(authority))
    with serving(repository, models=(), http=listener) as running:
        context = ssl.create_default_context(cafile=str(authority.paths[0]))
        with pytest.raises((ssl.SSLError, OSError)):
            ask(data_port(running), "GET", "/v2/health/live", context=context)
        context.load_cert_chain(*caller.paths)
        assert ask(data_port(running), "GET", "/v2/health/live", context=context)[0] == 200
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            ask(data_port(running), "GET", "/v2/health/live")


@pytest.mark.parametrize("port", ["http", "grpc", "admin"])
def test_an_expired_certificate_ends_the_start(repository: Path, tmp_path: Path, port: str) -> None:
    own = pair(tmp_path, "server", begin=NOW - 2 * DAY, end=NOW - DAY)
    with (
        pytest.raises(ConfigurationError, match="expired"),
        serving(repository, **{port: Listener(tls=own.tls())}),
    ):
        pytest.fail("it has started")


def test_a_server_that_would_be_open_to_everybody_is_not_made(repository: Path) -> None:
    config = ServerConfig(repository=str(repository), http=Listener(host="0.0.0.0"))
    with pytest.raises(ConfigurationError, match="--insecure"):
        Server(config)


def test_files_of_tls_are_named_when_they_are_missing(repository: Path) -> None:
    tls = Tls(certificate=Path("absent.crt"), key=Path("absent.key"))
    with (
        pytest.raises(ConfigurationError, match=r"absent\.crt"),
        serving(repository, http=Listener(tls=tls)),
    ):
        pytest.fail("it has started")
