"""Sound: windows, frames, Fourier transforms of frames, other sampling rates.

Samples are floats [..., samples], along the last axis; the axes before are channels and batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from infuse.errors import OptionError, ShapeError, TypeMismatchError
from infuse.processing.block import block
from infuse.tracing.arrays import namespace as xp
from infuse.tracing.arrays.array import Array, lifted, node, source_line
from infuse.tracing.arrays.sizes import listed

__all__ = [
    "frames",
    "istft",
    "preemphasis",
    "resample",
    "spectrogram",
    "stft",
    "window",
]

Floats = npt.NDArray[np.floating[Any]]
PAD_MODES: Final = {
    "reflect": "reflect",
    "constant": "constant",
    "edge": "edge",
    "wrap": "wrap",
    "replicate": "edge",
    "circular": "wrap",
}
"""How signals go on beyond their ends, by NumPy's and PyTorch's names."""
_COSINES: Final = {
    "hann": (0.5, 0.5),
    "hamming": (0.54, 0.46),
    "blackman": (0.42, 0.5, 0.08),
    "povey": (0.5, 0.5),
    "rectangular": (1.0,),
}
_MOST_WEIGHTS: Final = 1 << 24
"""Weights of a resampling filter: rates without a common divisor need very many."""


# -- windows and frames ----------------------------------------------------------------------------


def window(name: str, length: int, *, periodic: bool = True) -> npt.NDArray[np.float64]:
    """A window of `hann`, `hamming`, `blackman`, `povey` (Kaldi's) or `rectangular`: an array of
    NumPy [length], which is a constant of a traced program.

    `periodic`: one period of a longer signal, as transforms take it; else symmetric.
    """
    if name not in _COSINES:
        raise OptionError(f"there is no window {name!r}", hint=f"one of {', '.join(_COSINES)}")
    _positive("length", length)
    span = length if periodic else length - 1
    angles = 2 * np.pi * np.arange(length) / max(span, 1)
    terms = enumerate(_COSINES[name])
    result = sum((-1) ** k * factor * np.cos(k * angles) for k, factor in terms)
    result = np.ones(1) if length == 1 else np.asarray(result, np.float64)
    return np.maximum(result, 0) ** 0.85 if name == "povey" else result


@block
def frames(samples: Any, length: int, step: int) -> Any:
    """Parts of `length` samples, `step` apart: [..., frames, length]. Samples behind the last whole
    frame are left out; there may be no frame.
    """
    x = signal_of(samples)
    _positive("length", length)
    _positive("step", step)
    count = frame_count(x.shape[-1], length, step)
    places = xp.expand_dims(xp.arange(count) * step, axis=1) + np.arange(length)
    return xp.take(x, places, axis=-1)


def frame_count(size: Any, length: int, step: int) -> Any:
    """How many whole frames there are in so many samples."""
    count = (size - length) // step + 1
    return max(count, 0) if isinstance(count, int) else xp.maximum(count, 0)


@block
def preemphasis(samples: Any, coefficient: float = 0.97) -> Any:
    """Every sample less `coefficient` times the one before it; the first stays."""
    x = signal_of(samples)
    return xp.concat([x[..., :1], x[..., 1:] - coefficient * x[..., :-1]], axis=-1)


# -- Fourier transforms ----------------------------------------------------------------------------


@block
def stft(
    samples: Any,
    n_fft: int,
    *,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = "hann",
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool = True,
) -> Any:
    """Fourier transforms of frames, as torch.stft: [..., frequencies, frames, 2], real and
    imaginary parts along the last axis.

    Frames lie `hop_length` (default: n_fft // 4) apart. `window`: a name (periodic) or an array, of
    `win_length` samples in the middle of `n_fft`. `center`: frames around their places, in the
    signal continued by `pad_mode` (reflect, constant, edge or replicate, wrap or circular), else a
    signal shorter than a frame is an error. `normalized`: over the square root of
    n_fft. `onesided`: n_fft // 2 + 1 frequencies, else n_fft.
    """
    x = signal_of(samples)
    hop, weights = _settings(x, n_fft, hop_length, win_length, window)
    flat, restore = _flat(x)
    if center:
        flat = padded(flat, n_fft // 2, n_fft // 2, pad_mode)
    size = flat.shape[-1]
    if isinstance(size, int) and size < n_fft:
        raise ShapeError(f"{size} samples are not a frame of {n_fft}", where=source_line())
    signal = xp.expand_dims(flat, axis=2)
    spectra = node(
        "STFT", signal, lifted(np.int64(hop)), weights, lifted(np.int64(n_fft)), onesided=onesided
    )
    result = xp.permute_dims(spectra, (0, 2, 1, 3))
    return restore(result * n_fft**-0.5 if normalized else result)


@block
def istft(
    spectra: Any,
    n_fft: int,
    *,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = "hann",
    center: bool = True,
    normalized: bool = False,
    onesided: bool = True,
    length: int | None = None,
) -> Any:
    """The signal [..., samples] of which `stft` with the same options made [..., frequencies,
    frames, 2], as torch.istft. Samples that no window covers are 0.

    `length`: so many samples, cut or filled up with zeros.
    """
    z = lifted(spectra)
    rows = n_fft // 2 + 1 if onesided else n_fft
    if z.ndim < 3 or z.shape[-1] != 2 or (isinstance(z.shape[-3], int) and z.shape[-3] != rows):
        raise ShapeError(
            f"spectra are [..., {rows}, frames, 2], found {z.value.type}", where=source_line()
        )
    hop, weights = _settings(z, n_fft, hop_length, win_length, window)
    flat, restore = _flat(z, 3)
    lines = xp.permute_dims(flat, (0, 2, 1, 3))
    operands = lines, lifted(np.int64(n_fft)), lifted(np.int64(-2))
    parts = node("DFT", *operands, inverse=1, onesided=int(onesided))[..., 0]
    parts = parts * n_fft**0.5 if normalized else parts
    total = _overlapped(parts * weights, n_fft, hop)
    square = xp.zeros((1, parts.shape[1], 1), dtype=z.dtype) + weights * weights
    cover = _overlapped(square, n_fft, hop)
    covered = cover > 1e-11
    signal = xp.where(covered, total / xp.where(covered, cover, 1), 0)
    start = n_fft // 2 if center else 0
    if length is None:
        return restore(signal[:, start : signal.shape[-1] - start])
    cut = signal[:, start : start + length]
    missing = length - cut.shape[-1]
    return restore(node("Pad", cut, listed([0, 0, 0, missing])))


def _overlapped(parts: Array, n_fft: int, hop: int) -> Array:
    """The sum of [batch, frames, n_fft], each frame `hop` samples behind the one before."""
    count = -(-n_fft // hop)
    whole = node("Pad", parts, listed([0, 0, 0, 0, 0, count * hop - n_fft]))
    total: Any = None
    for k in range(count):
        part = whole[:, :, k * hop : (k + 1) * hop]
        part = node("Pad", part, listed([0, k, 0, 0, count - 1 - k, 0]))
        total = part if total is None else total + part
    batch, rows = total.shape[0], total.shape[1]
    line = xp.reshape(total, (batch, rows * hop))
    return line[:, : (parts.shape[1] - 1) * hop + n_fft]


@block
def spectrogram(
    samples: Any,
    n_fft: int,
    *,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = "hann",
    center: bool = True,
    pad_mode: str = "reflect",
    power: float = 2.0,
) -> Any:
    """Magnitudes of an `stft` to a `power`: [..., frequencies, frames]."""
    z = stft(
        samples,
        n_fft,
        hop_length=hop_length,
        win_length=win_length,
        window=window,
        center=center,
        pad_mode=pad_mode,
    )
    return powers(z, power)


def powers(z: Array, power: float) -> Array:
    """Magnitudes of pairs of real and imaginary parts to a power."""
    if not power > 0:
        raise OptionError(f"`power` is {power}", hint="1 for magnitudes, 2 for their squares")
    squares = xp.sum(z * z, axis=-1)
    return squares if power == 2 else xp.sqrt(squares) if power == 1 else squares ** (power / 2)


# -- sampling rates --------------------------------------------------------------------------------


@block
def resample(
    samples: Any,
    rate: int,
    new_rate: int,
    *,
    method: str = "hann",
    zeros: int = 6,
    rolloff: float = 0.99,
    beta: float = 14.769656459379492,
) -> Any:
    """The sound at another rate, [..., ceil(samples · new_rate / rate)].

    A sinc of `zeros` zeros on each side, cut off at `rolloff` of the lower rate, in a window of
    `hann` or `kaiser` with `beta`: the formula of torchaudio's `sinc_interp_hann` and
    `sinc_interp_kaiser`. Beyond the ends are zeros.
    """
    x = signal_of(samples)
    _positive("rate", rate)
    _positive("new_rate", new_rate)
    _positive("zeros", zeros)
    if not 0 < rolloff <= 1:
        raise OptionError(f"`rolloff` is {rolloff}", hint="more than 0, at most 1")
    if rate == new_rate:
        return x + 0
    divisor = math.gcd(rate, new_rate)
    old, new = rate // divisor, new_rate // divisor
    weights, width = _sincs(old, new, zeros, rolloff, method, beta)
    flat, restore = _flat(x)
    flat = node("Pad", flat, listed([0, width, 0, width + old]))
    line = xp.expand_dims(flat, axis=1)
    lines = node("Conv", line, lifted(weights[:, None], x.dtype), strides=(old,))
    batch, steps = lines.shape[0], lines.shape[2]
    result = xp.reshape(xp.permute_dims(lines, (0, 2, 1)), (batch, steps * new))
    return restore(result[:, : -(x.shape[-1] * -new // old)])


def _sincs(
    old: int, new: int, zeros: int, rolloff: float, method: str, beta: float
) -> tuple[npt.NDArray[np.float64], int]:
    """Weights [new, taps] of the `new` samples that come from `old` ones, and how many of the taps
    lie before these.
    """
    limit = min(old, new) * rolloff
    width = math.ceil(zeros * old / limit)
    if new * (2 * width + old) > _MOST_WEIGHTS:
        raise OptionError(
            f"rates of {old} to {new} need a filter of {new * (2 * width + old)} weights",
            hint="take rates with a larger common divisor",
        )
    places = np.arange(-width, width + old) / old - np.arange(new)[:, None] / new
    t = np.clip(places * limit, -zeros, zeros)
    if method == "hann":
        weight = np.cos(t * np.pi / zeros / 2) ** 2
    elif method == "kaiser":
        weight = np.i0(beta * np.sqrt(1 - (t / zeros) ** 2)) / np.i0(beta)
    else:
        raise OptionError(f"there is no method {method!r}", hint="hann or kaiser")
    return np.sinc(t) * weight * limit / old, width


# -- operands --------------------------------------------------------------------------------------


def signal_of(samples: Any) -> Array:
    """Samples as an array of floats; TypeMismatchError, ShapeError."""
    x = lifted(samples)
    if x.dtype.kind != "f":
        raise TypeMismatchError(
            f"samples are floats, not {x.dtype}", where=source_line(), hint="use astype"
        )
    if x.ndim < 1:
        raise ShapeError("samples have no axis", where=source_line())
    return x


def padded(x: Array, before: int, after: int, mode: str) -> Array:
    """A signal [batch, samples] continued on both sides."""
    if mode not in PAD_MODES:
        raise OptionError(f"there is no padding {mode!r}", hint=f"one of {', '.join(PAD_MODES)}")
    size, kind = x.shape[-1], PAD_MODES[mode]
    if isinstance(size, int) and kind == "reflect" and size <= max(before, after):
        raise ShapeError(
            f"{size} samples cannot be continued by {max(before, after)} reflected ones",
            where=source_line(),
            hint='use pad_mode="constant", or longer signals',
        )
    return node("Pad", x, listed([0, before, 0, after]), mode=kind)


def _settings(
    x: Array, n_fft: int, hop_length: int | None, win_length: int | None, name: Any
) -> tuple[int, Array]:
    """The distance of frames, and the window in the middle of a frame, of the type of `x`."""
    _positive("n_fft", n_fft)
    hop = n_fft // 4 if hop_length is None else hop_length
    _positive("hop_length", hop)
    weights = window(name, win_length or n_fft) if isinstance(name, str) else name
    array = lifted(weights, x.dtype)
    size = array.shape[0] if array.ndim == 1 else None
    if not isinstance(size, int) or size > n_fft or size != (win_length or size):
        raise OptionError(
            f"a window of {size} samples for frames of {n_fft}",
            hint="it has win_length samples, at most n_fft",
        )
    before = (n_fft - size) // 2
    return hop, node("Pad", array, listed([before, n_fft - size - before]))


def _flat(x: Array, axes: int = 1) -> tuple[Array, Callable[[Array], Array]]:
    """An array with one axis before its last `axes`, and what gives results the axes before."""
    outer = x.shape[: x.ndim - axes]
    count: Any = 1
    for size in outer:
        count = size * count
    flat = x if len(outer) == 1 else xp.reshape(x, (count, *x.shape[x.ndim - axes :]))
    if len(outer) == 1:
        return flat, lambda y: y
    return flat, lambda y: xp.reshape(y, (*outer, *y.shape[1:]))


def _positive(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise OptionError(f"`{name}` is {value!r}", hint="a whole number of at least 1")
