"""Ports that are open to others, and requests that pages make browsers send."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from infuse.errors import AccessError, ConfigurationError
from infuse.serving.config import Listener, Security, ServerConfig, Tls, Token
from infuse.serving.transports.security import PAGE_HEADERS, check_browser, check_exposure

pytestmark = pytest.mark.row("S9")

TOKENS = Security(tokens=(Token(sha256="0" * 64, role="admin"),))
TLS = Tls(certificate=Path("c"), key=Path("k"))
MUTUAL = Tls(certificate=Path("c"), key=Path("k"), client_ca=Path("a"))


@pytest.mark.parametrize("name", ["http", "grpc", "admin"])
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.0.0.1", "models.example.com"])
def test_an_open_port_without_any_question_is_refused(name: str, host: str) -> None:
    config = ServerConfig(**{name: Listener(host=host)})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=f"{name}.host: .*--make-token.*--insecure"):
        check_exposure(config)


@pytest.mark.parametrize(
    "config",
    [
        ServerConfig(),
        ServerConfig(
            http=Listener(host="localhost"),
            grpc=Listener(host="::1"),
            admin=Listener(host="127.8.8.8"),
        ),
        ServerConfig(http=Listener(host="0.0.0.0", enabled=False)),
        ServerConfig(http=Listener(host="0.0.0.0", tls=MUTUAL)),
        ServerConfig(http=Listener(host="0.0.0.0", tls=TLS), security=TOKENS),
        ServerConfig(http=Listener(host="0.0.0.0"), security=Security(insecure=True)),
    ],
)
def test_what_is_closed_asks_or_is_meant_so_starts(config: ServerConfig) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_exposure(config)


def test_tls_without_certificates_of_callers_asks_nobody() -> None:
    with pytest.raises(ConfigurationError):
        check_exposure(ServerConfig(grpc=Listener(host="0.0.0.0", tls=TLS)))


def test_tokens_in_plain_text_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="http: tokens travel over the network as plain text"):
        check_exposure(ServerConfig(http=Listener(host="0.0.0.0"), security=TOKENS))


JSON = {"content-type": "application/json; charset=utf-8"}
HERE = {"host": "127.0.0.1:8002"}
OPEN = ServerConfig(
    security=Security(hosts=("Infuse.example.com",)), admin=Listener(host="other.example.com")
)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8002",
        "[::1]:8002",
        "10.0.0.9",
        "localhost:8002",
        "worker7:8002",
        "infuse.example.com:8002",
    ],
)
def test_addresses_and_names_that_were_given_are_hosts(host: str) -> None:
    check_browser(OPEN, "GET", {"host": host})


@pytest.mark.parametrize(
    "host", ["OTHER.example.com.", "node.svc.cluster.local:8002", "a.internal", "a.localhost", ""]
)
def test_names_that_no_stranger_can_own_are_hosts(host: str) -> None:
    check_browser(OPEN, "GET", {"host": host})


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
@pytest.mark.parametrize(
    "host",
    [
        *("evil.example:8002", "127.0.0.1.evil.example", "localhost.evil.example", "a.b:80:80"),
        *("<script>", "a b", 'a"b', "-", "a/b", "ä", "a%41", "<b>.local", "a\x1b.internal"),
    ],
)
def test_a_name_that_was_made_to_point_here_is_refused(host: str, method: str) -> None:
    with pytest.raises(AccessError, match="not known as a name of this server"):
        check_browser(OPEN, method, {"host": host})


def test_with_tokens_any_name_will_do_since_a_strange_page_has_none() -> None:
    check_browser(ServerConfig(security=TOKENS), "GET", {"host": "evil.example"})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "application/x-www-form-urlencoded", "user-agent": "curl/8.0"},
        {**JSON, "origin": "http://127.0.0.1:8002", "sec-fetch-site": "same-origin"},
        {"x-infuse-request": "1", "origin": "http://127.0.0.1:8002"},
        {**JSON, "user-agent": "Mozilla/5.0", "referer": "http://127.0.0.1:8002/"},
    ],
)
def test_programs_and_the_console_may_change_the_server(headers: dict[str, str]) -> None:
    check_browser(ServerConfig(), "POST", {**HERE, **headers})


@pytest.mark.parametrize(
    "headers",
    [
        {**JSON, "origin": "https://evil.example"},
        {**JSON, "origin": "http://127.0.0.1:8003"},
        {**JSON, "origin": "null"},
        {**JSON, "sec-fetch-site": "cross-site"},
        {**JSON, "sec-fetch-site": "same-site", "x-infuse-request": "1"},
        {"content-type": "text/plain", "origin": "http://127.0.0.1:8002"},
        {"content-type": "multipart/form-data; boundary=x", "user-agent": "Mozilla/5.0"},
        {"referer": "https://evil.example/"},
        {"content-type": "text/plain; application/json", "sec-fetch-mode": "no-cors"},
    ],
)
@pytest.mark.parametrize("security", [Security(), TOKENS], ids=["open", "tokens"])
def test_strange_pages_and_forms_may_not(headers: dict[str, str], security: Security) -> None:
    with pytest.raises(AccessError) as caught:
        check_browser(ServerConfig(security=security), "POST", {**HERE, **headers})
    assert caught.value.known


NAMES = st.sampled_from(
    ["host", "origin", "referer", "content-type", "sec-fetch-site", "user-agent", "x-other"]
)


@given(st.dictionaries(NAMES, st.text()), st.sampled_from(["GET", "POST", "DELETE", ""]))
def test_any_headers_are_either_taken_or_refused(headers: dict[str, str], method: str) -> None:
    with contextlib.suppress(AccessError):
        check_browser(OPEN, method, headers)


@given(st.text("abc.-:[]/@", min_size=1))
def test_no_origin_but_the_host_s_own_changes_the_server(host: str) -> None:
    with pytest.raises(AccessError):
        check_browser(
            ServerConfig(security=TOKENS), "POST", {**JSON, **HERE, "origin": f"http://{host}"}
        )


def test_a_page_of_the_server_runs_no_script_of_others() -> None:
    policy = dict(
        part.strip().split(" ", 1) for part in PAGE_HEADERS["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert "unsafe" not in PAGE_HEADERS["content-security-policy"]
