"""Commands that ask a server: whatever it says, they end in a clear error, within their limits."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from infuse.serving.load import admin_port, http_client, session
from tests.cli_tools import Cli
from tests.serving.hostile_servers import (
    METADATA,
    SECRET,
    TRAFFIC,
    Handler,
    Respond,
    X,
    outputs,
    round_and_round,
    server,
    shaped,
)
from tests.serving.load_stage import SHORT, cli

__all__ = ["cli"]
pytestmark = pytest.mark.row("S7")


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFUSE_TOKEN", SECRET)


VERBS = [
    ("rollout", "net", "2"),
    ("rollout", "net", "--pause"),
    ("rollout", "net", "--promote"),
    ("rollback", "net"),
    ("rollout", "net"),
]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_tokens_do_not_leave_their_origin(verb: tuple[str, ...], status: int, cli: Cli) -> None:
    with server(lambda handler: handler.say(TRAFFIC)) as (elsewhere, stolen):

        def away(handler: Handler) -> None:
            handler.say(b"", status, Location=elsewhere + "/x")

        with server(away) as (url, seen):
            answer = cli(*verb, "--admin", url)
            loaded = cli("load", url, "net", *SHORT)
    assert answer.status == loaded.status == 1
    assert "where neither token nor request go" in answer.err
    assert "where neither token nor request go" in loaded.err
    assert stolen == []
    assert {entry[2] for entry in seen} == {f"Bearer {SECRET}"}


def test_redirects_of_the_same_origin_keep_the_method_and_the_body(cli: Cli) -> None:
    def moved(handler: Handler) -> None:
        if handler.path.startswith("/moved"):
            handler.say(TRAFFIC)
        else:
            handler.say(b"", 302, Location="/moved" + handler.path)

    with server(moved) as (url, seen):
        answer = cli("rollout", "net", "2", "--admin", url)
    assert answer.status == 0, answer.err
    posts = [entry for entry in seen if entry[0] == "POST"]
    assert [entry[1].startswith("/moved") for entry in posts] == [False, True]
    assert posts[0][3] == posts[1][3] == b'{"version": 2}'


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
@pytest.mark.parametrize(
    ("respond", "words"),
    [
        (round_and_round, "more than 5"),
        (lambda h: h.say(b"", 302, Location="http://["), "redirects to no address"),
        (lambda h: h.say(b"", 302), "more than 5"),
        (lambda h: h.say(b"<html>hello</html>"), "is not the traffic of 'net'"),
        (lambda h: h.say([1]), "is not the traffic of 'net'"),
        (lambda h: h.say({}), "is not the traffic of 'net'"),
        (lambda h: h.say(b"[" * 20_000), "is not the traffic of 'net'"),
        (lambda h: h.say({**TRAFFIC, "model": "other"}), "is not the traffic of 'net'"),
        (lambda h: h.say({**TRAFFIC, "shares": {"a": 1}}), "is not the traffic of 'net'"),
        (lambda h: h.say({**TRAFFIC, "rollout": {}, "settled": "x"}), "is not the traffic"),
        (lambda h: h.say(gzip.compress(bytes(1 << 20)), Content_Encoding="gzip"), "compressed"),
        (Handler.say_without_end, "more than 65536 bytes"),
        (lambda h: h.say({"error": "\x1b[31mred\x9b"}, 400), "\\x1b[31mred\\x9b"),
        (lambda h: h.say(b"\xff\xfe" * 200_000, 500), "HTTP 500"),
        (lambda h: h.say(b"", 204), "HTTP 204"),
    ],
)
def test_what_is_no_answer_is_told_in_a_line(
    verb: tuple[str, ...], respond: Respond, words: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_port, "_MOST_BYTES", 65536)
    with server(respond) as (url, _):
        answer = cli(*verb, "--admin", url)
    assert answer.status == 1
    assert words in answer.err
    assert "Traceback" not in answer.err
    assert answer.err.replace("\n", "").isprintable()
    assert len(answer.err) < 3000


def test_an_order_that_changed_nothing_is_an_error(cli: Cli) -> None:
    with server(lambda handler: handler.say(TRAFFIC)) as (url, _):
        assert cli("rollout", "net", "2", "--admin", url).status == 0
        for verb in (("rollout", "net", "3"), ("rollout", "net", "--promote"), ("rollback", "net")):
            answer = cli(*verb, "--admin", url)
            assert answer.status == 1
            assert "the server took the order, and" in answer.err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (outputs(4097), "and there may be 4096"),
        (shaped(-2, 4), "has a size of -2"),
        (shaped(1 << 80), "random values of the shape"),
        (shaped(1 << 20, 1 << 20), "random values of the shape"),
        (shaped("a"), "none of the protocol"),
        (shaped(1e400), "not JSON"),
        (shaped(*[1] * 33), "has 33 axes, and there may be 32"),
        (shaped(*[-1] * 100_000), "has 100000 axes"),
        (shaped(1, name="x" * 5000), "a name is too long"),
        (shaped(1, name=3), "none of the protocol"),
        (b"[" * 20_000, "not JSON"),
        (b" " * (1 << 20), "more than 65536 bytes"),
    ],
)
def test_hostile_metadata(
    content: Any, words: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "_MOST_METADATA", 2 << 20 if len(content) < 10 else 65536)
    with server(lambda handler: handler.say(content)) as (url, _):
        answer = cli("load", url, "net", "--concurrency", 1, *SHORT)
    assert answer.status == 1
    assert words in answer.err
    assert "Traceback" not in answer.err
    assert len(answer.err) < 3000


def test_many_outputs_are_not_all_printed(cli: Cli) -> None:
    def respond(handler: Handler) -> None:
        if handler.command == "GET":
            handler.say(outputs(4000))
        else:
            handler.say({"outputs": [{**X, "name": "\x1b]0;", "shape": [1, 4], "data": [1] * 4}]})

    with server(respond) as (url, _):
        answer = cli("load", url, "net", "--concurrency", 1, *SHORT, "--json-tensors")
    assert answer.status == 1
    assert len(answer.out) < 5000
    assert "\x1b" not in answer.out


def test_an_answer_with_a_long_shape_is_refused_at_once(cli: Cli) -> None:
    output = {**X, "name": "y", "shape": [1 << 62] * 200_000, "data": [1]}
    good: Respond = lambda h: h.say(  # noqa: E731
        METADATA if h.command == "GET" else {"outputs": [output]}
    )
    with server(good) as (url, _):
        answer = cli("load", url, "net", "--concurrency", 1, *SHORT, "--json")
    assert answer.status == 1
    (level,) = answer.json["levels"]
    assert [error["first"] for error in level["errors"]] == [
        "y has 200000 axes, and there may be 32"
    ]


def test_answers_without_end_are_cut(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_MOST_COUNTED", 1 << 20)
    respond: Respond = lambda h: h.say(METADATA) if h.command == "GET" else h.say_without_end()  # noqa: E731
    with server(respond) as (url, _):
        answer = cli("load", url, "net", "--concurrency", 1, *SHORT, "--json")
    assert answer.status == 1
    (level,) = answer.json["levels"]
    assert [error["first"] for error in level["errors"]] == ["it has more than 1048576 bytes"]
