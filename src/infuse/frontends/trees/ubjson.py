"""Universal Binary JSON (ubjson.org, draft 12), as far as XGBoost writes it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from infuse.errors import ModelFileError

_NUMBERS: Final = {
    b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8",
}  # fmt: skip
_INTEGERS: Final = frozenset(b"iUIlL")
_PLAIN: Final = {b"Z": None, b"T": True, b"F": False}
_DEEPEST: Final = 200


def loads(data: bytes | memoryview) -> Any:
    """The value that a document holds; arrays of one type of numbers are NumPy arrays.

    ModelFileError where it is cut off or none.
    """
    reader = _Reader(memoryview(data))
    value = reader.value(reader.take(1))
    if reader.place != len(reader.data):
        raise ModelFileError(f"bytes follow the end of the document, at {reader.place}")
    return value


class _Reader:
    def __init__(self, data: memoryview) -> None:
        self.data, self.place, self.depth = data, 0, 0

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if not 0 <= count <= len(self.data) - self.place:
            raise ModelFileError(
                f"{count} bytes are to follow byte {self.place} of {len(self.data)}",
                hint="the file was cut off; fetch or save it again",
            )
        self.place += count
        return bytes(self.data[self.place - count : self.place])

    def next_is(self, marker: bytes) -> bool:
        """Whether a marker comes next, which is then passed."""
        follows = self.data[self.place : self.place + 1] == marker
        self.place += follows
        return follows

    def value(self, marker: bytes) -> Any:
        """The value behind its marker."""
        if marker in _NUMBERS:
            kind = np.dtype(_NUMBERS[marker])
            return np.frombuffer(self.take(kind.itemsize), kind)[0].item()
        if marker in _PLAIN:
            return _PLAIN[marker]
        if marker in (b"S", b"C"):
            return self.text(self.length() if marker == b"S" else 1)
        if marker not in (b"[", b"{"):
            raise ModelFileError(f"marker {marker!r} before byte {self.place} has no meaning")
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ModelFileError(f"the document has more than {_DEEPEST} levels")
        result = self.array() if marker == b"[" else self.object()
        self.depth -= 1
        return result

    def length(self) -> int:
        marker = self.take(1)
        if marker[0] not in _INTEGERS:
            raise ModelFileError(f"marker {marker!r} before byte {self.place} is that of no length")
        return int(self.value(marker))

    def text(self, size: int) -> str:
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise ModelFileError(f"the text before byte {self.place} is not UTF-8") from error

    def header(self) -> tuple[bytes, int | None]:
        """The type of all elements and their number, where a container says them."""
        kind = self.take(1) if self.next_is(b"$") else b""
        count = self.length() if self.next_is(b"#") else None
        if kind and count is None:
            raise ModelFileError(f"a type without a count before byte {self.place}")
        if count is not None and not 0 <= count <= len(self.data) - self.place:
            raise ModelFileError(f"{count} elements are to follow byte {self.place}")
        return kind, count

    def array(self) -> Any:
        kind, count = self.header()
        if kind in _NUMBERS:
            assert count is not None
            dtype = np.dtype(_NUMBERS[kind])
            return np.frombuffer(self.take(count * dtype.itemsize), dtype).astype(
                dtype.newbyteorder("=")
            )
        if count is not None:
            return [self.value(kind or self.take(1)) for _ in range(count)]
        elements = []
        while not self.next_is(b"]"):
            elements.append(self.value(self.take(1)))
        return elements

    def object(self) -> dict[str, Any]:
        kind, count = self.header()
        members: dict[str, Any] = {}
        while len(members) < count if count is not None else not self.next_is(b"}"):
            name = self.text(self.length())
            if name in members:
                raise ModelFileError(f"two members of one object are called {name!r}")
            members[name] = self.value(kind or self.take(1))
        return members
