"""Padding, resampling and windows of images."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, Final

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TorchImporter, aten, each
from infuse.tracing.semantics import movement

_MODES: Final = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _padded(
    g: TorchImporter, x: Value, padding: Sequence[Any], mode: str, value: Any = None
) -> Value:
    """X with elements around it; `padding` lists what is added before and after each axis, from the
    last one on. Less than none is cut off: for reflections and edges, which are those of the whole
    axis, when these have been added.
    """
    count = len(padding) // 2
    axes = [x.rank - 1 - place for place in range(count)]
    late = mode in ("reflect", "edge")
    cut = [late and isinstance(amount, int) and amount < 0 for amount in padding]
    added = [0 if is_cut else amount for amount, is_cut in zip(padding, cut)]
    amounts = g.ints(*added[::2], *added[1::2])
    wide = g.cast(x, dtypes.uint8) if x.dtype.is_bool else x
    fill = None if not value else g.tensor(value, wide.dtype)
    y = g.cast(g("Pad", wide, amounts, fill, g.ints(*axes), mode=mode), x.dtype)
    for place, axis in enumerate(axes):
        first, last = (-padding[i] if cut[i] else 0 for i in (2 * place, 2 * place + 1))
        if first or last:
            y = g.part(y, axis, first, -last or sys.maxsize)
    return y


aten("constant_pad_nd")(lambda g, x, pad, value=0: _padded(g, x, pad, "constant", value))
aten("_pad_circular")(lambda g, x, pad: _padded(g, x, pad, "wrap"))


@aten("pad")
def pad(
    g: TorchImporter, x: Value, pad: Sequence[Any], mode: str = "constant", value: Any = None
) -> Value:
    """X with elements around it."""
    return _padded(g, x, pad, _MODES.get(mode, mode), value)


@aten("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(g: TorchImporter, x: Value, padding: Sequence[Any]) -> Value:
    """X with its reflection around it."""
    return _padded(g, x, padding, "reflect")


@aten("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(g: TorchImporter, x: Value, padding: Sequence[Any]) -> Value:
    """X with its edge around it."""
    return _padded(g, x, padding, "edge")


def _resized(
    g: TorchImporter,
    x: Value,
    size: Sequence[Any] | None,
    factors: Sequence[Any] | None,
    **attributes: Any,
) -> Value:
    """X with its last axes resampled, to sizes or by factors."""
    count = len(g.results[0].sizes) - 2
    factors = None if factors is None or None in factors else factors
    axes = tuple(range(2, 2 + count))
    narrow = x.dtype
    if not narrow.is_float and attributes["mode"] != "nearest":
        raise g.unsupported(f"interpolation of {narrow} elements")
    scales = sizes = None
    corners = attributes["coordinate_transformation_mode"] == "align_corners"
    if corners and attributes.get("antialias"):
        raise g.unsupported("antialiased resampling with align_corners")
    if size is not None and factors is not None and not _fits(x, size, factors):
        raise g.unsupported("resampling to sizes that do not come from the factors beside them")
    if corners and factors is not None:  # corners are aligned by sizes alone
        size, factors = [_scaled(g, n, f) for n, f in zip(g.sizes_of(x)[2:], factors)], None
    if factors is not None and any(isinstance(f, Value) for f in factors):
        parts = [g.shaped(g.tensor(f, dtypes.float32), 1) for f in factors]
        scales = g("Concat", *parts, axis=0)
    elif factors is not None:
        scales = g.constant(list(factors), dtype=dtypes.float32)
    if scales is None:
        if size is None:
            raise g.unsupported("resampling without sizes and factors")
        sizes = g.ints(*size)
    elif all(isinstance(n, int) for n in x.shape[2:]) and _says_the_same(g, x, factors):
        scales, sizes = None, g.ints(*(n or 0 for n in g.results[0].sizes[2:]))
    return g("Resize", x, None, scales, sizes, axes=axes, **attributes)


def _fits(x: Value, size: Sequence[Any], factors: Sequence[Any]) -> bool:
    """Whether sizes are those before times factors, rounded down, as far as they are known."""
    return all(
        not all(isinstance(n, (int, float)) for n in (before, after, factor))
        or after == math.floor(before * factor)
        for before, after, factor in zip(x.shape[2:], size, factors)
    )


def _scaled(g: TorchImporter, size: int | Value, factor: Any) -> Any:
    """A size times a factor, rounded down."""
    if isinstance(size, int) and not isinstance(factor, Value):
        return math.floor(size * factor)
    wide = (g.tensor(n, dtypes.float64) for n in (size, factor))
    return g.cast(g("Floor", g("Mul", *wide)), dtypes.int64)


def _says_the_same(g: TorchImporter, x: Value, factors: Any) -> bool:
    """Whether sizes say the same as factors do: they are the ratios of sizes."""
    pairs = zip(x.shape[2:], g.results[0].sizes[2:], factors)
    return all(
        isinstance(f, (int, float)) and after is not None and after == before * f
        for before, after, f in pairs
    )


def _nearest(mode: str, nearest: str) -> Any:
    def build(g: TorchImporter, x: Value, output_size: Any, *factors: Any) -> Value:
        return _resized(
            g,
            x,
            output_size,
            _factors(factors),
            mode="nearest",
            coordinate_transformation_mode=mode,
            nearest_mode=nearest,
        )

    return build


def _factors(factors: Sequence[Any]) -> Sequence[Any] | None:
    """The factors of an operator: one list (`.vec`), or one number for each axis."""
    if not factors or factors[0] is None:
        return None
    return factors[0] if isinstance(factors[0], (list, tuple)) else factors


def _interpolated(mode: str, antialias: int = 0) -> Any:
    options = {"cubic_coeff_a": -0.5} if mode == "cubic" and antialias else {}

    def build(
        g: TorchImporter, x: Value, output_size: Any, align_corners: bool, *factors: Any
    ) -> Value:
        return _resized(
            g,
            x,
            output_size,
            _factors(factors),
            mode=mode,
            coordinate_transformation_mode="align_corners" if align_corners else "half_pixel",
            antialias=antialias,
            exclude_outside=antialias,
            **options,
        )

    return build


for _rank in "123":
    aten(f"upsample_nearest{_rank}d")(_nearest("asymmetric", "floor"))
    aten(f"_upsample_nearest_exact{_rank}d")(_nearest("half_pixel", "round_prefer_ceil"))
for _name, _mode in (
    ("upsample_linear1d", "linear"),
    ("upsample_bilinear2d", "linear"),
    ("upsample_trilinear3d", "linear"),
    ("upsample_bicubic2d", "cubic"),
):
    aten(_name)(_interpolated(_mode))
aten("_upsample_bilinear2d_aa")(_interpolated("linear", 1))
aten("_upsample_bicubic2d_aa")(_interpolated("cubic", 1))

_SAMPLED: Final = ("linear", "nearest", "cubic")
_BORDERS: Final = ("zeros", "border", "reflection")


@aten("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(
    g: TorchImporter,
    x: Value,
    grid: Value,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Value:
    """X read at the places of a grid."""
    mode, padding = _SAMPLED[interpolation_mode], _BORDERS[padding_mode]
    options = {"mode": mode, "padding_mode": padding, "align_corners": int(align_corners)}
    flat = x.rank == 4
    if mode == "cubic" or (flat and mode == "linear" and padding == "zeros"):
        lost = g("Or", g("IsNaN", grid), g("IsInf", grid))
        any_lost = g("ReduceMax", g.cast(lost, dtypes.uint8), g.ints(-1), keepdims=0)
        mask = g("Unsqueeze", g.cast(any_lost, dtypes.bool_), g.ints(1))
        y = g("GridSample", x, grid, **options)
        return g("Where", mask, g.number(math.nan, y.dtype), y)
    if padding != "zeros":
        grid = _settled(g, grid, padding, flat)
    return g("GridSample", x, grid, **options)


def _settled(g: TorchImporter, grid: Value, padding: str, flat: bool) -> Value:
    """A grid without places that are no finite numbers: torch takes NaN to be the first element of
    an axis of an image, and the last one of a volume; reflecting what is infinite gives NaN.
    """
    first, last = g.number(-1, grid.dtype), g.number(1, grid.dtype)
    unknown = first if flat else last
    if padding == "reflection":
        lost = g("Or", g("IsNaN", grid), g("IsInf", grid))
        return g("Where", lost, unknown, grid)
    low, high = g.number(-2, grid.dtype), g.number(3, grid.dtype)  # beyond either border
    grid = g("Where", g("IsNaN", grid), low if flat else high, grid)
    return g("Clip", grid, low, high)


@aten("affine_grid_generator")
def affine_grid(g: TorchImporter, theta: Value, size: Sequence[Any], align_corners: bool) -> Value:
    """The grid of places that a map makes of those of an image."""
    return g("AffineGrid", theta, g.ints(*size), align_corners=int(align_corners))


@aten("col2im")
def col2im(
    g: TorchImporter,
    x: Value,
    output_size: Sequence[Any],
    kernel_size: Any,
    dilation: Any,
    padding: Any,
    stride: Any,
) -> Value:
    """Images from the sums of their windows' columns."""
    single = x.rank == 2
    pads = each(padding, 2)
    y = g(
        "Col2Im",
        g("Unsqueeze", x, g.ints(0)) if single else x,
        g.ints(*output_size),
        g.ints(*each(kernel_size, 2)),
        dilations=tuple(each(dilation, 2)),
        pads=(*pads, *pads),
        strides=tuple(each(stride, 2)),
    )
    return g("Squeeze", y, g.ints(0)) if single else y


@aten("im2col")
def im2col(
    g: TorchImporter, x: Value, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> Value:
    """The windows of images as columns."""
    kernel, steps = each(kernel_size, 2), each(stride, 2)
    spread, pads = each(dilation, 2), each(padding, 2)
    x = _padded(g, x, [pads[1], pads[1], pads[0], pads[0]], "constant") if any(pads) else x
    return movement.columns(g, x, kernel, steps, spread)
