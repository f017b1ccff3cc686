"""Layouts and sizes of images: numbers where they are known, arrays without axes where only a run
knows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from infuse.errors import OptionError, ShapeError, TypeMismatchError
from infuse.ir.registry import make_operator
from infuse.tracing.arrays.array import Array, importer, lifted, node, source_line
from infuse.tracing.arrays.sizes import listed

LAYOUTS: Final = {"HWC": (-3, -2, -1), "CHW": (-2, -1, -3)}
"""The axes of rows, columns and channels, counted from the end."""

Size = int | Sequence[Any] | Array
"""A height and width that are equal, or both of them; each an int or an array without axes."""


def choice(what: str, value: Any, choices: Sequence[str]) -> str:
    """An option that is one of several words; OptionError names them."""
    if value not in choices:
        raise OptionError(
            f"there is no {what} {value!r}",
            where=source_line() or None,
            hint=f"one of: {', '.join(choices)}",
        )
    return str(value)


def axes_of_image(image: Array, layout: str) -> tuple[int, int, int]:
    """The axes of rows, columns and channels, counted from 0; ShapeError without three axes."""
    axes = LAYOUTS[choice("layout", layout, tuple(LAYOUTS))]
    if image.ndim < 3:
        raise ShapeError(
            f"an image in the layout {layout} has three axes and maybe more in front, this one "
            f"has {image.ndim}",
            where=source_line() or None,
        )
    rows, columns, channels = (axis + image.ndim for axis in axes)
    return rows, columns, channels


def rgb_channels(image: Array, layout: str, count: int = 3) -> int:
    """The axis of the channels; ShapeError where it is known that there are not `count`."""
    axis = axes_of_image(image, layout)[2]
    size = image.value.shape[axis]
    if isinstance(size, int) and size != count:
        raise ShapeError(
            f"an image with {count} channels is needed, this one has {size} in the layout {layout}",
            where=source_line() or None,
        )
    return axis


def height_and_width(size: Size, what: str = "size") -> tuple[Any, Any]:
    """Both sides; OptionError where they are not two, not whole or not positive."""
    pair = tuple(size) if isinstance(size, (list, tuple)) else (size, size)
    if len(pair) != 2:
        raise OptionError(
            f"{what} is one number or (height, width), not {len(pair)} numbers",
            where=source_line() or None,
        )
    height, width = (whole(side, f"a side of {what}", 1) for side in pair)
    return height, width


def whole(number: Any, what: str, least: int | None = None) -> Any:
    """A whole number, or an array without axes that holds one; OptionError for anything else, and
    for numbers below `least`.
    """
    if isinstance(number, Array):
        if number.ndim or number.dtype.kind not in "iu":
            raise OptionError(
                f"{what} is one whole number, not {number!r}", where=source_line() or None
            )
        return number
    is_scalar = isinstance(number, np.ndarray) and number.ndim == 0 and number.dtype.kind in "iu"
    if isinstance(number, bool) or not (is_scalar or isinstance(number, (int, np.integer))):
        raise OptionError(f"{what} is a whole number, not {number!r}", where=source_line() or None)
    if least is not None and number < least:
        raise OptionError(
            f"{what} is {number}, it is at least {least}", where=source_line() or None
        )
    return int(number)


def floats(x: Any, what: str) -> Array:
    """An array of floats; TypeMismatchError says what to do with another one."""
    array = lifted(x)
    if not has_floats(array):
        raise TypeMismatchError(
            f"{what} needs floats, not {array.dtype}",
            where=source_line() or None,
            hint="`normalize(image)` makes floats from 0 to 1 of bytes",
        )
    return array


def has_floats(x: Array) -> bool:
    """Whether elements are floats, bfloat16 too."""
    return x.value.dtype.is_float


def asserted(x: Array, condition: Any, message: str) -> Array:
    """The array, where a condition holds; else the run fails with a DataError of this message."""
    if isinstance(condition, bool):
        if condition:
            return x
        raise ShapeError(message, where=source_line() or None)
    op = make_operator("infuse", "Assert", {"message": message})
    return Array(importer().apply(op, [x.value, condition.value])[0])


# -- arithmetic of sizes ---------------------------------------------------------------------------


def quotient(a: Any, b: Any) -> Any:
    """A number of 0 or more over a positive one, rounded down."""
    return a // b if _are_ints(a, b) else node("Div", *map(_int64, (a, b)))


def half_even(a: Any) -> Any:
    """Half of a number of 0 or more, as Python rounds it: of two equally near ones, the even."""
    half = quotient(a, 2)
    rest = half % 2 if isinstance(half, int) else node("Mod", half, lifted(np.int64(2)))
    return quotient(a + rest, 2)


def smaller(a: Any, b: Any) -> Any:
    """The smaller of two numbers."""
    return min(a, b) if _are_numbers(a, b) else node("Min", *_alike(a, b))


def larger(a: Any, b: Any) -> Any:
    """The larger of two numbers."""
    return max(a, b) if _are_numbers(a, b) else node("Max", *_alike(a, b))


def chosen(condition: Any, a: Any, b: Any) -> Any:
    """One of two whole numbers."""
    if isinstance(condition, bool):
        return a if condition else b
    return node("Where", condition, _int64(a), _int64(b))


def factor(after: Any, before: Any) -> Any:
    """The ratio of two sizes in float64."""
    if _are_ints(after, before):
        return after / before
    return node("Div", _float64(after), _float64(before))


def scaled(size: Any, ratio: Any) -> Any:
    """A size times a float, rounded as Python does, and at least 1."""
    if _are_numbers(size, ratio):
        return max(1, round(size * ratio))
    product = node("Mul", _float64(size), _float64(ratio))
    return node("Max", node("Round", product).astype(np.int64), lifted(np.int64(1)))


def vector(numbers: Sequence[Any], dtype: Any) -> Array:
    """Numbers and arrays without axes as an array of one axis."""
    if _are_numbers(*numbers):
        return lifted(np.asarray(numbers, np.float64).astype(dtype))
    parts = [node("Reshape", lifted(n).astype(dtype), listed(1)) for n in numbers]
    return node("Concat", *parts, axis=0)


def _are_ints(*numbers: Any) -> bool:
    return all(isinstance(n, int) for n in numbers)


def _are_numbers(*numbers: Any) -> bool:
    return all(isinstance(n, (int, float)) for n in numbers)


def _int64(number: Any) -> Array:
    return lifted(number).astype(np.int64)


def _float64(number: Any) -> Array:
    return lifted(number).astype(np.float64)


def _alike(a: Any, b: Any) -> list[Array]:
    is_float = any(
        isinstance(n, float) or (isinstance(n, Array) and n.dtype.kind == "f") for n in (a, b)
    )
    return [(_float64 if is_float else _int64)(n) for n in (a, b)]
