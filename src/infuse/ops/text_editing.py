"""Strings changed one by one: cases, patterns, parts, numbers as text."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import DataError, TypeMismatchError, UnsupportedOperatorError
from infuse.ir.graph import Value
from infuse.ops.core.base import Array, Elementwise
from infuse.ops.core.elementwise import f32
from infuse.ops.core.fingerprints import farm_fingerprint, sip_hash
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.traits import Trait
from infuse.ops.domains.ml import as_texts
from infuse.ops.text import compiled_pattern, require_text, texts
from infuse.ops.tokens import decoded

_BLANKS: Final = " \t\n\v\f\r"
_ASCII: Final = {
    "ascii_lower": {c: c + 32 for c in range(65, 91)},
    "ascii_upper": {c: c - 32 for c in range(97, 123)},
}
CHANGES: Final[dict[str, Callable[[str], str]]] = {
    "lower": str.lower,
    "upper": str.upper,
    "ascii_lower": lambda text: text.translate(_ASCII["ascii_lower"]),
    "ascii_upper": lambda text: text.translate(_ASCII["ascii_upper"]),
    "strip": lambda text: text.strip(_BLANKS),
}
UNITS: Final = ("byte", "character")


class _OfTexts(Elementwise, abstract=True):
    """An operator on each of some strings."""

    traits = Trait.ZERO_FLOPS
    domain = "infuse"

    def result_dtype(self, x: Value) -> DType:
        require_text(self.name, x)
        return dtypes.string

    def require(self, what: str, value: str, known: Any) -> None:
        """TypeMismatchError for an attribute that is none of these."""
        if value not in known:
            raise TypeMismatchError(f"{self.name} knows {what} {', '.join(known)}, not {value!r}")


def _each(function: Callable[[str], str], x: Array) -> Array:
    return as_texts([function(text) for text in decoded(x.reshape(-1))]).reshape(x.shape)


class ChangeText(_OfTexts):
    """Strings in another case (of ASCII alone, or of Unicode), or without the blanks of ASCII at
    both ends.
    """

    change: str = "lower"

    samples = cases(
        x=[texts("Éa ẞTRASSE", " \tA b\n", "", "\u00a0x"), texts(shape=(0, 2))],
        change=tuple(CHANGES),
    )

    def result_dtype(self, x: Value) -> DType:
        self.require("changes", self.change, CHANGES)
        return super().result_dtype(x)

    def eval(self, x: Array) -> Array:
        return _each(CHANGES[self.change], x)


class ReplaceText(_OfTexts):
    r"""Strings in which all that a pattern in RE2's syntax matches, or the first of it (`once`), is
    replaced; `\0` to `\9` in the replacement stand for groups. Needs the package google-re2.
    """

    pattern: str
    replacement: str = ""
    once: int = 0

    samples = cases(
        x=[texts("a-b--c", "wörld x", "", "aaa"), texts("ab 12", shape=(1, 1))],
        pattern=["[-a]", r"(\w+) (\w+)", "x*"],
        replacement=["", "<\\0>", "_"],
        once=[0, 1],
    )

    def result_dtype(self, x: Value) -> DType:
        compiled_pattern(self.pattern)
        self._parts  # noqa: B018  a bad replacement is an error here, and not of the first run
        return super().result_dtype(x)

    @cached_property
    def _parts(self) -> list[str | int]:
        """The replacement as texts and numbers of groups."""
        groups = compiled_pattern(self.pattern).groups
        parts: list[str | int] = []
        for part in re.findall(r"\\.?|[^\\]+", self.replacement, re.DOTALL):
            if not part.startswith("\\") or part == "\\\\":
                parts.append("\\" if part == "\\\\" else part)
            elif part[1:].isdigit() and int(part[1:]) <= groups:
                parts.append(int(part[1:]))
            else:
                raise UnsupportedOperatorError(
                    f"the replacement {self.replacement!r} has {part!r}, and the pattern "
                    f"{self.pattern!r} {groups} groups"
                )
        return parts

    def _replaced(self, text: str) -> str:
        pattern, end = compiled_pattern(self.pattern), -1

        def one(match: Any) -> str:
            nonlocal end
            # RE2 has no empty match behind another one, Python has.
            if match.start() == match.end() == end:
                return ""
            end = match.end()
            parts = [p if isinstance(p, str) else match.group(p) or "" for p in self._parts]
            return "".join(parts)

        return str(pattern.sub(one, text, int(bool(self.once))))

    def eval(self, x: Array) -> Array:
        return _each(self._replaced, x)


class SubText(_OfTexts):
    """From each string so many bytes or characters from a place on, counted from the end where it
    is negative; what is left where there are fewer. DataError for a place outside of a string.
    """

    start: int = 0
    length: int = 1
    unit: str = "byte"

    samples = cases(
        x=[texts("Éabc", "abcd", "日本語テキスト", "xyz"), texts("hello", shape=(1, 1))],
        start=[1, -3, 0],
        length=[2, 0],
        unit=["character"],
    )

    def result_dtype(self, x: Value) -> DType:
        self.require("the units", self.unit, UNITS)
        return super().result_dtype(x)

    def eval(self, x: Array) -> Array:
        return _each(self._part, x)

    def _part(self, text: str) -> str:
        data: Any = text.encode("utf-8", "surrogateescape") if self.unit == "byte" else text
        first = self.start if self.start >= 0 else len(data) + self.start
        if not 0 <= first <= len(data):
            raise DataError(
                f"{self.name} begins at place {self.start} of {text[:40]!r}, which has {len(data)} "
                f"{self.unit}s"
            )
        part = data[first : first + max(self.length, 0)]
        return str(part.decode("utf-8", "surrogateescape") if self.unit == "byte" else part)


class TextLength(_OfTexts):
    """The number of bytes in UTF-8 of each string, or of its characters: int32."""

    unit: str = "byte"

    samples = cases(x=[texts("Éa", "", "日本"), texts("abc", shape=(1, 1))], unit=UNITS)

    def result_dtype(self, x: Value) -> DType:
        self.require("the units", self.unit, UNITS)
        super().result_dtype(x)
        return dtypes.int32

    def eval(self, x: Array) -> Array:
        listed = decoded(x.reshape(-1))
        if self.unit == "byte":
            sizes = [len(text.encode("utf-8", "surrogateescape")) for text in listed]
        else:
            sizes = [len(text) for text in listed]
        return np.array(sizes, np.int32).reshape(x.shape)


class TextBucket(_OfTexts):
    """The bucket of each string, of so many: FarmHash's Fingerprint64 of its UTF-8, or SipHash with
    a `key` of two numbers, modulo their number; int64.
    """

    buckets: int
    key: tuple[int, ...] = ()

    samples = cases(
        x=[texts("", "a", "Zürich", "nine char", "s" * 20, "t" * 40, "u" * 64, "v" * 200)],
        buckets=[7, 1 << 31],
        key=[(), (7, 1 << 62)],
    )

    def result_dtype(self, x: Value) -> DType:
        if self.buckets < 1 or len(self.key) not in (0, 2):
            raise TypeMismatchError(
                f"{self.name} has {self.buckets} buckets and a key of {len(self.key)} numbers"
            )
        super().result_dtype(x)
        return dtypes.int64

    def eval(self, x: Array) -> Array:
        listed = decoded(x.reshape(-1))
        known = {text: self._bucket(text) for text in set(listed)}
        return np.array([known[text] for text in listed], np.int64).reshape(x.shape)

    def _bucket(self, text: str) -> int:
        data = text.encode("utf-8", "surrogateescape")
        key = self.key
        value = sip_hash(data, (key[0], key[1])) if key else farm_fingerprint(data)
        return value % self.buckets


class FormatNumber(Elementwise):
    """Numbers as texts by a format of C (`%d`, `%6.2f`, `%e`, `%g`, …), `true` and `false`."""

    traits = Trait.ZERO_FLOPS
    domain = "infuse"

    format: str = "%d"

    samples = (
        cases(x=[Ints((2, 3), -9, 999)], format=["%d", "%05d"]),
        cases(x=[f32(1.5, -0.0, 1e20, np.inf)], format=["%f", "%8.2e", "%g"]),
        cases(x=[np.array([True, False])], format=["%d"]),
    )

    def result_dtype(self, x: Value) -> DType:
        kinds = "di" if not x.dtype.is_float else "feEgG"
        if not re.fullmatch(rf"%[-0+ #]?\d{{0,3}}(\.\d{{1,3}})?[{kinds}]", self.format):
            raise TypeMismatchError(f"{self.name} has no format {self.format!r} for {x.dtype}")
        return dtypes.string

    def eval(self, x: Array) -> Array:
        if x.dtype == bool:
            listed = ["true" if v else "false" for v in x.reshape(-1).tolist()]
        else:
            listed = [self.format % v for v in x.reshape(-1).tolist()]
        return as_texts(listed).reshape(x.shape)
