"""Fourier transforms, and filters in mel."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.targets.cpu.families.base import Arguments, Array, Stores, writes

_MOST_FACTOR = 13
"""The largest prime factor that is transformed without a convolution."""


def _inner_length(n: int) -> int:
    """The length of the transforms inside of one of n."""
    rest = n
    for factor in range(2, _MOST_FACTOR + 1):
        while rest % factor == 0:
            rest //= factor
    return n if rest == 1 else 1 << int(np.ceil(np.log2(2 * n - 1)))


@writes("fourier_table")
def fourier_table(call: Arguments) -> Stores:
    """The roots of one; for convolutions also the transform of the filter, the chirp and roots of
    its own.
    """
    n = call.arguments[0]
    m = _inner_length(n)
    roots = np.exp(-2j * np.pi * np.arange(m) / m)
    if m != n:
        k = np.arange(n)
        chirp = np.exp(-1j * np.pi * (k * k % (2 * n)) / n)
        line = np.zeros(m, np.complex128)
        line[k], line[-k] = chirp.conj(), chirp.conj()
        own = np.exp(-2j * np.pi * k / n)
        roots = np.concatenate([roots, np.fft.fft(line) / m, chirp, own])
    return {1: roots.view(np.float64)}


def _matrix(n: int, table: Array) -> Array:
    """The transform of length n that a table makes: [result, element]."""
    m = _inner_length(n)
    size = m if m == n else 2 * m + 2 * n
    numbers = table[: 2 * size].astype(np.float64).view(np.complex128)
    if m == n:
        result: Array = numbers[np.outer(np.arange(n), np.arange(n)) % n]
        return result
    filter, chirp = numbers[m : 2 * m], numbers[2 * m : 2 * m + n]
    spectra = np.fft.fft(np.diag(chirp), m, axis=0) * filter[:, None]
    whole: Array = chirp[:, None] * (np.fft.ifft(spectra, axis=0) * m)[:n]
    return whole


def _places(lines: Any, count: int, size: int) -> Array:
    """Where the elements of all lines begin: [count, size]."""
    line = np.arange(count)
    first = line // lines.group * lines.outer + line % lines.group * lines.inner
    return np.asarray(np.add.outer(first, np.arange(size) * lines.step))


@writes("fourier")
def fourier(call: Arguments) -> Stores:
    """Transforms of lines, as pairs of numbers, or the inverse of half a spectrum as numbers."""
    s, x, window, table = call.arguments[:4]
    at = _places(getattr(s, "from"), s.lines, s.count)
    values = x[at].astype(np.complex128)
    if s.parts == 2:
        values = values + 1j * x[at + 1]
    if window is not None:
        values = values * window[: s.count]
    whole = np.zeros((s.lines, s.n), np.complex128)
    whole[:, : s.count] = values
    if s.real:
        # The other half is the mirror of this one.
        half = s.n // 2 + 1
        mirror = np.arange(half, s.n)
        whole[:, mirror] = whole[:, s.n - mirror].conj()
        whole[:, 0] = whole[:, 0].real
        if s.n % 2 == 0:
            whole[:, half - 1] = whole[:, half - 1].real
    matrix = _matrix(s.n, table)
    made = whole @ (matrix.conj() / s.n if s.back else matrix).T
    to = _places(s.to, s.lines, s.out)
    if s.real:
        return {4: (to, made[:, : s.out].real)}
    pairs = np.stack([made.real, made.imag], axis=-1)[:, : s.out]
    return {4: (np.stack([to, to + 1], axis=-1), pairs)}


@writes("mel_weights")
def mel_weights(call: Arguments) -> Stores:
    """Triangles over the places of a spectrum, as wide as each other in mel: [places, filters]."""
    bins, length, rate, lower, upper = call.arguments[:5]
    low, high = (2595 * np.log10(1 + edge / 700) for edge in (lower, upper))
    mel = low + np.arange(bins + 2) * (high - low) / (bins + 2)
    edges = np.floor((length + 1) * 700 * (10 ** (mel / 2595) - 1) / rate)
    at = np.arange(length // 2 + 1)[:, None]
    left, center, right = edges[:-2], edges[1:-1], edges[2:]
    with np.errstate(invalid="ignore", divide="ignore"):
        up = np.where(center > left, (at - left) / (center - left), 1)
        down = (right - at) / (right - center)
    rises, falls = (at >= left) & (at <= center), (at > center) & (at < right)
    return {5: np.where(rises, up, np.where(falls, down, 0))}
