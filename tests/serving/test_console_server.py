"""The console over a real server: its buttons change what serves, and what it shows is so."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infuse.serving.config import Security, Token
from infuse.serving.transports.security import PAGE_HEADERS, new_token
from tests.browser.chromium import chromium
from tests.serving.console_browser import Console
from tests.serving.console_server import Running, serving, write_model

pytestmark = pytest.mark.row("S6")

ALL = (
    "version_policy: {all: true}\nlabels: {stable: 1}\nobjectives: [{name: fast, latency_ms: "
    "1000}]\n"
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "models"
    write_model(folder / "digits" / "1", 1, ALL)
    write_model(folder / "digits" / "2", 2)
    write_model(folder / "echo" / "1", 3)
    (folder / "digits" / "3").mkdir()
    (folder / "digits" / "3" / "model.onnx").write_bytes(b"<b>not a model</b>")
    return folder


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[Running]:
    with serving(repository) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as driver:
        yield driver


@pytest.fixture
def console(browser: Any, server: Running) -> Console:
    shown = Console(browser, server.url)
    shown.size(1280)
    return shown


def get(server: Running, path: str, **headers: str) -> tuple[int, Any, http.client.HTTPMessage]:
    assert server.server.admin is not None
    connection = http.client.HTTPConnection("127.0.0.1", server.server.admin.port, timeout=30)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read(), response.headers
    finally:
        connection.close()


def test_it_shows_what_the_server_serves(console: Console, server: Running) -> None:
    assert "ready" in console.text("header")
    card = console.card("digits")
    assert "1 ready stable" in card
    assert "3 unavailable" in card
    assert "INF-" in console.text(".why")
    assert "worker-" in console.text("#side")
    assert "digits/1" in console.text(".workers")
    assert "digits version 3 load failed" in console.text(".events")

    def has_counted() -> bool:
        server.call(server.ask("digits", version="1"))
        return "fast 100 % good within 1 s" in console.card("digits")

    console.until(has_counted)
    assert console.said() == []


def test_what_it_shows_is_what_was_asked(console: Console, server: Running) -> None:
    for _ in range(40):
        server.call(server.ask("echo", rows=3))
    row = '[aria-label="Model echo"] tbody td[data-name="Requests/s"]'
    console.until(lambda: float(console.text(row)) > 0)
    console.until(lambda: console.text('[aria-label="Model echo"] td[data-name="p99 ms"]') != "–")


def test_a_label_is_set_and_removed(console: Console, server: Running) -> None:
    console.press("label", model="digits", version=2)
    console.fill(label="canary")
    console.send()
    assert server.describe("digits")["labels"] == {"stable": 1, "canary": 2}
    console.until(lambda: "2 ready canary" in console.card("digits"))
    console.press("unlabel", model="digits", label="canary")
    console.send()
    assert server.describe("digits")["labels"] == {"stable": 1}


def test_a_rollout_is_started_paused_and_rolled_back(console: Console, server: Running) -> None:
    console.press("split", model="digits")
    console.fill(_1="1", _2="0")
    console.send()
    assert server.describe("digits")["shares"] == {"1": 1.0}
    console.press("rollout", model="digits")
    console.fill(version="2", steps="30, 100", seconds="600")
    console.send()
    assert server.describe("digits")["shares"] == {"1": 0.7, "2": 0.3}
    console.until(lambda: "Rollout 1 → 2 running" in console.card("digits"))
    console.press("pause", model="digits")
    console.send()
    assert server.describe("digits")["rollout"]["state"] == "paused"
    console.until(lambda: console.all('[data-action="resume"]'))
    console.press("rollback", model="digits")
    console.fill(reason="it is no better")
    console.send()
    told = server.describe("digits")
    assert told["shares"] == {"1": 1.0}
    assert (told["rollout"]["state"], told["rollout"]["reason"]) == (
        "rolled_back",
        "it is no better",
    )
    console.until(lambda: "rolled back" in console.text(".rollout"))
    console.until(
        lambda: "digits version 2 rolled back · it is no better" in console.text(".events")
    )


def test_a_promotion_gives_all_traffic(console: Console, server: Running) -> None:
    console.press("rollout", model="digits")
    console.fill(version="2", steps="10, 100", seconds="600")
    console.send()
    console.until(lambda: console.all('[data-action="promote"]'))
    console.press("promote", model="digits")
    console.send()
    assert server.describe("digits")["shares"] == {"2": 1.0}


def test_a_model_is_unloaded_and_loaded(console: Console, server: Running) -> None:
    console.press("unload", model="echo")
    console.send()
    assert not server.engine.model_ready("echo")
    console.until(
        lambda: "unavailable" in console.card("echo") or "unknown" in console.card("echo")
    )
    console.press("load", model="echo")
    console.send()
    assert server.engine.model_ready("echo")
    console.until(lambda: "1 ready" in console.card("echo"))


def test_what_the_server_refuses_is_shown_in_its_words(console: Console) -> None:
    console.press("load-new")
    console.fill(model="no/such model")
    console.find("[data-send]").click()
    assert "INF-" in console.until(lambda: console.text("#dialog .error"))


def test_pages_and_data_have_the_headers_that_protect_them(server: Running) -> None:
    for path in ("/", "/console/console.js", "/v2/console/data", "/metrics"):
        status, _, headers = get(server, path)
        assert status == 200
        assert {name: headers[name] for name in PAGE_HEADERS} == PAGE_HEADERS
        assert len(headers.get_all("content-type")) == 1


def test_a_page_of_another_name_gets_no_data(server: Running) -> None:
    for path in ("/", "/v2/console/data", "/metrics"):
        status, body, _ = get(server, path, Host="rebound.example")
        assert status == 403
        assert "rebound.example" in json.loads(body)["error"]


def test_with_tokens_the_page_is_open_and_its_data_is_not(
    repository: Path, tmp_path: Path, browser: Any
) -> None:
    (admin, hashed), (tenant, other) = new_token(), new_token()
    tokens = (
        Token(sha256=hashed, role="admin"),
        Token(sha256=other, role="infer", models=("echo",)),
    )
    with serving(
        repository, models=(), state=tmp_path / "state", security=Security(tokens=tokens)
    ) as running:
        assert get(running, "/")[0] == get(running, "/console/console.js")[0] == 200
        found = {}
        for name, token in {"nobody": "", "tenant": tenant, "admin": admin}.items():
            found[name] = get(
                running,
                "/v2/console/data",
                **({"Authorization": f"Bearer {token}"} if token else {}),
            )[0]
        assert found == {"nobody": 401, "tenant": 403, "admin": 200}
        for token in (tenant, ""):
            assert get(running, "/metrics", Authorization=f"Bearer {token}")[0] in (401, 403)
        shown = Console(browser, running.url)
        shown.until(lambda: shown.open_dialog)
        shown.run("sessionStorage.setItem('infuse-token', arguments[0])", tenant)
        shown.find("[data-close]").click()
        shown.until(lambda: "is for some models only" in shown.text("#notice"))
        shown.until(lambda: shown.all('[data-action="token"]'))
        shown.press("token")
        shown.fill(token=admin)
        shown.send()
        assert "digits" in shown.text("#models")
