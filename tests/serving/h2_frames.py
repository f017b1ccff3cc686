"""A caller that speaks HTTP/2 by hand, frame by frame: what no library would send."""

from __future__ import annotations

import re
import socket
import struct
import time
from types import TracebackType
from typing import NamedTuple

DATA, HEADERS, RST_STREAM, SETTINGS, PING = 0, 1, 3, 4, 6
END_STREAM, ACK, END_HEADERS = 1, 1, 4
SECONDS = 30.0
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_NO_TABLE = struct.pack(">HI", 1, 0)  # of headers: whoever answers writes all of them out


class Frame(NamedTuple):
    """A frame as it came."""

    kind: int
    flags: int
    stream: int
    payload: bytes


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame as it is sent."""
    return (
        struct.pack(">I", len(payload))[1:]
        + bytes((kind, flags))
        + struct.pack(">I", stream)
        + payload
    )


def head(path: str) -> bytes:
    """The headers of a call, written out."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "localhost",
        "te": "trailers",
        "content-type": "application/grpc",
    }
    plain = ((name.encode(), value.encode()) for name, value in fields.items())
    return b"".join(
        bytes((0, len(name))) + name + bytes((len(value),)) + value for name, value in plain
    )


def message(data: bytes) -> bytes:
    """A message with its length before it."""
    return struct.pack(">BI", 0, len(data)) + data


class Caller:
    """A connection that answers what keeps it alive, and else says only what it is told to."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        self._next = 1
        self._rest = b""
        self._come: list[Frame] = []
        self.send(_HELLO + frame(SETTINGS, 0, 0, _NO_TABLE))
        while not any(each.kind == SETTINGS and each.flags & ACK for each in self._come):
            self._receive(SECONDS)

    def __enter__(self) -> Caller:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def open(self, path: str, flags: int = 0) -> int:
        """Begin a call; the number of its stream."""
        stream, self._next = self._next, self._next + 2
        self.send(frame(HEADERS, END_HEADERS | flags, stream, head(path)))
        return stream

    def say(self, stream: int, data: bytes, flags: int = 0) -> None:
        """Send data of a call."""
        self.send(frame(DATA, flags, stream, data))

    def ended(self, stream: int, dribbled: bytes = b"", every: float = 0.02) -> int:
        """The status that a call ends with, while a byte of `dribbled` is sent now and then."""
        end = time.monotonic() + SECONDS
        while not any(
            each.kind == RST_STREAM or each.flags & END_STREAM for each in self._of(stream)
        ):
            assert time.monotonic() < end, "the call does not end"
            if dribbled:
                self.say(stream, dribbled[:1])
                dribbled = dribbled[1:]
            self._receive(every)
        told = b"".join(each.payload for each in self._of(stream) if each.kind == HEADERS)
        return int(re.findall(rb"grpc-status[\x01\x02](\d+)", told)[0])

    def answers(self, stream: int) -> list[bytes]:
        """The messages that have come, when there are some."""
        end = time.monotonic() + SECONDS
        while not (
            data := b"".join(each.payload for each in self._of(stream) if each.kind == DATA)
        ):
            assert time.monotonic() < end, "there is no answer"
            self._receive(0.1)
        found = []
        while data:
            size = int.from_bytes(data[1:5], "big")
            found.append(data[5 : 5 + size])
            data = data[5 + size :]
        return found

    def closed(self, dribbled: bytes = b"", every: float = 0.02) -> bool:
        """Whether the server ends the connection, while a byte of `dribbled` is sent now and then,
        and nothing else.
        """
        end = time.monotonic() + SECONDS
        try:
            while time.monotonic() < end:
                self.send(dribbled[:1])
                dribbled = dribbled[1:]
                self._receive(every, mute=True)
        except ConnectionError:
            return True
        return False

    def _of(self, stream: int) -> list[Frame]:
        return [each for each in self._come if each.stream == stream]

    def _receive(self, seconds: float, mute: bool = False) -> None:
        """Take what comes within some time; ConnectionError when that is the end."""
        self._socket.settimeout(seconds)
        try:
            part = self._socket.recv(1 << 16)
        except TimeoutError:
            return
        if not part:
            raise ConnectionError("the connection has ended")
        self._rest += part
        while len(self._rest) >= 9 + int.from_bytes(self._rest[:3], "big"):
            size = 9 + int.from_bytes(self._rest[:3], "big")
            kind, flags = self._rest[3:5]
            each = Frame(kind, flags, int.from_bytes(self._rest[5:9], "big"), self._rest[9:size])
            self._rest = self._rest[size:]
            self._come.append(each)
            if kind in (SETTINGS, PING) and not flags & ACK and not mute:
                self.send(frame(kind, ACK, 0, each.payload if kind == PING else b""))
