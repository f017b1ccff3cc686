"""Sound as models of speech take it: mel filters, decibels, the logarithms of Whisper, Kaldi and
NeMo, cepstra.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from infuse.errors import OptionError, ShapeError
from infuse.processing.audio import (
    frame_count,
    powers,
    preemphasis as emphasis,
    signal_of,
    spectrogram,
    stft,
    window,
)
from infuse.processing.block import block
from infuse.tracing.arrays import namespace as xp
from infuse.tracing.arrays.array import Array, lifted, node, source_line
from infuse.tracing.arrays.sizes import listed

__all__ = [
    "amplitude_to_db",
    "kaldi_fbank",
    "mel_filters",
    "mel_spectrogram",
    "mfcc",
    "nemo_log_mel",
    "power_to_db",
    "whisper_log_mel",
]

_LINEAR_HZ: Final = 200 / 3
"""Hertz of a mel of Slaney's scale below 1000 Hz, where it becomes a logarithm."""
_KNEE: Final = 1000 / _LINEAR_HZ
_STEP: Final = np.log(6.4) / 27
_EPSILON: Final = float(np.finfo(np.float32).eps)


# -- filters ---------------------------------------------------------------------------------------


def mel_filters(
    sample_rate: float,
    n_fft: int,
    n_mels: int = 80,
    *,
    f_min: float = 0.0,
    f_max: float | None = None,
    mel_scale: str = "slaney",
    norm: str | None = "slaney",
    triangles_in_mel: bool = False,
) -> npt.NDArray[np.float64]:
    """Triangular filters [n_fft // 2 + 1, n_mels] at equal distances in mel between two
    frequencies: an array of NumPy, which is a constant of a traced program.

    `mel_scale`: `slaney` (librosa) or `htk` (2595 · log10(1 + f / 700), Kaldi's too). `norm`:
    `slaney` for filters of the same area, or None. `triangles_in_mel`: straight sides over mel, as
    Kaldi has them, and not over Hertz.
    """
    high = sample_rate / 2 if f_max is None else f_max
    if not 0 <= f_min < high <= sample_rate / 2:
        raise OptionError(
            f"filters from {f_min} to {high} Hz at {sample_rate} samples a second",
            hint="0 <= f_min < f_max <= sample_rate / 2",
        )
    if n_mels < 1 or n_fft < 1:
        raise OptionError(f"{n_mels} filters for a transform of {n_fft}", hint="at least 1")
    if norm not in (None, "slaney"):
        raise OptionError(f"`norm` is {norm!r}", hint="slaney or None")
    first, last = (float(_mel(f, mel_scale)) for f in (f_min, high))
    ends = np.linspace(first, last, n_mels + 2)
    hertz = _hertz(ends, mel_scale)
    bins = np.arange(n_fft // 2 + 1) * (sample_rate / n_fft)
    sides = ends if triangles_in_mel else hertz
    places = _mel(bins, mel_scale) if triangles_in_mel else bins
    rising = (places[:, None] - sides[:-2]) / np.diff(sides)[:-1]
    falling = (sides[2:] - places[:, None]) / np.diff(sides)[1:]
    heights = 2 / (hertz[2:] - hertz[:-2]) if norm else 1.0
    return np.asarray(np.maximum(0, np.minimum(rising, falling)) * heights, np.float64)


def _mel(hertz: Any, scale: str) -> Any:
    if scale == "htk":
        return 2595 * np.log10(1 + hertz / 700)
    if scale != "slaney":
        raise OptionError(f"there is no mel scale {scale!r}", hint="slaney or htk")
    logarithm = _KNEE + np.log(np.maximum(hertz, 1000) / 1000) / _STEP
    return np.where(hertz < 1000, hertz / _LINEAR_HZ, logarithm)


def _hertz(mel: Any, scale: str) -> Any:
    if scale == "htk":
        return 700 * (10 ** (mel / 2595) - 1)
    power = 1000 * np.exp(_STEP * np.maximum(mel - _KNEE, 0))
    return np.where(mel < _KNEE, mel * _LINEAR_HZ, power)


@block
def mel_spectrogram(
    samples: Any,
    sample_rate: float,
    n_fft: int,
    *,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = "hann",
    center: bool = True,
    pad_mode: str = "reflect",
    power: float = 2.0,
    n_mels: int = 80,
    f_min: float = 0.0,
    f_max: float | None = None,
    mel_scale: str = "slaney",
    norm: str | None = "slaney",
) -> Any:
    """What the filters of `mel_filters` let through of a `spectrogram`: [..., n_mels, frames]."""
    spectra = spectrogram(
        samples,
        n_fft,
        hop_length=hop_length,
        win_length=win_length,
        window=window,
        center=center,
        pad_mode=pad_mode,
        power=power,
    )
    filters = mel_filters(
        sample_rate, n_fft, n_mels, f_min=f_min, f_max=f_max, mel_scale=mel_scale, norm=norm
    )
    return _through(filters, spectra)


def _through(filters: npt.NDArray[np.float64], spectra: Array) -> Array:
    return lifted(np.ascontiguousarray(filters.T), spectra.dtype) @ spectra


# -- decibels --------------------------------------------------------------------------------------


@block
def power_to_db(
    power: Any, *, ref: float | str = 1.0, amin: float = 1e-10, top_db: float | None = 80.0
) -> Any:
    """10 · log10(power / ref), powers of at least `amin`; nothing more than `top_db` below the
    largest value of the last two axes.

    `ref`: a power, or "max" for the largest of the last two axes.
    """
    return _decibels(lifted(power), 10.0, ref, amin, top_db)


@block
def amplitude_to_db(
    amplitude: Any, *, ref: float | str = 1.0, amin: float = 1e-5, top_db: float | None = 80.0
) -> Any:
    """20 · log10(amplitude / ref), amplitudes of at least `amin`; see `power_to_db`."""
    return _decibels(xp.abs(lifted(amplitude)), 20.0, ref, amin, top_db)


def _decibels(
    x: Array, factor: float, ref: float | str, amin: float, top_db: float | None
) -> Array:
    if not amin > 0:
        raise OptionError(f"`amin` is {amin}", hint="more than 0")
    if top_db is not None and top_db < 0:
        raise OptionError(f"`top_db` is {top_db}", hint="at least 0, or None")
    if isinstance(ref, str) and ref != "max":
        raise OptionError(f"`ref` is {ref!r}", hint='a number, or "max"')
    if x.ndim < 2:
        raise ShapeError(f"spectra have two axes, found {x.value.type}", where=source_line())
    result: Array = factor * xp.log10(xp.maximum(x, amin))
    if isinstance(ref, str):
        largest = xp.max(x, axis=(-2, -1), keepdims=True)
        result = result - factor * xp.log10(xp.maximum(largest, amin))
    else:
        result = result - factor * float(np.log10(max(amin, abs(ref))))
    if top_db is None:
        return result
    floor = xp.max(result, axis=(-2, -1), keepdims=True) - top_db
    return lifted(xp.maximum(result, floor))


# -- what models take ------------------------------------------------------------------------------


@block
def whisper_log_mel(samples: Any, *, n_mels: int = 80, seconds: float = 30.0) -> Any:
    """The input of Whisper, [..., n_mels, 100 · seconds], of samples at 16 kHz.

    Sounds are cut or filled up with zeros to `seconds`; log10 of at least 1e-10, no more than 8
    below the sound's largest value, plus 4, over 4.
    """
    x = signal_of(samples)
    length = round(seconds * 16000)
    if length < 400:
        raise OptionError(f"`seconds` is {seconds}", hint="at least 0.025")
    x = x[..., :length]
    x = node("Pad", x, listed([*[0] * (2 * x.ndim - 1), length - x.shape[-1]]))
    spectra = powers(stft(x, 400, hop_length=160), 2)[..., :-1]
    mels = _through(mel_filters(16000, 400, n_mels), spectra)
    levels = xp.log10(xp.maximum(mels, 1e-10))
    levels = xp.maximum(levels, xp.max(levels, axis=(-2, -1), keepdims=True) - 8.0)
    return (levels + 4.0) / 4.0


def _emphasized(frames: Any, by: float) -> Any:
    """Frames less a part of the sample before each."""
    before = xp.concat([frames[..., :1], frames[..., :-1]], axis=-1)
    return frames - by * before


@block
def kaldi_fbank(
    samples: Any,
    sample_rate: int = 16000,
    *,
    n_mels: int = 80,
    frame_length: float = 25.0,
    frame_shift: float = 10.0,
    preemphasis: float = 0.97,
    remove_dc: bool = True,
    window: str = "povey",
    snip_edges: bool = True,
    f_min: float = 20.0,
    f_max: float = 0.0,
    power: float = 2.0,
    use_log: bool = True,
    use_energy: bool = False,
    energy_floor: float = 1.0,
) -> Any:
    """Kaldi's filter banks, [..., frames, n_mels], without dither.

    Lengths and shifts are milliseconds; frames are filled up with zeros to a power of two.
    `remove_dc`: less the frame's mean. `snip_edges`: whole frames only, else one for each shift of
    the signal mirrored at its ends. `f_max`: zero or less is counted from half of the rate.
    Logarithms are of at least 1.2e-7; `use_energy` puts that of a frame's energy in front, at least
    that of `energy_floor` (0 for none).
    """
    x = signal_of(samples)
    length, shift = (int(sample_rate * t * 0.001) for t in (frame_length, frame_shift))
    if length < 2 or shift < 1:
        raise OptionError(
            f"frames of {length} samples, {shift} apart",
            hint="at least 2 samples and 1: longer frames",
        )
    if not 0 <= preemphasis <= 1:
        raise OptionError(f"`preemphasis` is {preemphasis}", hint="0 to 1")
    parts = _kaldi_frames(x, length, shift, snip_edges)
    if remove_dc:
        parts = parts - xp.mean(parts, axis=-1, keepdims=True)
    energy = xp.sum(parts * parts, axis=-1, keepdims=True)
    parts = _emphasized(parts, preemphasis) if preemphasis else parts
    n_fft = 1 << (length - 1).bit_length()
    parts = parts * lifted(_symmetric(window, length), x.dtype)
    operands = lifted(np.int64(n_fft)), lifted(np.int64(-2))
    spectra = node("DFT", xp.expand_dims(parts, axis=-1), *operands, onesided=1)
    high = f_max if f_max > 0 else sample_rate / 2 + f_max
    filters = mel_filters(
        sample_rate,
        n_fft,
        n_mels,
        f_min=f_min,
        f_max=high,
        mel_scale="htk",
        norm=None,
        triangles_in_mel=True,
    )
    result = powers(spectra, power) @ lifted(filters, x.dtype)
    result = xp.log(xp.maximum(result, _EPSILON)) if use_log else result
    if not use_energy:
        return result
    floor = max(_EPSILON, energy_floor)
    return xp.concat([xp.log(xp.maximum(energy, floor)), result], axis=-1)


def _symmetric(name: str, length: int) -> npt.NDArray[np.float64]:
    return window(name, length, periodic=False)


def _kaldi_frames(x: Array, length: int, shift: int, snip_edges: bool) -> Array:
    size = x.shape[-1]
    first = 0 if snip_edges else length // 2 - shift // 2
    count = frame_count(size, length, shift) if snip_edges else (size + shift // 2) // shift
    places = xp.expand_dims(xp.arange(count) * shift, axis=1) + (np.arange(length) - first)
    if not snip_edges:
        period = xp.maximum(lifted(size), 1) * 2
        places = places % period
        places = xp.minimum(places, period - 1 - places)
    return xp.take(x, places, axis=-1)


@block
def nemo_log_mel(
    samples: Any,
    lengths: Any = None,
    *,
    sample_rate: int = 16000,
    n_fft: int = 512,
    win_length: int = 400,
    hop_length: int = 160,
    n_mels: int = 80,
    preemphasis: float = 0.97,
    normalize: bool = True,
) -> Any:
    """The input of NeMo's speech models (Conformer, Parakeet), [batch, n_mels, frames], of samples
    [batch, samples], of which `lengths` [batch] are the sound.

    Pre-emphasis, symmetric Hann window, frames around their places in a signal with zeros beyond
    its ends, log(mel + 2^-24); `normalize`: every mel has mean 0 and deviation 1 over the
    lengths // hop_length frames of the sound, and is 0 behind them.
    """
    x = signal_of(samples)
    if x.ndim != 2:
        raise ShapeError(f"samples are [batch, samples], found {x.value.type}", where=source_line())
    batch, size = x.shape
    if lengths is None:
        count = xp.full((batch,), size, dtype=np.int64)
    else:
        count = lifted(lengths).astype(np.int64)
    is_sound = xp.arange(size) < xp.expand_dims(count, axis=1)
    x = xp.where(is_sound, emphasis(x, preemphasis), 0)
    spectra = stft(
        x,
        n_fft,
        hop_length=hop_length,
        win_length=win_length,
        window=_symmetric("hann", win_length),
        pad_mode="constant",
    )
    mels = _through(mel_filters(sample_rate, n_fft, n_mels), powers(spectra, 2))
    levels = xp.log(mels + 2.0**-24)
    if not normalize:
        return levels
    valid = xp.reshape((count + n_fft // 2 * 2 - n_fft) // hop_length, (batch, 1, 1))
    mask = xp.arange(levels.shape[2]) < valid
    number = valid.astype(x.dtype)
    mean = xp.sum(xp.where(mask, levels, 0), axis=2, keepdims=True) / xp.maximum(number, 1.0)
    centered = xp.where(mask, levels - mean, 0)
    squares = xp.sum(centered * centered, axis=2, keepdims=True)
    deviation = xp.sqrt(squares / xp.maximum(number - 1.0, 1.0))
    return centered / (deviation + 1e-5)


@block
def mfcc(levels: Any, n_mfcc: int = 13, *, lifter: float = 0.0) -> Any:
    """Cepstra [..., n_mfcc, frames] of logarithmic mel spectra [..., n_mels, frames]: their
    orthonormal DCT-II along mels, as librosa and torchaudio have it.

    `lifter`: coefficient n (from 1) times 1 + lifter / 2 · sin(π · n / lifter); 0 for none.
    """
    x = lifted(levels)
    if x.ndim < 2 or not isinstance(x.shape[-2], int):
        raise ShapeError(
            f"levels are [..., mels, frames] with so many mels, found {x.value.type}",
            where=source_line(),
        )
    n_mels = x.shape[-2]
    if not 1 <= n_mfcc <= n_mels or lifter < 0:
        raise OptionError(
            f"{n_mfcc} coefficients of {n_mels} mels, lifter {lifter}",
            hint="1 <= n_mfcc <= n_mels, lifter at least 0",
        )
    order = np.arange(n_mfcc)[:, None]
    cosines = np.cos(np.pi / n_mels * (np.arange(n_mels) + 0.5) * order) * np.sqrt(2 / n_mels)
    cosines[0] *= np.sqrt(0.5)
    if lifter:
        cosines = cosines * (1 + lifter / 2 * np.sin(np.pi * (order + 1) / lifter))
    return lifted(cosines, x.dtype) @ x
