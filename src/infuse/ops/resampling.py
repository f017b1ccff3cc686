"""Resampling of tensors to another size."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from infuse.errors import ShapeError
from infuse.immutable import Immutable
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.expression import Call
from infuse.ir.graph import Node, Value
from infuse.ir.relations import must_equal
from infuse.ir.types import TensorType
from infuse.ops.core.axes import Axes, same_axes
from infuse.ops.core.base import Array, Inferred, Op, Rounding
from infuse.ops.core.elementwise import f32
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import at_most, fresh_dim, int64s, normalize_axes, with_dim
from infuse.ops.core.traits import Trait

_CHOICES = {
    "mode": ("nearest", "linear", "cubic"),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
    "coordinate_transformation_mode": (
        "half_pixel",
        "half_pixel_symmetric",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
        "tf_crop_and_resize",
    ),
}


class ResizedAxis(Immutable):
    """One axis that is resampled: sizes before and after, their ratio, and the part of the input
    that is shown.
    """

    number: int
    before: int
    after: int
    scale: float
    begin: float
    end: float

    @property
    def is_identity(self) -> bool:
        """Whether every element stays as it is."""
        return self.after == self.before and self.scale == 1 and (self.begin, self.end) == (0, 1)


class Sampling(Immutable):
    """How the elements of a resampled axis are computed of those before. `coordinates`: the mode of
    transformation; `cubic`: the coefficient of cubic weights; `extrapolation`: the value outside.
    """

    mode: str
    nearest_mode: str
    coordinates: str
    cubic: float
    extrapolation: float
    excludes_outside: bool
    antialiases: bool

    def outside(self, axis: ResizedAxis) -> Array:
        """Which output elements lie outside of the input and get the extrapolation value."""
        places = self._places(axis)
        crops = self.coordinates == "tf_crop_and_resize"
        return np.asarray(((places < 0) | (places > axis.before - 1)) & crops)

    def resample(self, data: Array, axis: ResizedAxis) -> Array:
        """One axis resampled; linear and cubic modes give float64."""
        places, outside = self._places(axis), self.outside(axis)
        spread = (-1,) + (1,) * (data.ndim - 1 - axis.number)
        if self.mode == "nearest":
            result = np.take(
                data, _nearest(self.nearest_mode, places, axis.before), axis=axis.number
            )
        else:
            indices, weights = self._weights(places, axis)
            wide = data.astype(np.float64)
            terms = [
                np.take(wide, np.clip(i, 0, axis.before - 1), axis=axis.number) * w.reshape(spread)
                for i, w in zip(indices.T, weights.T)
            ]
            result = np.sum(terms, axis=0)
        if outside.any():
            result = np.where(
                outside.reshape(spread), result.dtype.type(self.extrapolation), result
            )
        return result

    def _places(self, axis: ResizedAxis) -> Array:
        """Where along the input every output element lies."""
        place, last = np.arange(axis.after, dtype=np.float64), axis.before - 1
        mode = self.coordinates
        if mode == "asymmetric":
            return place / axis.scale
        if mode == "align_corners":
            return place * (last / (axis.after - 1)) if axis.after > 1 else place
        if mode == "tf_crop_and_resize":
            if axis.after == 1:
                return np.full(1, 0.5 * (axis.begin + axis.end) * last)
            return axis.begin * last + place * ((axis.end - axis.begin) * last / (axis.after - 1))
        if mode == "pytorch_half_pixel" and axis.after == 1:
            return np.zeros(1)
        centered = (place + 0.5) / axis.scale - 0.5
        if mode == "half_pixel_symmetric":
            centered += axis.before / 2 * (1 - axis.after / (axis.scale * axis.before))
        return centered

    def _weights(self, places: Array, axis: ResizedAxis) -> tuple[Array, Array]:
        """Input elements that every output element is made of, and their weights."""
        stretch = min(axis.scale, 1.0) if self.antialiases else 1.0
        reach = 2 if self.mode == "cubic" else 1
        first = int(np.floor(-reach / stretch)) + 1
        base = np.floor(places)
        offsets = np.arange(first, 2 - first)
        indices = (base[:, None] + offsets).astype(np.intp)
        distance = np.abs(indices - places[:, None]) * stretch
        weights = (
            _cubic(distance, self.cubic) if self.mode == "cubic" else np.clip(1 - distance, 0, 1)
        )
        if self.excludes_outside:
            weights = np.where((indices < 0) | (indices >= axis.before), 0, weights)
        if self.excludes_outside or self.antialiases:
            weights = weights / weights.sum(axis=1, keepdims=True)
        return indices, weights


class Resize(Op):
    """x resampled to `sizes`, or to its sizes times `scales` rounded down, along `axes` (all when
    empty).
    """

    traits = Trait.FLOAT32
    antialias: int = 0
    axes: tuple[int, ...] = ()
    coordinate_transformation_mode: str = "half_pixel"
    cubic_coeff_a: float = -0.75
    exclude_outside: int = 0
    extrapolation_value: float = 0.0
    keep_aspect_ratio_policy: str = "stretch"
    mode: str = "nearest"
    nearest_mode: str = "round_prefer_floor"

    since = 19
    accuracy = Rounding(ulp=4, abs=2e-6, why="weights may have both signs")
    samples = (
        cases(
            x=[(1, 2, 4, 5), (1, 2, 4, 5), (1, 2, 6, 8)],
            scales=[f32(1, 1, 2, 3), f32(1, 1, 1.5, 0.8), f32(1, 1, 0.5, 0.25)],
            mode=["nearest", "linear", "cubic"],
            coordinate_transformation_mode=[
                "half_pixel",
                "pytorch_half_pixel",
                "asymmetric",
                "half_pixel_symmetric",
            ],
        ),
        cases(
            x=[(1, 2, 4, 5), (1, 2, 6, 8)],
            sizes=[int64s(1, 2, 7, 10), int64s(1, 2, 3, 1)],
            mode=["nearest", "linear", "cubic"],
            coordinate_transformation_mode=["half_pixel", "align_corners"],
        ),
        cases(
            x=[(1, 1, 7, 6)], scales=[f32(1, 1, 0.625, 0.5)], nearest_mode=_CHOICES["nearest_mode"]
        ),
        cases(
            x=[(1, 1, 7, 9)],
            sizes=[int64s(4, 3)],
            axes=[(2, 3)],
            mode=["linear", "cubic"],
            antialias=[0, 1],
            exclude_outside=[0, 1],
        ),
        cases(
            x=[(1, 1, 7, 9)],
            sizes=[int64s(5, 5)],
            axes=[(2, 3)],
            keep_aspect_ratio_policy=["not_larger", "not_smaller"],
        ),
        cases(
            x=[(1, 1, 5, 6)],
            roi=[f32(0, 0, -0.2, 0.25, 1, 1, 0.9, 1.25)],
            sizes=[int64s(1, 1, 4, 3)],
            mode=["linear", "nearest"],
            coordinate_transformation_mode=["tf_crop_and_resize"],
            extrapolation_value=[0.0, 7.0],
        ),
        cases(
            x=[Ints((1, 1, 3, 4))],
            scales=[f32(1, 1, 2, 2)],
            coordinate_transformation_mode=["asymmetric"],
        ),
    )

    def infer(
        self,
        x: Value,
        roi: Value | None = None,
        scales: Value | None = None,
        sizes: Value | None = None,
    ) -> Inferred:
        self._check_attributes()
        if x.tensor.shape is None:
            return x.type
        axes = self._axes(x.rank)
        factors = sizes if _present(sizes) else scales
        if factors is None or not _present(factors):
            raise ShapeError("Resize needs scales or sizes")
        if factors.tensor.size is not None and not must_equal(factors.tensor.size, len(axes)):
            raise ShapeError(
                f"Resize of {len(axes)} axes needs as many scales or sizes, found {factors.type}"
            )
        shape = x.shape
        for axis, size in zip(
            axes, self._sizes([shape[a] for a in axes], factors, factors is sizes)
        ):
            if size != shape[axis]:  # of nothing only nothing can be made
                at_most(dims.minimum(size, 1), shape[axis], "what Resize makes of an axis")
            shape = with_dim(shape, axis, size)
        return TensorType(x.dtype, shape)

    def _check_attributes(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ShapeError(
                    f"Resize has no {name} {getattr(self, name)!r}",
                    hint=f"one of: {', '.join(choices)}",
                )

    def _axes(self, rank: int) -> tuple[int, ...]:
        return normalize_axes(self.axes or range(rank), rank, self.name)

    def _sizes(self, before: Sequence[Dim], factors: Value, is_sizes: bool) -> list[Dim]:
        """Sizes after resampling, as far as they are known."""
        if not is_sizes:
            if factors.const is None:
                return [fresh_dim("resize") for _ in before]
            return [
                scaled(size, meant(float(s))) for size, s in zip(before, factors.const.reshape(-1))
            ]
        if self.keep_aspect_ratio_policy == "stretch":
            return _entries(factors, len(before))
        targets = known_ints(factors)
        if targets is None:
            return [fresh_dim("resize") for _ in before]
        if not all(isinstance(d, int) for d in (*before, *targets)):
            return [fresh_dim("resize") for _ in before]
        old = [int(d) for d in before]
        ratio = self.common_ratio(old, [int(d) for d in targets])
        return [_nearest_size(ratio * size) for size in old]

    def common_ratio(self, before: Sequence[int], targets: Sequence[int]) -> Fraction:
        """The scale of all axes where the aspect ratio is kept."""
        ratios = [Fraction(after, size) for size, after in zip(before, targets)]
        return min(ratios) if self.keep_aspect_ratio_policy == "not_larger" else max(ratios)

    def shared_axes(self, node: Node) -> Axes | None:
        x, scales = node.inputs[0], node.input(2)
        if x is None or x.tensor.shape is None or node.output.tensor.shape is None:
            return None
        axes = self._axes(x.rank)
        if _present(node.input(1)) and self.coordinate_transformation_mode == "tf_crop_and_resize":
            return same_axes(node, axes)
        moved = {axis for axis in axes if x.shape[axis] != node.output.shape[axis]}
        if _present(scales):
            assert scales is not None
            if scales.const is None:
                return None
            moved |= {axis for axis, s in zip(axes, scales.const.reshape(-1)) if s != 1}
        return same_axes(node, moved)

    def with_axes(self, node: Node, args: Sequence[Any], axes: Axes) -> Call | None:
        x, roi, order = node.inputs[0], node.input(1), axes.result
        assert x is not None
        if axes.operands[0] != order or not axes.mixed <= set(order):
            return None
        own = self._axes(x.rank)
        left = sorted((axis for axis in own if axis in order), key=order.index)
        places = [own.index(axis) for axis in left]
        region: Any = roi
        if _present(roi):
            assert roi is not None
            if roi.const is None:
                return None
            region = roi.const.reshape(2, -1)[:, places].reshape(-1)
        factors = [_picked(factor, places) for factor in (node.input(2), node.input(3))]
        numbers = tuple(order.index(axis) for axis in left)
        whole = numbers == tuple(range(len(order)))
        return self.called((args[0], region, *factors), axes=() if whole else numbers)

    def eval(
        self,
        x: Array,
        roi: Array | None = None,
        scales: Array | None = None,
        sizes: Array | None = None,
    ) -> Array:
        data = x
        for axis in self.plan(x.shape, roi, scales, sizes):
            if not axis.is_identity:
                data = self.sampling.resample(data, axis)
        return data if data.dtype == x.dtype else as_type(data, x.dtype)

    def plan(
        self, shape: tuple[int, ...], roi: Array | None, scales: Array | None, sizes: Array | None
    ) -> list[ResizedAxis]:
        """The axes of an input of this shape that are resampled, one after another."""
        axes = self._axes(len(shape))
        before = [shape[a] for a in axes]
        if sizes is not None and sizes.size:
            after = [int(s) for s in sizes]
            ratios = [a / b for a, b in zip(after, before)]
            if self.keep_aspect_ratio_policy != "stretch":
                common = self.common_ratio(before, after)
                after = [_nearest_size(common * size) for size in before]
                ratios = [float(common)] * len(axes)
        else:
            assert scales is not None
            exact = [meant(float(s)) for s in scales.reshape(-1)]
            after = [int(scaled(size, s)) for size, s in zip(before, exact)]
            ratios = [float(s) for s in exact]
        count = len(axes)
        crop = (
            self.coordinate_transformation_mode == "tf_crop_and_resize"
            and roi is not None
            and roi.size
        )
        begins = [float(v) for v in roi[:count]] if crop and roi is not None else [0.0] * count
        ends = [float(v) for v in roi[count:]] if crop and roi is not None else [1.0] * count
        return [ResizedAxis(*row) for row in zip(axes, before, after, ratios, begins, ends)]

    @property
    def sampling(self) -> Sampling:
        """How elements along an axis are made of those before."""
        return Sampling(
            self.mode,
            self.nearest_mode,
            self.coordinate_transformation_mode,
            self.cubic_coeff_a,
            self.extrapolation_value,
            bool(self.exclude_outside),
            bool(self.antialias),
        )

    def flops(self, shapes: Shapes) -> Flops:
        """For each axis that changes: nothing to take the nearest, 3 operations to blend two
        elements, 7 for four.
        """
        effort = {"nearest": 0, "linear": 3, "cubic": 7}[self.mode]
        changed = sum(a != b for a, b in zip(shapes.input(0), shapes.outputs[0]))
        return Flops(0, shapes.made * effort * changed)


def as_type(x: Array, dtype: np.dtype[Any]) -> Array:
    """Computed numbers in an element type: integers are cut off and kept in their range."""
    if dtype.kind not in "iu" or x.dtype.kind != "f":
        return np.asarray(x, dtype=dtype)
    limits = np.iinfo(dtype)
    whole = np.trunc(np.where(np.isnan(x), 0, x))
    above = whole >= float(limits.max)
    result = np.clip(np.where(above, 0, whole), float(limits.min), None).astype(dtype)
    return np.where(above, dtype.type(limits.max), result)


def _nearest(mode: str, places: Array, size: int) -> Array:
    """The elements nearest to places along an axis."""
    rounding = {
        "floor": np.floor(places),
        "ceil": np.ceil(places),
        "round_prefer_floor": np.ceil(places - 0.5),
        "round_prefer_ceil": np.floor(places + 0.5),
    }
    return np.clip(rounding[mode], 0, size - 1).astype(np.intp)


def _cubic(distance: Array, a: float) -> Array:
    """Keys' convolution kernel."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = a * (((distance - 5) * distance + 8) * distance - 4)
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def _present(value: Value | None) -> bool:
    """Whether an optional input is there; exporters write an empty vector for an absent one."""
    return value is not None and value.tensor.size != 0


def _picked(factors: Value | None, places: Sequence[int]) -> Any:
    """The scales or sizes of these axes."""
    if factors is None or not _present(factors) or list(places) == list(range(len(places))):
        return factors
    if factors.const is not None:
        return factors.const.reshape(-1)[list(places)]
    return Call("Gather", (factors, int64s(*places)))


def _entries(sizes: Value, count: int) -> list[Dim]:
    """The elements of a list of sizes; new symbols for those that only a run knows."""
    maker = sizes.producer
    is_listed = known_ints(sizes) is None and maker is not None and maker.kind == "Concat"
    parts = list(maker.operands()) if is_listed and maker is not None else [sizes]
    entries: list[Dim] = []
    for part in parts:
        ints, length = known_ints(part), part.tensor.size
        if ints is None and not isinstance(length, int):
            return [fresh_dim("resize") for _ in range(count)]
        if ints is None and isinstance(length, int):
            entries += [fresh_dim("resize") for _ in range(length)]
        entries += ints or ()
    return entries


def _nearest_size(size: Fraction) -> int:
    return int(size + Fraction(1, 2))


def meant(scale: float) -> Fraction:
    """The simplest fraction that float32 rounds to this scale: 3/5 for 0.6, which float32 holds as
    0.60000002.
    """
    if not 0 < scale < np.inf:
        raise ShapeError(f"Resize cannot scale by {scale}")
    simple = Fraction(scale).limit_denominator(4096)
    return simple if np.float32(float(simple)) == np.float32(scale) else Fraction(scale)


def scaled(size: Dim, scale: Fraction) -> Dim:
    """`size · scale` rounded down."""
    return dims.floordiv(size * scale.numerator, scale.denominator)
