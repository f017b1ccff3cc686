"""Compressed bodies: requests are inflated within a bound, answers are compressed when they are
asked to be.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

from infuse.errors import RequestError, TooLargeError
from infuse.serving.transports.elements import Buffer
from infuse.serving.transports.rest.refusals import Refusal
from infuse.serving.tuning import PIECE_BYTES

_GZIP: Final = 16 + zlib.MAX_WBITS
_RAW: Final = -zlib.MAX_WBITS
_MOST_TOGETHER: Final = 1 << 16  # compressed bytes that are looked at together
_MOST_MEMBERS: Final = 256  # of gzip, in a body
_LEVEL: Final = (
    zlib.Z_BEST_SPEED
)  # tensors hardly shrink more by a higher one, and it takes several times as long


def inflate(body: Buffer, coding: str, most: int) -> Buffer:
    """A body without its Content-Encoding (`gzip`, `deflate`, `identity`).

    TooLargeError when more than `most` bytes come out of it, RequestError when it is damaged,
    Refusal (415) for another coding.
    """
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        return body
    if coding in ("gzip", "x-gzip"):
        return _inflated(body, _GZIP, most)
    if coding == "deflate":
        # Both are sent under this name: with zlib's frame, whose first byte ends in 8, and without.
        framed = len(body) > 1 and body[0] & 15 == 8 and (body[0] * 256 + body[1]) % 31 == 0
        return _inflated(body, zlib.MAX_WBITS if framed else _RAW, most)
    raise Refusal(
        415,
        f"the Content-Encoding {coding!r} is not known",
        headers={"accept-encoding": "gzip, deflate"},
    )


def _inflated(body: Buffer, bits: int, most: int) -> bytearray:
    """What a body was before; gzip is one member after another (RFC 1952)."""
    source, position, members = memoryview(body), 0, 0
    plain = bytearray()
    while position < len(source) or not members:
        members += 1
        if members > _MOST_MEMBERS:
            raise RequestError(f"the compressed body has more than {_MOST_MEMBERS} members")
        position = _member(source, position, bits, plain, most)
        if bits != _GZIP and position < len(source):
            raise RequestError("bytes follow the compressed body")
    return plain


def _member(source: memoryview, position: int, bits: int, plain: bytearray, most: int) -> int:
    """Append what one compressed stream holds; where it ends."""
    stream = zlib.decompressobj(bits)
    rest: Buffer = b""
    try:
        while not stream.eof:
            if not rest:
                rest = source[position : position + _MOST_TOGETHER]
                position += len(rest)
            piece = stream.decompress(rest, min(PIECE_BYTES, most + 1 - len(plain)))
            plain += piece
            if len(plain) > most:
                raise TooLargeError(f"the body is larger than {most} bytes when it is decompressed")
            if not (piece or rest or stream.eof):
                raise RequestError("the compressed body is cut off")
            rest = stream.unconsumed_tail
    except zlib.error as error:
        raise RequestError(f"the compressed body is damaged: {error}") from error
    return position - len(stream.unused_data)


def accepted_coding(accept: str) -> str:
    """The coding of an answer by the request's Accept-Encoding: `gzip`, `deflate` or none.

    A client that names exactly one coding wants it. Those that name several are HTTP libraries that
    can read them: they get no compression, which would cost more time than it saves for tensors.
    """
    codings = [part.strip().lower() for part in accept.split(",")]
    if len(codings) != 1:
        return ""
    coding, _, quality = codings[0].partition(";")
    coding = coding.strip()
    zero = quality.replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return coding if coding in ("gzip", "deflate") and not zero else ""


def deflate(parts: Sequence[Buffer], coding: str) -> bytes:
    """The parts of a body as one, compressed."""
    stream = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP if coding == "gzip" else zlib.MAX_WBITS)
    return b"".join([*(stream.compress(part) for part in parts), stream.flush()])
