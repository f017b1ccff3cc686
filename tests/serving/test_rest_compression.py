"""Compressed bodies: read, written, and refused where they are damaged or too large."""

import gzip
import zlib
from typing import Any

import pytest

from infuse.errors import RequestError, TooLargeError
from infuse.serving.transports.rest.compression import accepted_coding, deflate, inflate
from infuse.serving.transports.rest.refusals import Refusal
from tests.serving.rest_apps import INFER, data_app
from tests.serving.rest_tools import FakeEngine, ask, plain

pytestmark = pytest.mark.row("S1")


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_compressed_bodies_come_back(coding: str) -> None:
    assert inflate(deflate([b"ab" * 99, b"c"], coding), coding, 199) == b"ab" * 99 + b"c"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_bomb_is_refused_at_the_limit(coding: str) -> None:
    bomb = deflate([bytes(1 << 20)] * 64, coding)
    with pytest.raises(TooLargeError):
        inflate(bomb, coding, 1 << 16)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize(
    "damage", [lambda b: b[:-3], lambda b: b"\xff" + b[1:], lambda b: b + b"x", lambda b: b""]
)
def test_damaged_compression_is_refused(coding: str, damage: Any) -> None:
    with pytest.raises(RequestError):
        inflate(damage(deflate([b"hello" * 99], coding)), coding, 1 << 16)


def test_unknown_codings_are_refused() -> None:
    with pytest.raises(Refusal) as caught:
        inflate(b"x", "br", 9)
    assert caught.value.status == 415


@pytest.mark.parametrize(
    ("accept", "coding"),
    [
        ("gzip", "gzip"),
        (" Deflate ", "deflate"),
        ("gzip;q=0.5", "gzip"),
        ("gzip;q=0", ""),
        ("gzip, deflate", ""),
        ("br", ""),
        ("*", ""),
        ("", ""),
    ],
)
def test_an_answer_is_compressed_when_one_coding_is_asked_for(accept: str, coding: str) -> None:
    assert accepted_coding(accept) == coding


@pytest.mark.parametrize("sizes", [(5, 7), (0, 3, 0), (300_000, 1, 300_000)])
def test_gzip_of_several_members_is_one_body(sizes: tuple[int, ...]) -> None:
    """As RFC 1952 has it, and as `cat a.gz b.gz` writes it."""
    parts = [bytes([number + 65]) * size for number, size in enumerate(sizes)]
    packed = b"".join(gzip.compress(part) for part in parts)
    assert inflate(packed, "gzip", 1 << 20) == b"".join(parts) == gzip.decompress(packed)
    with pytest.raises(TooLargeError):
        inflate(packed, "gzip", sum(sizes) - 1)
    with pytest.raises(RequestError, match="cut off"):
        inflate(packed[:-1], "gzip", 1 << 20)
    with pytest.raises(RequestError):
        inflate(packed + b"no member", "gzip", 1 << 20)
    with pytest.raises(RequestError, match="bytes follow"):
        inflate(b"".join(zlib.compress(part) for part in parts), "deflate", 1 << 20)


def test_members_without_number_are_refused() -> None:
    with pytest.raises(RequestError, match="more than 256 members"):
        inflate(gzip.compress(b"") * 257, "gzip", 1 << 20)


@pytest.mark.parametrize("size", [*range(1, 40), 65_534, 65_535, 65_536, 65_537, 262_144])
def test_streams_that_end_with_a_piece_are_whole(size: int) -> None:
    raw = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = raw.compress(bytes(size)) + raw.flush()
    assert inflate(packed, "deflate", size) == bytes(size)


@pytest.mark.parametrize("accept", ["", "gzip", "gzip, deflate"])
def test_caches_are_told_what_an_answer_depends_on(accept: str) -> None:
    app = data_app(FakeEngine())
    headers = {"accept-encoding": accept} if accept else {}
    answer = ask(app, "POST", INFER, plain([[1, 2, 3, 4]], [1, 4]), headers)
    assert answer.status == 200
    assert answer.headers["vary"] == "accept-encoding"
