"""Layers that only move elements, and those that do nothing at inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from infuse.dtypes import uint8
from infuse.errors import ModelFileError
from infuse.frontends.keras.calls import KerasCall, layer
from infuse.frontends.keras.layers.convolutions import channels_back, channels_in_front, positive
from infuse.ir.graph import Value


@layer(
    "Identity",
    "Dropout",
    "GaussianNoise",
    "GaussianDropout",
    "AlphaDropout",
    "ActivityRegularization",
    "SpatialDropout1D",
    "SpatialDropout2D",
    "SpatialDropout3D",
    masking=True,
)
def identity(call: KerasCall, x: Value, **_: Any) -> Value:
    """What changes something in training only."""
    return x


@layer("Reshape")
def reshape(call: KerasCall, x: Value) -> Value:
    """Another shape behind the batch."""
    target = call.config.get("target_shape")
    if not isinstance(target, (list, tuple)):
        raise ModelFileError(f"target_shape is {target!r}")
    return call.shaped(x, *_target(x, call.config.wholes("target_shape", len(target))))


def _target(x: Value, target: tuple[int, ...]) -> list[int]:
    """The sizes for Reshape, whose batch stays; the batch is what is left where all others are
    known.
    """
    behind = [size for size in x.shape[1:] if isinstance(size, int)]
    if 0 in target or 0 in behind:
        raise ModelFileError(f"a tensor without elements, {list(target)}, is not reshaped")
    if -1 not in target:
        return [-1, *target]
    if len(behind) == x.rank - 1:
        left = int(np.prod(behind)) // max(int(np.prod([n for n in target if n != -1])), 1)
        return [0 if x.rank else 1, *(left if n == -1 else n for n in target)]
    return [0, *target]


@layer("Flatten")
def flatten(call: KerasCall, x: Value) -> Value:
    """All features in one row."""
    if x.rank < 2:
        return call.unsqueezed(x, 1)
    if call.config.channels_first and x.rank > 2:
        x = call.g.permute(x, 0, *range(2, x.rank), 1)
    return call.g("Flatten", x, axis=1)


@layer("Permute")
def permute(call: KerasCall, x: Value) -> Value:
    """Other order of the axes behind the batch, counted from one."""
    dims = call.config.wholes("dims", x.rank - 1)
    if sorted(dims) != list(range(1, x.rank)):
        raise ModelFileError(f"dims is {list(dims)}, of a tensor with {x.rank} axes")
    return call.g.permute(x, 0, *dims)


@layer("RepeatVector")
def repeat_vector(call: KerasCall, x: Value) -> Value:
    """Every row so many times."""
    count = call.config.whole("n")
    return call.g("Tile", call.unsqueezed(x, 1), call.g.ints(1, count, 1))


@layer("Masking")
def masking(call: KerasCall, x: Value) -> Value:
    """Places where all features have one value are zero, and hidden by a mask."""
    g = call.g
    value = call.config.get("mask_value", 0.0)
    if not isinstance(value, (int, float)):
        raise call.unsupported("a mask_value that is not a number")
    other = g.cast(g("Not", g("Equal", x, call.number(value, x))), uint8)
    any_other = call.boolean(call.reduced("ReduceMax", other, [x.rank - 1], True))
    y = call.where(any_other, x, 0)
    call.set_mask(y, call.squeezed(any_other, x.rank - 1))
    return y


# -- borders and sizes -----------------------------------------------------------------------------


def _pairs(call: KerasCall, name: str, count: int) -> list[tuple[int, int]]:
    """A field that says what is before and behind for each axis."""
    value = call.config.get(name, 1)
    if count == 1 and isinstance(value, (list, tuple)) and not isinstance(value[0], (list, tuple)):
        value = [value]
    listed = value if isinstance(value, (list, tuple)) else [value] * count
    pairs = [tuple(each) if isinstance(each, (list, tuple)) else (each, each) for each in listed]
    if len(pairs) != count or any(len(p) != 2 or min(p) < 0 for p in pairs):
        raise ModelFileError(f"{name} is {value!r}")
    return [(int(before), int(behind)) for before, behind in pairs]


def _first(call: KerasCall) -> int:
    return 2 if call.config.channels_first else 1


def _padding(count: int) -> Callable[[KerasCall, Value], Value]:
    def build(call: KerasCall, x: Value) -> Value:
        pairs = dict(enumerate(_pairs(call, "padding", count), _first(call)))
        begins, ends = ([pairs.get(i, (0, 0))[side] for i in range(x.rank)] for side in (0, 1))
        return call.g("Pad", x, call.g.ints(*begins, *ends))

    return build


def _cropping(count: int) -> Callable[[KerasCall, Value], Value]:
    def build(call: KerasCall, x: Value) -> Value:
        for axis, (before, behind) in enumerate(_pairs(call, "cropping", count), _first(call)):
            end = -behind if behind else 2**31
            operands = (call.g.ints(n) for n in (before, end, axis))
            x = call.g("Slice", x, *operands)
        return x

    return build


def _repeated(count: int) -> Callable[[KerasCall, Value], Value]:
    def build(call: KerasCall, x: Value) -> Value:
        factors = positive(call.config, "size", count, 2)
        kind = call.config.text("interpolation", "nearest")
        images = channels_in_front(call, x, count + 2)
        modes: dict[str, Any] = {"mode": "nearest", "nearest_mode": "floor"}
        modes["coordinate_transformation_mode"] = "asymmetric"
        if kind != "nearest":
            modes = interpolation(call, kind)
        scales = np.array([1, 1, *factors], np.float32)
        y = call.g("Resize", images, None, call.g.constant(scales), **modes)
        return channels_back(call, y)

    return build


def interpolation(call: KerasCall, kind: str) -> dict[str, Any]:
    """The attributes of Resize for an interpolation of Keras."""
    modes: dict[str, Any] = {"coordinate_transformation_mode": "half_pixel"}
    if kind == "nearest":
        return modes | {"mode": "nearest", "nearest_mode": "round_prefer_ceil"}
    if kind == "bilinear":
        return modes | {"mode": "linear"}
    if kind == "bicubic":
        return modes | {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1}
    raise call.unsupported(f"the interpolation {kind!r}")


for _count in (1, 2, 3):
    layer(f"ZeroPadding{_count}D")(_padding(_count))
    layer(f"Cropping{_count}D")(_cropping(_count))
    layer(f"UpSampling{_count}D")(_repeated(_count))
