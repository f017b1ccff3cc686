"""Compressed bodies: read, written, and refused where they are damaged or too large."""

from typing import Any

import pytest

from infuse.errors import RequestError, TooLargeError
from infuse.serving.transports.rest.compression import accepted_coding, deflate, inflate
from infuse.serving.transports.rest.refusals import Refusal

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
