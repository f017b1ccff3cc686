"""Ports that are open to others, requests that pages make browsers send, and files against their hashes."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path

import pytest

from infuse.errors import AccessError, ConfigurationError, RepositoryError
from infuse.serving.config import Listener, Security, ServerConfig, Tls, Token
from infuse.serving.security import PAGE_HEADERS, check_browser, check_exposure, check_sha256

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
        ServerConfig(http=Listener(host="localhost"), grpc=Listener(host="::1"), admin=Listener(host="127.8.8.8")),
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
OPEN = ServerConfig(security=Security(hosts=("Infuse.example.com",)), admin=Listener(host="other.example.com"))


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8002", "[::1]:8002", "10.0.0.9", "localhost:8002", "worker7:8002", "infuse.example.com:8002"],
)
def test_addresses_and_names_that_were_given_are_hosts(host: str) -> None:
    check_browser(OPEN, "GET", {"host": host})


@pytest.mark.parametrize("host", ["OTHER.example.com.", "node.svc.cluster.local:8002", "a.internal", "a.localhost", ""])
def test_names_that_no_stranger_can_own_are_hosts(host: str) -> None:
    check_browser(OPEN, "GET", {"host": host})


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
@pytest.mark.parametrize("host", ["evil.example:8002", "127.0.0.1.evil.example", "localhost.evil.example", "a.b:80:80"])
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


def test_a_page_of_the_server_runs_no_script_of_others() -> None:
    policy = dict(part.strip().split(" ", 1) for part in PAGE_HEADERS["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert "unsafe" not in PAGE_HEADERS["content-security-policy"]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "model" / "1").mkdir(parents=True)
    (tmp_path / "model" / "1" / "model.onnx").write_bytes(b"weights" * 300_000)
    (tmp_path / "secret").write_bytes(b"s")
    return tmp_path / "model"


def test_the_expected_file_is_taken(model: Path) -> None:
    expected = {"1/model.onnx": digest(b"weights" * 300_000).upper()}
    check_sha256(expected, model, ["1/model.onnx"])
    check_sha256({}, model, ["1/model.onnx"])


def test_another_file_than_expected_is_refused(model: Path) -> None:
    with pytest.raises(RepositoryError, match=r"1/model\.onnx: its SHA-256 is .* and sha256 says"):
        check_sha256({"1/model.onnx": digest(b"other")}, model)


def test_a_file_without_a_hash_beside_some_with_one_is_refused(model: Path) -> None:
    (model / "1" / "weights.bin").write_bytes(b"more")
    with pytest.raises(RepositoryError, match=r"weights\.bin: it has no entry in sha256"):
        check_sha256({"1/model.onnx": digest(b"weights" * 300_000)}, model, ["1/model.onnx", "1/weights.bin"])


def test_a_missing_file_is_refused(model: Path) -> None:
    with pytest.raises(RepositoryError, match="cannot be read"):
        check_sha256({"2/model.onnx": digest(b"")}, model)


@pytest.mark.parametrize("name", ["../secret", "1/../../secret", "link"])
def test_a_path_out_of_the_folder_is_refused(model: Path, name: str) -> None:
    (model / "link").symlink_to(model.parent / "secret")
    with pytest.raises(RepositoryError, match="leads out"):
        check_sha256({name: digest(b"s")}, model)
    with pytest.raises(RepositoryError, match="leads out"):
        check_sha256({str(model.parent / "secret"): digest(b"s")}, model)


def test_a_hash_that_is_none_is_refused(model: Path) -> None:
    with pytest.raises(ConfigurationError, match="not 64 hexadecimal digits"):
        check_sha256({"1/model.onnx": "abc"}, model)
