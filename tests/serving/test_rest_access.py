"""The applications of both ports without a socket: who may ask for what."""

import hashlib
from typing import Any

import pytest

from infuse.serving.config import Limits, Security, Token
from infuse.serving.transports.rest.app import AdminApp, Mount
from infuse.serving.transports.security import Guard
from tests.serving.rest_apps import INFER, admin_app, data_app
from tests.serving.rest_tools import FakeEngine, ask, config, plain

pytestmark = pytest.mark.row("S1")


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
