"""The parts of complex numbers, of which traced programs have real ones only."""

from __future__ import annotations

from typing import Any

from infuse.errors import UnsupportedOperatorError
from infuse.frontends.arrays.array import Array, lifted, node, source_line


def real(x: Any, /) -> Array:
    """The real part, which an array of real numbers is itself."""
    return _real(x)


def conj(x: Any, /) -> Array:
    """The conjugate, which a real number is itself."""
    return _real(x)


def imag(x: Any, /) -> Array:
    """The imaginary part, which is 0 of real numbers."""
    array = _real(x)
    return node("Expand", lifted(0, array.dtype), node("Shape", array))


def _real(x: Any) -> Array:
    array = lifted(x)
    if array.dtype.kind == "c":
        raise UnsupportedOperatorError("complex numbers have no operators", where=source_line())
    return array
