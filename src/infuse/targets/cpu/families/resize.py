"""Resizing of images, and of one axis of any tensor."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

import numpy as np

from infuse.targets.cpu.families.base import Arguments, Array, Stores, computes, writes

_NEAREST, _LINEAR, _CUBIC = range(3)
_, _SYMMETRIC, _PYTORCH, _CORNERS, _ASYMMETRIC, _CROP = range(6)
_ROUND: Final = (
    lambda x: np.ceil(x - 0.5),
    lambda x: np.floor(x + 0.5),
    np.floor,
    np.ceil,
)
"""By ResizeRounding."""


def positions(shape: Any, side: Any) -> Array:
    """Where the outputs of a side lie among its inputs."""
    i = np.arange(side.out, dtype=np.float64)
    last, exact = side.size - 1, side.scale * side.size
    length = side.out if abs(exact - round(exact)) < 1e-6 else exact
    half: Array = (i + 0.5) / side.scale - 0.5
    if shape.coordinates == _SYMMETRIC:
        half = half + side.size / 2 * (1 - side.out / exact)
    elif shape.coordinates == _PYTORCH and side.out <= 1:
        half = 0 * i
    elif shape.coordinates == _CORNERS:
        half = i * last / (length - 1) if side.out > 1 else 0 * i
    elif shape.coordinates == _ASYMMETRIC:
        half = i / side.scale
    elif shape.coordinates == _CROP:
        part = side.end - side.start
        middle = (side.start + side.end) / 2 + 0 * i
        half = last * (side.start + i * part / (length - 1) if side.out > 1 else middle)
    return half


def _outside(shape: Any, side: Any) -> Array:
    """Which outputs are the value for outside."""
    at = positions(shape, side)
    return np.asarray((shape.coordinates == _CROP) & ((at < 0) | (at > side.size - 1)))


def _nearest(shape: Any, side: Any) -> Array:
    at = _ROUND[shape.rounding](positions(shape, side)).astype(np.int64)
    return np.clip(at, 0, side.size - 1)


def _weights(shape: Any, side: Any) -> Array:
    """What every input weighs in every output: [out, size]."""
    at = positions(shape, side)
    if shape.mode == _NEAREST:
        return np.asarray(np.arange(side.size) == _nearest(shape, side)[:, None], np.float64)
    shrink = side.scale if shape.antialias and side.scale < 1 else 1
    reach = int(np.ceil((2 if shape.mode == _CUBIC else 1) / shrink))
    places = np.floor(at)[:, None] + np.arange(1 - reach, reach + 1)
    weights = _weight_at(shape, np.abs(places - at[:, None]) * shrink)
    if shape.exclude_outside:
        weights = np.where((places < 0) | (places >= side.size), 0, weights)
    if shape.exclude_outside or shape.antialias:
        total = weights.sum(1, keepdims=True)
        weights = weights / np.where(total == 0, 1, total)
    matrix = np.zeros((side.out, side.size))
    inside = np.clip(places, 0, side.size - 1).astype(np.int64)
    np.add.at(matrix, (np.arange(side.out)[:, None], inside), weights)
    return matrix


def _weight_at(shape: Any, distance: Array) -> Array:
    if shape.mode == _LINEAR:
        return np.asarray(np.maximum(1 - distance, 0))
    a, s = shape.cubic, distance
    near: Array = (a + 2) * s**3 - (a + 3) * s**2 + 1
    far = a * (s**3 - 5 * s**2 + 8 * s - 4)
    return np.asarray(np.where(s <= 1, near, np.where(s < 2, far, 0)))


def _resized(shape: Any, planes: Array) -> Array:
    """Planes [.., height, width]."""
    down, across = _weights(shape, shape.h), _weights(shape, shape.w)
    result: Array = down @ planes.astype(np.float64) @ across.T
    result[..., _outside(shape, shape.h), :] = shape.outside
    result[..., _outside(shape, shape.w)] = shape.outside
    return result


@writes("resize_plan")
def resize_plan(call: Arguments) -> Stores:
    """Scale, start and end of every axis."""
    sizes, rank, axes, count, scales, own_sizes, policy, part = call.arguments[:8]
    plan = np.tile([1.0, 0.0, 1.0], (rank, 1))
    for i, axis in enumerate(axes[:count]):
        if own_sizes is None:
            plan[axis, 0] = float(_meant(scales[i]))
        elif sizes[axis]:
            plan[axis, 0] = own_sizes[i] / sizes[axis]
        if part is not None:
            plan[axis, 1:] = part[i], part[count + i]
    if own_sizes is not None and policy != 0:
        chosen = list(axes[:count])
        least = plan[chosen, 0].min() if policy == 1 else plan[chosen, 0].max()
        plan[chosen, 0] = least
    return {9: plan}


def _meant(scale: Any) -> Fraction:
    """The simplest fraction that is this number in float32."""
    simple = Fraction(float(scale)).limit_denominator(4096)
    return simple if np.float32(float(simple)) == np.float32(scale) else Fraction(float(scale))


@computes("resize")
def resize(call: Arguments) -> Array:
    """Pixels × channels."""
    shape, x = call.arguments[:2]
    sizes = shape.n, shape.h.size, shape.w.size, shape.c
    images = x[: int(np.prod(sizes))].reshape(sizes)
    result: Array = _resized(shape, images.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1)
    return result.reshape(shape.n * shape.h.out * shape.w.out, shape.c)


@computes("resize_planes")
def resize_planes(call: Arguments) -> Array:
    """Lines of all planes × columns."""
    shape, x = call.arguments[:2]
    sizes = shape.n, shape.c, shape.h.size, shape.w.size
    result = _resized(shape, x[: int(np.prod(sizes))].reshape(sizes))
    return result.reshape(shape.n * shape.c * shape.h.out, shape.w.out)


def _stays(side: Any) -> bool:
    return (side.size, side.scale, side.start, side.end) == (side.out, 1, 0, 1)


@writes("resample")
def resample(call: Arguments) -> Stores:
    """The middle axis of [outer, size, inner]; whole numbers are rounded and kept in range."""
    shape, outer, inner, x, y = call.arguments
    side = shape.w
    lines = x[: outer * side.size * inner].reshape(outer, side.size, inner).astype(np.float64)
    if not _stays(side):
        lines = np.einsum("is,osn->oin", _weights(shape, side), lines)
        lines[:, _outside(shape, side)] = shape.outside
    if y.dtype.kind in "iu":
        limits = np.iinfo(y.dtype)
        lines = np.clip(np.trunc(lines), limits.min, limits.max)
    return {4: lines}


@writes("pick")
def pick(call: Arguments) -> Stores:
    """The same of elements that are only moved."""
    shape, outer, inner, x, _, number = call.arguments
    side = shape.w
    lines = x[: outer * side.size * inner].reshape(outer, side.size, inner)
    if _stays(side):
        return {4: lines}
    result = lines[:, _nearest(shape, side)]
    result[:, _outside(shape, side)] = number
    return {4: result}
