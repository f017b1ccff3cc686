"""Products of matrices and convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import UnsupportedOperatorError
from infuse.frontends.jax.calls import JaxCall, JaxImporter, primitive
from infuse.frontends.jax.primitives.elementwise import converted
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.tracing.semantics.padding import padded


def _computed_in(operands: Sequence[Value], result: DType) -> DType:
    """The type in which products are summed up."""
    if not result.is_float:
        return result if result.bits >= 32 and result.is_integer else dtypes.int32
    return max((*(v.dtype for v in operands if v.dtype.is_float), result), key=lambda d: d.bits)


@primitive("dot_general")
def dot_general(call: JaxCall) -> Value:
    """Products summed up over pairs of axes, for every element of others that go together."""
    g = call.g
    (inner_a, inner_b), (batch_a, batch_b) = call["dimension_numbers"]
    dtype = _computed_in(call.operands, call.dtype)
    a, b = (g.cast(value, dtype) for value in (call.x, call.y))
    free_a = [axis for axis in range(a.rank) if axis not in (*inner_a, *batch_a)]
    free_b = [axis for axis in range(b.rank) if axis not in (*inner_b, *batch_b)]
    batch = [a.shape[axis] for axis in batch_a]
    inner = dims.product(a.shape[axis] for axis in inner_a)
    rows, columns = [a.shape[axis] for axis in free_a], [b.shape[axis] for axis in free_b]
    a = g.permute(a, *batch_a, *free_a, *inner_a)
    b = g.permute(b, *batch_b, *inner_b, *free_b)
    if batch_a:
        rows = [dims.product(rows)]
    a = g.reshape(a, *batch, *(rows or [1]), inner)
    b = g.reshape(b, *batch, inner, dims.product(columns))
    product = g("MatMul", a, b)
    return converted(g, g.reshape(product, *call.shape), call.dtype)


@primitive("conv_general_dilated")
def conv_general_dilated(call: JaxCall) -> Value:
    """Sums of products of a kernel and windows of images, in any order of axes."""
    g, numbers = call.g, call["dimension_numbers"]
    if call["batch_group_count"] != 1:
        raise call.unsupported("a convolution with groups of its batch (batch_group_count)")
    x = g.permute(call.x, *numbers.lhs_spec)
    w = g.permute(call.y, *numbers.rhs_spec)
    dtype = _summed_in(call)
    x, w = g.cast(x, dtype), g.cast(w, dtype)
    spread = call.sizes("lhs_dilation")
    x, pads = _prepared(g, x, spread, [tuple(map(call.size, pair)) for pair in call["padding"]])
    strides = [int(step) for step in call["window_strides"]]
    dilations = [int(step) for step in call["rhs_dilation"]]
    flat = not strides
    if flat:
        x, w = g.reshape(x, *x.shape, 1), g.reshape(w, *w.shape, 1)
        strides, dilations, pads = [1], [1], [0, 0]
    group = int(call["feature_group_count"])
    made = g("Conv", x, w, strides=tuple(strides), dilations=tuple(dilations), group=group,
             pads=tuple(pads), kernel_shape=_kernel(w))  # fmt: skip
    if flat:
        made = g.reshape(made, *made.shape[:2])
    order = list(numbers.out_spec)
    made = g.permute(made, *(order.index(axis) for axis in range(len(order))))
    return converted(g, made, call.dtype)


def _kernel(w: Value) -> tuple[int, ...]:
    sizes = w.shape[2:]
    if not all(isinstance(size, int) and size for size in sizes):
        raise UnsupportedOperatorError(
            "a convolution with a kernel of no known size is not supported"
        )
    return tuple(int(size) for size in sizes if isinstance(size, int))


def _summed_in(call: JaxCall) -> DType:
    """The type in which products are summed up: floats, of which small integers are some."""
    dtype = _computed_in(call.operands, call.dtype)
    if dtype.is_float:
        return dtype
    if any(value.dtype.bits > 16 for value in call.operands):
        raise call.unsupported("a convolution of wide integers", "convert them to floats before")
    return dtypes.float64


def _prepared(
    g: JaxImporter, x: Value, spread: Sequence[Dim], pads: Sequence[tuple[Dim, ...]]
) -> tuple[Value, list[int]]:
    """Images with zeros between their elements and without what negative pads cut off; the pads
    that are left.
    """
    plain = all(isinstance(p, int) and p >= 0 for pair in pads for p in pair)
    if plain and all(step == 1 for step in spread):
        befores, afters = zip(*pads) if pads else ((), ())
        return x, [*befores, *afters]
    config = [(low, high, step - 1) for (low, high), step in zip(pads, spread)]
    x = padded(g, x, g.number(0, x.dtype), [(0, 0, 0), (0, 0, 0), *config])
    return x, [0] * (2 * len(pads))
