"""How a call ends that has failed."""

from __future__ import annotations

import logging
from itertools import accumulate
from typing import Final
from urllib.parse import quote

import grpc
import grpc.aio

from infuse.errors import InfuseError, OverloadError
from infuse.serving.control.statuses import grpc_code, public_text

_log = logging.getLogger(__name__)
# bytes of an error in a header, percent-encoded; from 8 KiB on callers refuse some of them
_MOST_TEXT: Final = 4000
_PLAIN: Final = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")


async def refuse(context: grpc.aio.ServicerContext, error: Exception) -> None:
    """End a call with the status and the text of an error."""
    trailing = (
        (("retry-after", f"{error.retry_after:g}"),) if isinstance(error, OverloadError) else ()
    )
    await context.abort(grpc.StatusCode[grpc_code(error)], text_of(error), trailing)


def text_of(error: Exception) -> str:
    """What a caller may read of an error; one that nobody expected is logged."""
    if not isinstance(error, InfuseError):
        _log.error("a call failed", exc_info=error)
    return _cut(public_text(error))


def _cut(text: str) -> str:
    """As much of a text as its header may hold, where all but printable ASCII takes three bytes for
    one.
    """
    sizes = accumulate(len(quote(letter, safe=_PLAIN)) for letter in text)
    length = sum(size <= _MOST_TEXT for size in sizes)
    return text if length == len(text) else f"{text[:length]}…"
