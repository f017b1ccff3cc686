"""Reads the words of the text form: dimensions, types, elements and attribute values; `text` writes
them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import InfuseError
from infuse.ir import dims
from infuse.ir.dims import Dim, Expr
from infuse.ir.graph import Array
from infuse.ir.lexer import Cursor
from infuse.ir.text import read_elements
from infuse.ir.types import (
    DataFormat,
    MapType,
    OptionalType,
    SequenceType,
    StateType,
    TensorType,
    Type,
)

TERM_LIMIT = 1024
_DTYPES = {d.name: d for d in dtypes.ALL}
_REALS = {"inf": math.inf, "nan": math.nan}
_WORDS: dict[str, Any] = {"None": None, "True": True, "False": False, **_REALS}
_CALLS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "max": dims.maximum,
    "min": dims.minimum,
    "broadcast": dims.broadcast,
}
_PRODUCTS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "*": operator.mul,
    "//": dims.floordiv,
    "%": dims.mod,
}


class Literals:
    """A reader of words at `cursor`."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor

    # -- dimensions --------------------------------------------------------------------------------

    def dim(self) -> Dim:
        """A sum of products of numbers, symbols, quotients, remainders, max(a, b) and min(a, b)."""
        cursor = self.cursor
        total: Dim = -self.product() if cursor.accept("-") else self.product()
        while cursor.at("+") or cursor.at("-"):
            subtract = cursor.advance().text == "-"
            total = total - self.product() if subtract else total + self.product()
        return total

    def product(self) -> Dim:
        cursor = self.cursor
        result = self.factor()
        while cursor.token.kind == "mark" and cursor.token.text in _PRODUCTS:
            token = cursor.advance()
            other = self.factor()
            if _terms(result) * _terms(other) > TERM_LIMIT:
                cursor.fail_at(
                    token.position, f"a product of sums has more than {TERM_LIMIT} terms"
                )
            try:
                result = _PRODUCTS[token.text](result, other)
            except InfuseError as error:
                cursor.fail_at(token.position, error.what, error)
        return result

    def factor(self) -> Dim:
        cursor = self.cursor
        if cursor.token.kind == "number":
            return self.integer()
        if cursor.token.kind == "string":
            return dims.symbol(cursor.string("a symbol"))
        with cursor.nested():
            if cursor.accept("("):
                inner = self.dim()
                cursor.expect(")")
                return inner
            if cursor.accept("-"):
                return -self.factor()
            name = cursor.take("word", "a size: a number, a symbol or an expression of them")
            if name not in _CALLS or not cursor.accept("("):
                return dims.symbol(name)
            first = self.dim()
            cursor.expect(",")
            second = self.dim()
            cursor.expect(")")
            return _CALLS[name](first, second)

    def integer(self) -> int:
        token = self.cursor.token
        try:
            return int(self.cursor.take("number", "a whole number"))
        except ValueError as error:
            self.cursor.fail_at(token.position, f"{token.text[:40]} is not a whole number", error)

    # -- types -------------------------------------------------------------------------------------

    def type(self) -> Type:
        """`float32[batch, 3]@NHWC`, `int64[?]`, `seq(TYPE)`, `optional(TYPE)`, `map(int64,
        TYPE)` or `state(TENSOR)`.
        """
        cursor = self.cursor
        if (cursor.at("seq") or cursor.at("optional")) and cursor.follows("("):
            kind = SequenceType if cursor.advance().text == "seq" else OptionalType
            cursor.expect("(")
            with cursor.nested():
                inner = self.type()
            cursor.expect(")")
            return kind(inner)
        if cursor.at("state") and cursor.follows("("):
            cursor.advance()
            cursor.expect("(")
            tensor = self.tensor()
            cursor.expect(")")
            return StateType(tensor)
        if cursor.at("map") and cursor.follows("("):
            cursor.advance()
            cursor.expect("(")
            with cursor.nested():
                key = self.dtype()
                cursor.expect(",")
                inner = self.type()
            cursor.expect(")")
            return MapType(key, inner)
        return self.tensor()

    def tensor(self) -> TensorType:
        cursor = self.cursor
        dtype = self.dtype()
        cursor.expect("[")
        shape: list[Dim] | None = None
        if cursor.accept("?"):
            cursor.expect("]")
        else:
            shape = [self.size() for _ in cursor.separated("]")]
        start = cursor.token
        format = self.format() if cursor.at("@") else DataFormat.ND
        if shape is not None and not format.fits(len(shape)):
            cursor.fail_at(
                start.position, f"a tensor of rank {len(shape)} cannot be stored as {format.value}"
            )
        return TensorType(dtype, None if shape is None else tuple(shape), format)

    def size(self) -> Dim:
        start = self.cursor.token
        size = self.dim()
        if isinstance(size, int) and size < 0:
            self.cursor.fail_at(start.position, f"a size is at least zero, found {size}")
        return size

    def dtype(self) -> DType:
        token = self.cursor.token
        name = self.cursor.take("word", "an element type such as float32")
        if name not in _DTYPES:
            self.cursor.fail_at(
                token.position, f"expected an element type such as float32, found {name!r}"
            )
        return _DTYPES[name]

    def format(self) -> DataFormat:
        self.cursor.expect("@")
        token = self.cursor.token
        name = self.cursor.take("word", "a storage format")
        if name not in DataFormat.__members__:
            formats = ", ".join(DataFormat.__members__)
            self.cursor.fail_at(
                token.position, f"expected a storage format ({formats}), found {name!r}"
            )
        return DataFormat[name]

    # -- elements ----------------------------------------------------------------------------------

    def elements(self, type: TensorType) -> Array:
        """`{1.0, 2.0}` as an array of this type."""
        cursor = self.cursor
        start = cursor.token
        shape = self.static(type)
        cursor.expect("{")
        elements = [self.element() for _ in cursor.separated("}")]
        self.check_count(len(elements), shape, start.position)
        try:
            return read_elements(elements, type.dtype, shape)
        except (TypeError, ValueError, OverflowError) as error:
            cursor.fail_at(start.position, f"the elements do not fit {type}: {error}", error)

    def element(self) -> Any:
        cursor = self.cursor
        if cursor.token.kind == "string":
            return cursor.string("an element")
        for text in ("True", "False"):
            if cursor.accept(text):
                return text == "True"
        return self.number()

    def content(self, type: Type) -> Array:
        """`{batch, 3}`: what is known of the elements of an integer or boolean value."""
        cursor = self.cursor
        start = cursor.token
        if not isinstance(type, TensorType):
            cursor.fail("only the elements of a tensor can be known")
        shape = self.static(type)
        cursor.expect("{")
        elements = [self.content_element() for _ in cursor.separated("}")]
        self.check_count(len(elements), shape, start.position)
        array = np.empty(len(elements), dtype=object)
        array[:] = elements
        return array.reshape(shape)

    def content_element(self) -> Dim:
        for text in ("True", "False"):
            if self.cursor.accept(text):
                return text == "True"
        return self.dim()

    def static(self, type: TensorType) -> tuple[int, ...]:
        shape = tuple(d for d in type.shape or () if isinstance(d, int))
        if type.shape is None or len(shape) < len(type.shape):
            self.cursor.fail(f"elements need a shape of numbers, not {type}")
        return shape

    def check_count(self, count: int, shape: tuple[int, ...], position: int) -> None:
        if count != math.prod(shape):
            self.cursor.fail_at(position, f"expected {math.prod(shape)} elements, found {count}")

    def number(self) -> int | float:
        """A whole number or a real one, `inf` and `nan` included."""
        cursor = self.cursor
        if cursor.accept("-"):
            return -self.number()
        for text, real in _REALS.items():
            if cursor.accept(text):
                return real
        if cursor.token.kind == "number" and not cursor.token.text.isdigit():
            return float(cursor.advance().text)
        return self.integer()

    # -- attributes --------------------------------------------------------------------------------

    def attribute(self) -> Any:
        """The value of an attribute."""
        cursor = self.cursor
        token = cursor.token
        if token.kind == "string":
            return cursor.string("a value")
        if token.kind == "number" or cursor.at("-"):
            return self.number()
        if cursor.at("@"):
            return self.format()
        if cursor.accept("<"):
            dim = self.dim()
            cursor.expect(">")
            return dim
        if cursor.accept("("):
            with cursor.nested():
                return tuple(self.attribute() for _ in cursor.separated(")"))
        if token.kind == "word" and token.text in _WORDS:
            return _WORDS[cursor.advance().text]
        if cursor.at("hex"):
            return self.hex()
        if token.text in _DTYPES and not cursor.follows("["):
            return self.dtype()
        if token.kind != "word":
            cursor.fail("expected the value of an attribute")
        return self.typed_attribute()

    def typed_attribute(self) -> Type | Array:
        """A type, or an array: a type with elements."""
        type = self.type()
        if not isinstance(type, TensorType):
            return type
        if self.cursor.at("hex"):
            start = self.cursor.token
            data = np.frombuffer(self.hex(), dtype=np.uint8)
            shape = self.static(type)
            if type.dtype.kind == "s" or len(data) != math.prod(shape) * type.dtype.numpy.itemsize:
                self.cursor.fail_at(start.position, f"{len(data)} bytes do not make {type}")
            return data.view(type.dtype.numpy).reshape(shape)
        return self.elements(type) if self.cursor.at("{") else type

    def hex(self) -> bytes:
        """`hex"00ff"` as bytes."""
        self.cursor.expect("hex")
        token = self.cursor.token
        try:
            return bytes.fromhex(self.cursor.string("hexadecimal digits in quotes"))
        except ValueError as error:
            self.cursor.fail_at(
                token.position, f"{token.text[:40]} are not hexadecimal digits", error
            )


def _terms(dim: Dim) -> int:
    return len(dim.terms) if isinstance(dim, Expr) else 1
