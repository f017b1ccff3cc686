"""The parts of the Array API's Fourier extension that need no complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.frontends.arrays.array import Array, lifted
from infuse.frontends.arrays.manipulation import roll
from infuse.frontends.arrays.sizes import axes_of

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of a transform of n samples at distances d."""
    return lifted(np.fft.fftfreq(n, d), np.dtype(dtype or np.float64))


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of a transform of n real samples at distances d."""
    return lifted(np.fft.rfftfreq(n, d), np.dtype(dtype or np.float64))


def fftshift(x: Array, /, *, axes: Any = None) -> Array:
    """Frequency 0 in the middle."""
    for axis in axes_of(axes, x.ndim):
        x = roll(x, x.shape[axis] // 2, axis=axis)
    return x


def ifftshift(x: Array, /, *, axes: Any = None) -> Array:
    """Frequency 0 in front again."""
    for axis in axes_of(axes, x.ndim):
        x = roll(x, -(x.shape[axis] // 2), axis=axis)
    return x
