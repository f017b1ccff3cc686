"""Operators by their definition, in float64 and as plainly as possible, where ONNX's reference
falls short.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.special

from infuse.dtypes import by_numpy
from infuse.ops.conversion import Cast
from infuse.testing import reference
from infuse.testing.samples import Row
from tests.pure.language_oracles import LANGUAGE_ORACLES
from tests.pure.ml_oracles import ML_ORACLES
from tests.pure.recurrent_oracle import recurrent
from tests.pure.text_editing_oracles import TEXT_EDITING_ORACLES
from tests.pure.text_oracles import TEXT_ORACLES

Array = Any


def attention(row: Row) -> list[Array]:
    """The reference caps the raw scores too."""
    outputs = [not (len(row.inputs) == 7 and i in (1, 2)) for i in range(4)]
    found = reference.evaluate(row, outputs)
    if row.op.qk_matmul_output_mode == 0 and row.op.softcap:
        plain = dataclasses.replace(row, op=row.op.replace(softcap=0.0))
        found[-1] = reference.evaluate(plain, outputs)[-1]
    return found


def cast_like(row: Row) -> list[Array]:
    """The reference rejects the attribute round_mode."""
    x, target = row.inputs
    return reference.evaluate(Row(Cast(by_numpy(target.dtype)), (x,), row.fixed[:1]))


def conv_transpose(row: Row) -> list[Array]:
    """The reference fails on some groups."""
    x, w, *rest = row.inputs
    (inferred,) = reference.inferred(row)
    assert inferred is not None
    assert inferred.shape is not None
    result = np.zeros(inferred.shape)
    op, rank = row.op, x.ndim - 2
    strides, dilations = op.strides or (1,) * rank, op.dilations or (1,) * rank
    extra, pads = op.output_padding or (0,) * rank, op.pads or (0,) * 2 * rank
    begins = list(pads[:rank])
    for axis in range(rank):
        if op.output_shape or op.auto_pad.startswith("SAME"):
            span = (
                strides[axis] * (x.shape[2 + axis] - 1)
                + extra[axis]
                + (w.shape[2 + axis] - 1) * dilations[axis]
                + 1
            )
            total = span - result.shape[2 + axis]
            begins[axis] = total // 2 if op.auto_pad == "SAME_UPPER" else total - total // 2
    depth, per_group = w.shape[0] // op.group, w.shape[1]
    for place in np.ndindex(x.shape):
        n, c, *at = place
        for target in np.ndindex(w.shape[1:]):
            m, *k = target
            spot = [i * s + j * d - b for i, s, j, d, b in zip(at, strides, k, dilations, begins)]
            if all(0 <= p < size for p, size in zip(spot, result.shape[2:])):
                result[(n, c // depth * per_group + m, *spot)] += x[place] * w[(c, *target)]
    return [result + rest[0].reshape(-1, *(1,) * rank)] if rest else [result]


def erf(row: Row) -> list[Array]:
    """The reference computes in float32."""
    return [scipy.special.erf(row.inputs[0])]


def global_lp_pool(row: Row) -> list[Array]:
    """The reference has none."""
    (x,) = row.inputs
    flat = np.abs(x.reshape(*x.shape[:2], -1)) ** row.op.p
    return [(flat.sum(axis=2) ** (1 / row.op.p)).reshape(*x.shape[:2], *(1,) * (x.ndim - 2))]


def global_max_pool(row: Row) -> list[Array]:
    """The reference drops a channel of one-dimensional signals."""
    (x,) = row.inputs
    return [x.reshape(*x.shape[:2], -1).max(axis=2).reshape(*x.shape[:2], *(1,) * (x.ndim - 2))]


def lp_normalization(row: Row) -> list[Array]:
    """The reference adds up signed elements."""
    (x,) = row.inputs
    norm = (np.abs(x) ** row.op.p).sum(axis=row.op.axis, keepdims=True) ** (1 / row.op.p)
    return [np.divide(x, norm, out=np.zeros_like(x), where=norm != 0)]


def grid_sample(row: Row) -> list[Array]:
    """The reference moves places of cubic samples to the border, in place of what lies around
    them.
    """
    x, grid = row.inputs
    op = row.op
    if op.mode != "cubic" or op.padding_mode != "border":
        return reference.evaluate(row)
    sizes, result = x.shape[2:], np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for n, *at in np.ndindex(grid.shape[:-1]):
        taps = []
        for size, place in zip(sizes, grid[(n, *at)][::-1], strict=True):
            span = size - 1 if op.align_corners else size
            where = (place + 1) / 2 * span - (0 if op.align_corners else 0.5)
            first = math.floor(where)
            near = [(first + i, abs(where - first - i)) for i in (-1, 0, 1, 2)]
            taps.append([(min(max(i, 0), size - 1), cubic(far)) for i, far in near])
        for chosen in itertools.product(*taps):
            weight = math.prod(w for _, w in chosen)
            result[(n, slice(None), *at)] += weight * x[(n, slice(None), *(i for i, _ in chosen))]
    return [result]


def cubic(far: float, a: float = -0.75) -> float:
    """The weight of Keys' cubic for an element so far away."""
    if far <= 1:
        return (a + 2) * far**3 - (a + 3) * far**2 + 1
    return a * far**3 - 5 * a * far**2 + 8 * a * far - 4 * a if far < 2 else 0.0


def lrn(row: Row) -> list[Array]:
    """The reference confuses images with channels."""
    op, (x,) = row.op, row.inputs
    result = np.empty_like(x)
    for n, c in np.ndindex(x.shape[:2]):
        first, last = (
            max(0, c - (op.size - 1) // 2),
            min(x.shape[1] - 1, c + int(np.ceil((op.size - 1) / 2))),
        )
        total = sum(x[n, i] ** 2 for i in range(first, last + 1))
        result[n, c] = x[n, c] / (op.bias + op.alpha / op.size * total) ** op.beta
    return [result]


def max_pool(row: Row) -> list[Array]:
    """The reference numbers indices in another way."""
    op, (x,) = row.op, row.inputs
    inferred, _ = reference.inferred(row, (True, True))
    assert inferred is not None
    assert inferred.shape is not None
    rank = x.ndim - 2
    strides, dilations = op.strides or (1,) * rank, op.dilations or (1,) * rank
    begins = list((op.pads or (0,) * 2 * rank)[:rank])
    for axis in range(rank):
        if op.auto_pad.startswith("SAME"):
            span = (
                (inferred.shape[2 + axis] - 1) * strides[axis]
                + (op.kernel_shape[axis] - 1) * dilations[axis]
                + 1
            )
            total = max(span - x.shape[2 + axis], 0)
            begins[axis] = total // 2 if op.auto_pad == "SAME_UPPER" else total - total // 2
    values, indices = np.empty(inferred.shape, x.dtype), np.empty(inferred.shape, np.int64)
    order = "F" if op.storage_order else "C"
    for place in np.ndindex(values.shape):
        n, c, *at = place
        best = None
        for k in itertools.product(*map(range, op.kernel_shape)):
            spot = tuple(
                i * s + j * d - b for i, s, j, d, b in zip(at, strides, k, dilations, begins)
            )
            inside = all(0 <= p < size for p, size in zip(spot, x.shape[2:]))
            if inside and (best is None or x[(n, c, *spot)] > x[(n, c, *best)]):
                best = spot
        assert best is not None
        values[place] = x[(n, c, *best)]
        inner = np.ravel_multi_index(best, x.shape[2:], order=order)
        indices[place] = (n * x.shape[1] + c) * x[0, 0].size + inner
    return [values, indices]


def max_roi_pool(row: Row) -> list[Array]:
    """The reference has none."""
    x, rois = row.inputs
    high, wide = row.op.pooled_shape
    result = np.full((len(rois), x.shape[1], high, wide), -np.inf)
    for r, (image, *corners) in enumerate(rois.tolist()):
        x1, y1, x2, y2 = (
            int(np.copysign(np.floor(abs(c * row.op.spatial_scale) + 0.5), c)) for c in corners
        )
        height, width = max(y2 - y1 + 1, 1), max(x2 - x1 + 1, 1)
        for i, j, py, px in np.ndindex(high, wide, *x.shape[2:]):
            # A pixel belongs to a bin where the two share more than an edge.
            down = (py - y1 + 1) * high > i * height and (py - y1) * high < (i + 1) * height
            across = (px - x1 + 1) * wide > j * width and (px - x1) * wide < (j + 1) * width
            if down and across:
                result[r, :, i, j] = np.maximum(result[r, :, i, j], x[int(image), :, py, px])
    return [np.where(np.isinf(result), 0, result)]


def mean(row: Row) -> list[Array]:
    """The reference does not broadcast."""
    return [sum(row.inputs[1:], row.inputs[0]) / len(row.inputs)]


def mean_variance_normalization(row: Row) -> list[Array]:
    """The reference's function body mixes float32 with float64."""
    (x,) = row.inputs
    center = x - x.mean(axis=row.op.axes, keepdims=True)
    return [center / (np.sqrt((center**2).mean(axis=row.op.axes, keepdims=True)) + 1e-9)]


def optional(row: Row) -> list[Any]:
    """The reference cannot hold the attribute type."""
    return [row.inputs[0] if row.inputs else None]


def reduce_log_sum_exp(row: Row) -> list[Array]:
    """The reference fails on scalars."""
    data, *given = row.inputs
    axes = tuple(int(a) for a in given[0]) if given and given[0].size else None
    if axes is None and row.op.noop_with_empty_axes:
        return [data]
    result = scipy.special.logsumexp(data, axis=axes, keepdims=bool(row.op.keepdims))
    return [result if data.ndim else np.reshape(result, ())]


def softsign(row: Row) -> list[Array]:
    """The reference fails on scalars."""
    return [row.inputs[0] / (1 + np.abs(row.inputs[0]))]


SCALARS: dict[str, Callable[[Any, float], Any]] = {
    "AddScalar": lambda x, c: x + c,
    "RSubScalar": lambda x, c: c - x,
    "MulScalar": lambda x, c: c * x,
    "DivScalar": lambda x, c: x / c,
    "RDivScalar": lambda x, c: c / x,
    "PowScalar": lambda x, c: x**c,
}


def with_scalar(row: Row) -> list[Array]:
    """Python's own operator."""
    return [SCALARS[row.op.name](row.inputs[0], row.op.value)]


def multiply_add(row: Row) -> list[Array]:
    """In fractions, rounded once."""

    def one(*xs: np.float32) -> float:
        a, b, c = (Fraction(float(x)) for x in xs)
        exact = a * b + c
        near = np.float32(float(exact))
        ends = (
            near,
            np.nextafter(near, np.float32(np.inf)),
            np.nextafter(near, -np.float32(np.inf)),
        )
        even = {end: int(end.view(np.int32)) % 2 for end in ends}
        return float(min(ends, key=lambda end: (abs(Fraction(float(end)) - exact), even[end])))

    return [np.vectorize(one, otypes=[np.float32])(*row.inputs)]


ORACLES: dict[str, Callable[[Row], list[Any]]] = {
    **LANGUAGE_ORACLES,
    **dict.fromkeys(SCALARS, with_scalar),
    "MultiplyAdd": multiply_add,
    "WeightedSum": lambda row: [row.inputs[0] * row.op.alpha + row.inputs[1] * row.op.beta],
    **dict.fromkeys(("RNN", "GRU", "LSTM"), recurrent),
    "Assert": lambda row: [row.inputs[0]],
    "Attention": attention,
    "CastLike": cast_like,
    "ConvTranspose": conv_transpose,
    "Erf": erf,
    "GlobalLpPool": global_lp_pool,
    "GlobalMaxPool": global_max_pool,
    "GridSample": grid_sample,
    "LRN": lrn,
    "LpNormalization": lp_normalization,
    "MaxPool": max_pool,
    "MaxRoiPool": max_roi_pool,
    "Mean": mean,
    "MeanVarianceNormalization": mean_variance_normalization,
    "Optional": optional,
    "ReduceLogSumExp": reduce_log_sum_exp,
    "Softsign": softsign,
    **ML_ORACLES,
    **TEXT_ORACLES,
    **TEXT_EDITING_ORACLES,
}
