"""Complex numbers as two arrays: what nodes that move, add and multiply elements do with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from infuse.dtypes import DType
from infuse.errors import TypeMismatchError
from infuse.tracing.arrays.array import (
    COMPLEX,
    Array,
    Complex,
    lifted,
    node,
    nodes,
    source_line,
)
from infuse.tracing.arrays.control import scan
from infuse.tracing.arrays.elementwise import where
from infuse.tracing.arrays.floats import hypot
from infuse.tracing.arrays.manipulation import moveaxis
from infuse.tracing.arrays.sizes import axes_of
from infuse.tracing.calls import words

Rule = Callable[..., Any]

_BY_PARTS = words("""Add Sub Neg ReduceSum ReduceMean CumSum Round Transpose Reshape Slice
    Gather Concat Expand Unsqueeze Squeeze Split Tile GatherND GatherElements ScatterElements
    Trilu Where""")
"""Linear in what is complex of their operands: what they make of each part is a part."""


def real(x: Any, /) -> Array:
    """The real part, which an array of real numbers is itself."""
    array = lifted(x)
    return (array.real_part if isinstance(array, Complex) else array).copy()


def imag(x: Any, /) -> Array:
    """The imaginary part, which is 0 of real numbers."""
    array = lifted(x)
    if isinstance(array, Complex):
        return array.imag_part.copy()
    return node("Expand", lifted(0, array.dtype), node("Shape", array))


def conj(x: Any, /) -> Array:
    """The conjugate, which a real number is itself."""
    array = lifted(x)
    return (
        Complex(array.real_part, -array.imag_part) if isinstance(array, Complex) else array.copy()
    )


def rule(*kinds: str) -> Callable[[Rule], Rule]:
    """Let a function say what nodes of these kinds make of operands some of which are complex, of
    their attributes besides: an array or a list of them.
    """

    def register(function: Rule) -> Rule:
        for kind in kinds:
            COMPLEX[kind] = lambda count, *operands, **attributes: function(*operands, **attributes)
        return function

    return register


def parts_of(x: Any) -> tuple[Array, Array]:
    """The real and the imaginary part."""
    return real(x), imag(x)


def _by_parts(kind: str) -> Rule:
    def apply(count: int, *operands: Any, **attributes: Any) -> list[Array]:
        reals = [x.real_part if isinstance(x, Complex) else x for x in operands]
        imags = [x.imag_part if isinstance(x, Complex) else x for x in operands]
        made = (nodes(count, kind, *side, **attributes) for side in (reals, imags))
        return [Complex(re, im) for re, im in zip(*made, strict=True)]

    return apply


COMPLEX.update({kind: _by_parts(kind) for kind in _BY_PARTS})


@rule("Shape")
def _shape(x: Complex, **attributes: Any) -> Array:
    return node("Shape", x.real_part, **attributes)


@rule("Cast")
def _cast(x: Complex, to: DType) -> Array:
    if to.numpy.kind == "c":
        part = np.float32 if to.numpy.itemsize == 8 else np.float64
        return Complex(x.real_part.astype(part), x.imag_part.astype(part))
    if to.numpy.kind == "b":
        return (x.real_part != 0) | (x.imag_part != 0)
    raise TypeMismatchError(
        f"complex numbers cannot become {to}", where=source_line(), hint="use real(x) or abs(x)"
    )


@rule("NonZero")
def _nonzero(x: Complex) -> Array:
    return node("NonZero", x.astype(np.bool_))


@rule("Equal")
def _equal(a: Any, b: Any) -> Array:
    (re1, im1), (re2, im2) = parts_of(a), parts_of(b)
    return (re1 == re2) & (im1 == im2)


def _of_either(kind: str) -> Rule:
    return lambda count, x: node("Or", node(kind, x.real_part), node(kind, x.imag_part))


COMPLEX.update({kind: _of_either(kind) for kind in ("IsNaN", "IsInf")})


@rule("Mul")
def _multiply(a: Any, b: Any) -> Array:
    (re1, im1), (re2, im2) = parts_of(a), parts_of(b)
    return Complex(re1 * re2 - im1 * im2, re1 * im2 + im1 * re2)


@rule("MatMul")
def _matmul(a: Any, b: Any) -> Array:
    (re1, im1), (re2, im2) = parts_of(a), parts_of(b)
    return Complex(re1 @ re2 - im1 @ im2, re1 @ im2 + im1 @ re2)


@rule("Einsum")
def _einsum(*operands: Any, equation: str) -> Array:
    """Sums over the products of parts, with the power of i that each has."""
    sums: list[list[Array]] = [[], []]
    signs: list[list[int]] = [[], []]
    for choice in product((0, 1), repeat=len(operands)):
        chosen = [parts_of(x)[part] for x, part in zip(operands, choice)]
        power = sum(choice)
        sums[power & 1].append(node("Einsum", *chosen, equation=equation))
        signs[power & 1].append(1 - (power & 2))
    real_sum, imag_sum = (_signed(*pair) for pair in zip(sums, signs))
    return Complex(real_sum, imag_sum)


def _signed(terms: Sequence[Array], signs: Sequence[int]) -> Array:
    total = terms[0] if signs[0] > 0 else -terms[0]
    for term, sign in zip(terms[1:], signs[1:]):
        total = total + term if sign > 0 else total - term
    return total


@rule("Div")
def _divide(a: Any, b: Any) -> Array:
    """Smith's quotient, which stays in range where the numbers do."""
    (re, im), (c, d) = parts_of(a), parts_of(b)
    wide = abs(c) >= abs(d)
    most, least = where(wide, c, d), where(wide, d, c)
    ratio = least / where(most == 0, lifted(1, most.dtype), most)
    divisor = most + least * ratio
    over = where(wide, re + im * ratio, re * ratio + im)
    under = where(wide, im - re * ratio, im * ratio - re)
    return Complex(over / divisor, under / divisor)


@rule("Reciprocal")
def _reciprocal(x: Complex) -> Array:
    one = Complex(lifted(1, x.real_part.dtype), lifted(0, x.real_part.dtype))
    return one / x


@rule("Abs")
def _abs(x: Complex) -> Array:
    return hypot(x.real_part, x.imag_part)


@rule("Sign")
def _sign(x: Complex) -> Array:
    size = _abs(x)
    divisor = where(size == 0, lifted(1, size.dtype), size)
    return Complex(x.real_part / divisor, x.imag_part / divisor)


@rule("ReduceProd")
def _product(x: Complex, axes: Array | None = None, keepdims: int = 1) -> Array:
    """One factor after the other, axis by axis."""
    constant = None if axes is None else axes.value.const
    places = axes_of(None if constant is None else [int(a) for a in constant], x.ndim)
    result: Array = x
    for axis in sorted(places, reverse=True):
        rows = moveaxis(result, axis, 0)
        (result,), _ = scan(lambda s, row: ((s[0] * row[0],), ()), (_one_like(rows),), (rows,))
        if keepdims:
            result = node("Unsqueeze", result, lifted(np.array([axis])))
    return result


@rule("CumProd")
def _running_product(x: Complex, axis: Array) -> Array:
    assert axis.value.const is not None
    rows = moveaxis(x, int(axis.value.const), 0)
    _, (result,) = scan(lambda s, row: _twice(s[0] * row[0]), (_one_like(rows),), (rows,))
    result = moveaxis(result, 0, int(axis.value.const))
    return node("Reshape", result, node("Shape", x), allowzero=1)  # of an empty array, too


def _twice(x: Array) -> tuple[tuple[Array], tuple[Array]]:
    return (x,), (x,)


def _one_like(rows: Array) -> Array:
    """Ones in the shape of an entry along the first axis."""
    shape = node("Shape", rows, start=1)
    part = real(rows).dtype
    return Complex(node("Expand", lifted(1, part), shape), node("Expand", lifted(0, part), shape))


def _unique_pairs(count: int, x: Complex, sorted: int) -> list[Array]:
    """Different pairs of parts, in the order of their real parts."""
    pairs = node("Concat", *(node("Unsqueeze", p, lifted([1])) for p in parts_of(x)), axis=1)
    values, *rest = nodes(count, "Unique", pairs, axis=0, sorted=sorted)
    re, im = nodes(2, "Split", values, axis=1, num_outputs=2)
    return [Complex(*(node("Squeeze", p, lifted([1])) for p in (re, im))), *rest]


COMPLEX["Unique"] = _unique_pairs
