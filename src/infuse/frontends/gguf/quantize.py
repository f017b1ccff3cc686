"""Weights in float32 → blocks of GGUF's formats.

Formats with one scale a block are rounded as llama.cpp's reference does. Those with scales of
scales are fitted: several steps are tried for each group, each followed by the least-squares
scale and offset for its quants, and the one with the least squared error is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import ml_dtypes
import numpy as np

from infuse.errors import InputError, ShapeError, UnsupportedOperatorError
from infuse.ops.core.weight_blocks import Bytes, Floats
from infuse.ops.core.weight_formats import FORMATS

_TRIES: Final = np.linspace(-1.0, 1.0, 9, dtype=np.float32)
"""By how many quants the widest one is stretched, in the steps that are tried."""
_AT_ONCE: Final = 1 << 18
"""Weights that are quantized together."""


def quantize(weights: Floats, name: str) -> Bytes:
    """Rows of weights, float32 (n, k), in the format of this name: uint8 (n, bytes of a row).

    ShapeError where k is no multiple of a block's weights, InputError for weights that are not
    finite or too large for the format's scales, UnsupportedOperatorError for a format that is only
    read.
    """
    if name not in _WRITERS:
        raise UnsupportedOperatorError(
            f"weights cannot be quantized to {name}", hint=f"there are {', '.join(_WRITERS)}"
        )
    block, (n, k) = FORMATS[name], weights.shape
    if k % block.weights:
        raise ShapeError(f"{k} weights of a row are no multiple of the {block.weights} of {name}")
    if block.plain is None and not np.isfinite(weights).all():
        raise InputError(f"weights that are not finite cannot be quantized to {name}")
    size = k // block.weights * block.bytes
    result = np.empty((n, size), np.uint8)
    step = max(_AT_ONCE // max(k, 1), 1)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        for start in range(0, n, step):
            rows = np.ascontiguousarray(weights[start : start + step], np.float32)
            written = _WRITERS[name](rows.reshape(-1, block.weights))
            result[start : start + step] = written.reshape(len(rows), size)
    if block.plain is None and not np.isfinite(block.parts(result).scale).all():
        raise InputError(f"weights are too large for the scales of {name}")
    return result


def _f16(x: Floats) -> Bytes:
    return x.astype("<f2").view(np.uint8)


def _bf16(x: Floats) -> Bytes:
    return x.astype(ml_dtypes.bfloat16).view(np.uint8)


def _q4_0(x: Floats) -> Bytes:
    scale, inverse = _signed_step(x, -8)
    quants = _truncated(x * inverse + np.float32(8.5), 15)
    return np.concatenate([_f16(scale), _low_and_high(quants)], axis=1)


def _q5_0(x: Floats) -> Bytes:
    scale, inverse = _signed_step(x, -16)
    quants = _truncated(x * inverse + np.float32(16.5), 31)
    return np.concatenate(
        [_f16(scale), _fifth_bits(quants), _low_and_high(quants & np.uint8(15))], axis=1
    )


def _q4_1(x: Floats) -> Bytes:
    least, scale, quants = _ranged(x, 15)
    return np.concatenate([_f16(scale), _f16(least), _low_and_high(quants)], axis=1)


def _q5_1(x: Floats) -> Bytes:
    least, scale, quants = _ranged(x, 31)
    low = _low_and_high(quants & np.uint8(15))
    return np.concatenate([_f16(scale), _f16(least), _fifth_bits(quants), low], axis=1)


def _q8_0(x: Floats) -> Bytes:
    scale = np.abs(x).max(axis=1, keepdims=True) / np.float32(127)
    scaled = x * _inverse(scale)
    whole = np.floor(np.abs(scaled))
    away = whole + np.floor(2 * (np.abs(scaled) - whole))
    quants = (np.sign(scaled) * away).astype(np.int8).view(np.uint8)
    return np.concatenate([_f16(scale), quants], axis=1)


def _q4_k(x: Floats) -> Bytes:
    groups = x.reshape(-1, 8, 32)
    scale, offset = _fitted_range(groups, 15)
    d, sixes = _scales_of(scale, 63)
    dmin, minima = _scales_of(offset, 63)
    steps, least = d * sixes, dmin * minima
    quants = _rounded((groups + least[..., None]) * _inverse(steps)[..., None], 0, 15)
    low, high = sixes.astype(np.uint8), minima.astype(np.uint8)
    packed = [
        low[:, :4] | low[:, 4:] >> 4 << 6,
        high[:, :4] | high[:, 4:] >> 4 << 6,
        low[:, 4:] & 15 | high[:, 4:] << 4,
    ]
    pairs = quants.astype(np.uint8).reshape(-1, 4, 2, 32)
    fours = (pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(len(x), -1)
    return np.concatenate([_f16(d), _f16(dmin), *packed, fours], axis=1)


def _q6_k(x: Floats) -> Bytes:
    groups = x.reshape(-1, 16, 16)
    scale = _fitted_signed(groups, 32)
    largest = np.abs(scale).argmax(axis=1)[:, None]
    d = _stored(np.take_along_axis(scale, largest, 1) / np.float32(-128))
    eights = _rounded(scale * _inverse(d), -128, 127)
    quants = _rounded(groups * _inverse(d * eights)[..., None], -32, 31) + 32
    layers = quants.astype(np.uint8).reshape(-1, 2, 4, 32)
    low = np.concatenate(
        [layers[:, :, 0] & 15 | layers[:, :, 2] << 4, layers[:, :, 1] & 15 | layers[:, :, 3] << 4],
        axis=2,
    )
    high = layers >> 4 << np.array([0, 2, 4, 6], np.uint8)[:, None]
    return np.concatenate(
        [
            low.reshape(len(x), -1),
            np.bitwise_or.reduce(high, axis=2).reshape(len(x), -1),
            eights.astype(np.int8).view(np.uint8),
            _f16(d),
        ],
        axis=1,
    )


def _signed_step(x: Floats, most: int) -> tuple[Floats, Floats]:
    """The step of a block whose largest weight becomes the quant `most`, and its inverse."""
    largest = np.abs(x).argmax(axis=1)[:, None]
    step = np.take_along_axis(x, largest, 1) / np.float32(most)
    return step, _inverse(step)


def _ranged(x: Floats, most: int) -> tuple[Floats, Floats, Bytes]:
    """The least weight of each block, the step from it to the largest in `most`, and quants."""
    least = x.min(axis=1, keepdims=True)
    step = (x.max(axis=1, keepdims=True) - least) / np.float32(most)
    return least, step, _truncated((x - least) * _inverse(step) + np.float32(0.5), most)


def _fitted_range(x: Floats, most: int) -> tuple[Floats, Floats]:
    """Steps s ≥ 0 and offsets m ≥ 0 for which s · q - m, with whole q from 0 to `most`, is near to
    groups (b, g, n): (b, g) each.
    """
    least = np.minimum(x.min(axis=2), 0)
    width = x.max(axis=2) - least
    best = np.full(width.shape, np.inf, np.float32)
    scale, offset = np.zeros_like(width), -least
    for stretch in _TRIES:
        quants = _rounded(
            (x - least[..., None]) * _inverse(width / (most + stretch))[..., None], 0, most
        )
        mean_q, mean_x = quants.mean(axis=2), x.mean(axis=2)
        apart = quants - mean_q[..., None]
        slope = (apart * x).sum(axis=2) * _inverse((apart * apart).sum(axis=2))
        minimum = np.maximum(slope * mean_q - mean_x, 0)
        through = (quants * x).sum(axis=2) * _inverse((quants * quants).sum(axis=2))
        slope = np.maximum(np.where(minimum > 0, slope, through), 0)
        error = ((slope[..., None] * quants - minimum[..., None] - x) ** 2).sum(axis=2)
        better = error < best
        best = np.where(better, error, best)
        scale, offset = np.where(better, slope, scale), np.where(better, minimum, offset)
    return scale, offset


def _fitted_signed(x: Floats, most: int) -> Floats:
    """Steps for which s · q, with whole q from -most to most - 1, is near to groups (b, g, n):
    (b, g).
    """
    largest = np.abs(x).argmax(axis=2)[..., None]
    extreme = np.take_along_axis(x, largest, 2)[..., 0]
    best, scale = np.full(extreme.shape, np.inf, np.float32), np.zeros_like(extreme)
    for stretch in _TRIES:
        step = -extreme / (most + stretch)
        quants = _rounded(x * _inverse(step)[..., None], -most, most - 1)
        slope = (quants * x).sum(axis=2) * _inverse((quants * quants).sum(axis=2))
        error = ((slope[..., None] * quants - x) ** 2).sum(axis=2)
        better = error < best
        best, scale = np.where(better, error, best), np.where(better, slope, scale)
    return scale


def _scales_of(scales: Floats, most: int) -> tuple[Floats, Floats]:
    """A scale, as it is stored, and whole numbers up to `most` that give `scales` ≥ 0 with it."""
    d = _stored(scales.max(axis=1, keepdims=True) / np.float32(most))
    return d, _rounded(scales * _inverse(d), 0, most)


def _stored(scale: Floats) -> Floats:
    return np.asarray(scale.astype(np.float16), np.float32)


def _inverse(x: Floats) -> Floats:
    return np.asarray(np.where(x == 0, np.float32(0), np.float32(1) / x), np.float32)


def _rounded(x: Floats, least: int, most: int) -> Floats:
    return np.clip(np.rint(x), least, most)


def _truncated(x: Floats, most: int) -> Bytes:
    return np.clip(np.trunc(x), 0, most).astype(np.uint8)


def _low_and_high(quants: Bytes) -> Bytes:
    """The first half of each block's quants in the low halves of bytes, the second in the high."""
    half = quants.shape[1] // 2
    return np.asarray(quants[:, :half] | quants[:, half:] << np.uint8(4))


def _fifth_bits(quants: Bytes) -> Bytes:
    return np.packbits(quants >> np.uint8(4), axis=1, bitorder="little")


_WRITERS: Final[Mapping[str, Callable[[Floats], Bytes]]] = {
    "F16": _f16, "BF16": _bf16, "Q4_0": _q4_0, "Q4_1": _q4_1, "Q5_0": _q5_0, "Q5_1": _q5_1,
    "Q8_0": _q8_0, "Q4_K": _q4_k, "Q6_K": _q6_k,
}  # fmt: skip
