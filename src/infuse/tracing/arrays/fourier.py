"""The Array API's Fourier extension: transforms along one axis and along several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse.errors import ShapeError, TypeMismatchError, UnsupportedOperatorError
from infuse.tracing.arrays.array import Array, Complex, lifted, node, require_device, source_line
from infuse.tracing.arrays.elementwise import floating
from infuse.tracing.arrays.manipulation import expand_dims, roll, squeeze, stack
from infuse.tracing.arrays.parts import conj, imag, real
from infuse.tracing.arrays.sizes import axes_of, axis_of, listed

__all__ = ["fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft"]
__all__ += ["irfft", "irfftn", "rfft", "rfftfreq", "rfftn"]

Size = Any
Sizes = Sequence[Any] | None
Axes = Sequence[int] | None
_FORWARD = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}
"""Powers of 1 / n that a forward transform is multiplied by; the inverse has the rest of 1."""


def _share(norm: str | None, is_inverse: bool) -> float:
    """The power of 1 / n beside the sums."""
    name = "backward" if norm is None else norm
    if name not in _FORWARD:
        raise UnsupportedOperatorError(
            f"norm is {norm!r}",
            where=source_line(),
            hint='it is "backward", "ortho" or "forward"',
        )
    return 1 - _FORWARD[name] if is_inverse else _FORWARD[name]


def _scaled(x: Array, n: Size, power: float) -> Array:
    """X · n^power."""
    if power == 0:
        return x
    kind = real(x).dtype
    if isinstance(n, Array):
        return x * n.astype(kind) ** power
    return x * lifted(float(n) ** power, kind)


def _length(x: Array, n: Size, axis: int) -> Size:
    size = x.shape[axis] if n is None else n
    if isinstance(size, int) and size < 1:
        raise ShapeError(f"a transform of {size} elements", where=source_line())
    return size


def _transformed(x: Array, n: Size, axis: int, *, inverse: int = 0, onesided: int = 0) -> Array:
    """The operator of ONNX, on parts along one axis more; its inverse is divided by n."""
    is_complex = isinstance(x, Complex)
    parts = stack([real(x), imag(x)], axis=-1) if is_complex else expand_dims(x, axis=-1)
    place, length = lifted(np.int64(axis)), node("Squeeze", listed(n), listed(0))
    return node("DFT", parts, length, place, inverse=inverse, onesided=onesided)


def _joined(parts: Array) -> Array:
    """Complex numbers of what has their parts along the last axis."""
    re, im = (node("Gather", parts, lifted(np.int64(i)), axis=parts.ndim - 1) for i in (0, 1))
    return Complex(re, im)


def fft(x: Array, /, *, n: Size = None, axis: int = -1, norm: str = "backward") -> Array:
    """The transform along an axis, of the first n elements or with zeros behind them."""
    array, place = floating(x), axis_of(axis, x.ndim)
    count = _length(array, n, place)
    return _scaled(
        _joined(_transformed(array, count, place)), count, -_share(norm, is_inverse=False)
    )


def ifft(x: Array, /, *, n: Size = None, axis: int = -1, norm: str = "backward") -> Array:
    """The inverse of `fft`."""
    array, place = floating(x), axis_of(axis, x.ndim)
    count = _length(array, n, place)
    result = _joined(_transformed(array, count, place, inverse=1))
    return _scaled(result, count, 1 - _share(norm, is_inverse=True))


def rfft(x: Array, /, *, n: Size = None, axis: int = -1, norm: str = "backward") -> Array:
    """The first n // 2 + 1 elements of the transform of real numbers; the others are their
    conjugates.
    """
    array, place = floating(x), axis_of(axis, x.ndim)
    if isinstance(array, Complex):
        raise TypeMismatchError(
            "rfft is of real numbers", where=source_line(), hint="use fft, or real(x)"
        )
    count = _length(array, n, place)
    result = _joined(_transformed(array, count, place, onesided=1))
    return _scaled(result, count, -_share(norm, is_inverse=False))


def irfft(x: Array, /, *, n: Size = None, axis: int = -1, norm: str = "backward") -> Array:
    """The inverse of `rfft`: n real numbers, by default twice as many as there are, less two."""
    array, place = floating(x), axis_of(axis, x.ndim)
    count = _length(array, 2 * (array.shape[place] - 1) if n is None else n, place)
    result = squeeze(_transformed(array, count, place, inverse=1, onesided=1), axis=-1)
    return _scaled(result, count, 1 - _share(norm, is_inverse=True))


def hfft(x: Array, /, *, n: Size = None, axis: int = -1, norm: str = "backward") -> Array:
    """The transform, n real numbers, of numbers whose second half are conjugates of the first, of
    which only the first is there.
    """
    array, place = floating(x), axis_of(axis, x.ndim)
    count = _length(array, 2 * (array.shape[place] - 1) if n is None else n, place)
    result = irfft(conj(array), n=count, axis=place)
    return _scaled(result, count, 1 - _share(norm, is_inverse=False))


def ihfft(x: Array, /, *, n: Size = None, axis: int = -1, norm: str = "backward") -> Array:
    """The inverse of `hfft`."""
    array, place = floating(x), axis_of(axis, x.ndim)
    count = _length(array, n, place)
    return _scaled(conj(rfft(array, n=count, axis=place)), count, -_share(norm, is_inverse=True))


def _several(x: Array, s: Sizes, axes: Axes) -> list[tuple[int, Size]]:
    """The axes of a transform along several, and how many elements each has; None as it is."""
    if axes is None:
        places = list(range(x.ndim))
        places = places if s is None else places[x.ndim - len(s) :]
    else:
        places = axes_of(list(axes), x.ndim)
    sizes = [None] * len(places) if s is None else list(s)
    if len(sizes) != len(places):
        raise ShapeError(
            f"{len(sizes)} sizes for a transform along {len(places)} axes", where=source_line()
        )
    return list(zip(places, sizes))


def fftn(x: Array, /, *, s: Sizes = None, axes: Axes = None, norm: str = "backward") -> Array:
    """The transform along several axes."""
    array = floating(x)
    for axis, n in reversed(_several(array, s, axes)):
        array = fft(array, n=n, axis=axis, norm=norm)
    return array


def ifftn(x: Array, /, *, s: Sizes = None, axes: Axes = None, norm: str = "backward") -> Array:
    """The inverse of `fftn`."""
    array = floating(x)
    for axis, n in reversed(_several(array, s, axes)):
        array = ifft(array, n=n, axis=axis, norm=norm)
    return array


def rfftn(x: Array, /, *, s: Sizes = None, axes: Axes = None, norm: str = "backward") -> Array:
    """The transform of real numbers along several axes, half of it along the last."""
    array = floating(x)
    *others, (last, count) = _several(array, s, axes)
    array = rfft(array, n=count, axis=last, norm=norm)
    for axis, n in reversed(others):
        array = fft(array, n=n, axis=axis, norm=norm)
    return array


def irfftn(x: Array, /, *, s: Sizes = None, axes: Axes = None, norm: str = "backward") -> Array:
    """The inverse of `rfftn`."""
    array = floating(x)
    *others, (last, count) = _several(array, s, axes)
    for axis, n in reversed(others):
        array = ifft(array, n=n, axis=axis, norm=norm)
    return irfft(array, n=count, axis=last, norm=norm)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of a transform of n samples at distances d."""
    require_device(device)
    return lifted(np.fft.fftfreq(n, d), np.dtype(dtype or np.float64))


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of a transform of n real samples at distances d."""
    require_device(device)
    return lifted(np.fft.rfftfreq(n, d), np.dtype(dtype or np.float64))


def fftshift(x: Array, /, *, axes: Any = None) -> Array:
    """Frequency 0 in the middle."""
    for axis in axes_of(axes, x.ndim):
        x = roll(x, x.shape[axis] // 2, axis=axis)
    return x.copy()


def ifftshift(x: Array, /, *, axes: Any = None) -> Array:
    """Frequency 0 in front again."""
    for axis in axes_of(axes, x.ndim):
        x = roll(x, -(x.shape[axis] // 2), axis=axis)
    return x.copy()
