"""The header of a GGUF file: typed values, read in order, each checked against the file's end."""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt

from infuse import budgets
from infuse.errors import ModelFileError

_WORD: Final = struct.Struct("<I")
_LONG: Final = struct.Struct("<Q")
_BOOL, _STRING, _ARRAY = 7, 8, 9
_SCALARS: Final[Mapping[int, np.dtype[Any]]] = {
    0: np.dtype("<u1"), 1: np.dtype("<i1"), 2: np.dtype("<u2"), 3: np.dtype("<i2"),
    4: np.dtype("<u4"), 5: np.dtype("<i4"), 6: np.dtype("<f4"), _BOOL: np.dtype("?"),
    10: np.dtype("<u8"), 11: np.dtype("<i8"), 12: np.dtype("<f8"),
}  # fmt: skip
"""Element types by the format's numbers."""
_LEAST: Final = {_STRING: 8, _ARRAY: 12}
"""Bytes that a string or an array has at least."""
_DEEPEST: Final = 4
HINT: Final = "the file was cut off or damaged; fetch or convert it again"


class Strings(Sequence[str]):
    """An array of strings in the file, decoded when they are asked for; ModelFileError for one
    that is not UTF-8.
    """

    def __init__(self, data: memoryview, ends: array[int], where: str) -> None:
        self._data, self._ends, self._where = data, ends, where

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        numbers = range(len(self))[index]
        if isinstance(numbers, range):
            return [self._decoded(number) for number in numbers]
        return self._decoded(numbers)

    def __iter__(self) -> Iterator[str]:
        return iter(self.all())

    def all(self) -> list[str]:
        """All strings, decoded together, which takes a fraction of the time."""
        ends = np.frombuffer(self._ends, np.uint64).astype(np.int64)
        data = np.frombuffer(self._data[ends[0] : ends[-1]], np.uint8)
        lengths = (ends[:-1, None] - ends[0] + np.arange(8)).reshape(-1)
        joined = np.delete(data, lengths)
        borders = ends - ends[0] - 8 * np.arange(len(ends))
        begins = (joined & 0xC0) != 0x80
        try:
            if not begins[borders[borders < len(joined)]].all():
                raise ValueError("a string begins within a character")
            text = joined.tobytes().decode()
        except ValueError:
            return [self._decoded(number) for number in range(len(self))]
        characters = np.concatenate([[0], np.cumsum(begins)])[borders].tolist()
        return [text[start:end] for start, end in pairwise(characters)]

    def _decoded(self, number: int) -> str:
        start, end = self._ends[number] + 8, self._ends[number + 1]
        return decoded(self._data[start:end], f"{self._where}: string {number}")


class Header:
    """A place in a file's header; every read moves it on and is checked before it is done.

    `where` names the file. ModelFileError for what is cut off or is not of the format, BudgetError
    for more strings, arrays and entries than the budget `entries` allows.
    """

    def __init__(self, data: memoryview, where: str) -> None:
        self.data, self.where, self.place = data, where, 0
        self._entries = 0

    def word(self, what: str) -> int:
        """An unsigned number of 32 bits."""
        return int(_WORD.unpack_from(self.data, self._passed(4, what))[0])

    def long(self, what: str) -> int:
        """An unsigned number of 64 bits."""
        return int(_LONG.unpack_from(self.data, self._passed(8, what))[0])

    def longs(self, count: int, what: str) -> tuple[int, ...]:
        """Unsigned numbers of 64 bits."""
        return struct.unpack_from(f"<{count}Q", self.data, self._passed(8 * count, what))

    def text(self, what: str) -> str:
        """A string."""
        length = self.long(f"the length of {what}")
        start = self._passed(length, what)
        return decoded(self.data[start : start + length], f"{self.where}: {what}")

    def count(self, least: int, what: str) -> int:
        """A number of items that have `least` bytes each, at least."""
        number = self.long(f"the number of {what}")
        left = len(self.data) - self.place
        if number * least > left:
            raise ModelFileError(
                f"it states {number} {what}, and only {left} bytes follow",
                where=self.where,
                hint=HINT,
            )
        self._entries += number
        budgets.spend("entries", self._entries, f"{self.where}: with {what}, the header has")
        return number

    def value(self, what: str) -> Any:
        """A typed value: int, float, bool, str, a read-only array, `Strings`, or a list of these
        for nested arrays.
        """
        return self._of(self.word(f"the type of {what}"), what, 0)

    def _of(self, kind: int, what: str, depth: int) -> Any:
        if kind in _SCALARS:
            dtype = _SCALARS[kind]
            start = self._passed(dtype.itemsize, what)
            return self._numbers(kind, start, 1, what)[0].item()
        if kind == _STRING:
            return self.text(what)
        if kind != _ARRAY:
            raise ModelFileError(f"{what} has the unknown type {kind}", where=self.where, hint=HINT)
        if depth == _DEEPEST:
            raise ModelFileError(
                f"{what} is nested in more than {_DEEPEST} arrays", where=self.where
            )
        return self._array(what, depth + 1)

    def _array(self, what: str, depth: int) -> Any:
        kind = self.word(f"the element type of {what}")
        if kind in _SCALARS:
            number, size = self.long(f"the length of {what}"), _SCALARS[kind].itemsize
            return self._numbers(kind, self._passed(number * size, what), number, what)
        if kind not in _LEAST:
            raise ModelFileError(
                f"{what} is an array of the unknown type {kind}", where=self.where, hint=HINT
            )
        number = self.count(_LEAST[kind], f"elements of {what}")
        if kind == _STRING:
            return self._strings(number, what)
        return [self._of(kind, f"{what}[{index}]", depth) for index in range(number)]

    def _numbers(self, kind: int, start: int, number: int, what: str) -> npt.NDArray[Any]:
        dtype = _SCALARS[kind]
        numbers = np.frombuffer(self.data[start : start + number * dtype.itemsize], dtype)
        if kind == _BOOL and number and int(numbers.view(np.uint8).max()) > 1:
            raise ModelFileError(
                f"{what} has a truth value that is neither 0 nor 1", where=self.where, hint=HINT
            )
        return numbers

    def _strings(self, number: int, what: str) -> Strings:
        data, place, end = self.data, self.place, len(self.data)
        ends, length_at = array("Q", (place,)), _LONG.unpack_from
        add = ends.append
        try:
            for _ in range(number):
                place += 8 + length_at(data, place)[0]
                add(place)
        except (struct.error, OverflowError):
            place = end + 1
        if place > end:
            raise ModelFileError(
                f"string {bisect_right(ends, end) - 1} of {what} goes beyond the end of the file",
                where=self.where,
                hint=HINT,
            )
        self.place = place
        return Strings(data, ends, f"{self.where}: {what}")

    def _passed(self, size: int, what: str) -> int:
        """Where the next `size` bytes begin, which are then behind."""
        start = self.place
        if size > len(self.data) - start:
            raise ModelFileError(
                f"{what} needs {size} bytes from byte {start}, and the file has {len(self.data)}",
                where=self.where,
                hint=HINT,
            )
        self.place = start + size
        return start


def decoded(data: memoryview, where: str) -> str:
    """A string of the file; ModelFileError when it is not UTF-8."""
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise ModelFileError(f"it is not UTF-8: {error.reason}", where=where, hint=HINT) from error
