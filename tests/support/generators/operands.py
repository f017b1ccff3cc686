"""Operands that fit: values of a type or a shape, of those that a graph has or made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.ir.graph import Value, constant
from infuse.ir.types import Shape, TensorType
from infuse.ops.core.samples import Bools, Floats, Ints
from infuse.testing.samples import type_of
from tests.support.generators.builder import Misfit, NetworkBuilder


def like(g: NetworkBuilder, spec: Any, dtype: DType | None = None) -> Value:
    """A value of a spec's shape and element type: one that there is, one made of it, an input
    or a constant.

    A spec is a shape (of floats), `Ints`, `Floats`, `Bools`, a type or an array, which becomes
    a constant.
    """
    type, spec = _spec_type(g, spec, dtype)
    if isinstance(spec, np.ndarray):
        return constant(spec, "", type.dtype)
    ranged = isinstance(spec, (Ints, Floats))
    fitting = [] if ranged else [v for v in g.visible() if v.type == type]
    if fitting and g.chance(0.7):
        value: Value = g.one(fitting[-4:])
        return value
    if g.chance(0.4):
        try:
            return adapted(g, type, spec)
        except Misfit:
            pass
    if type.is_static and g.chance(0.3):
        return constant(g.elements(numbers(type.shape), type.dtype, spec), "", type.dtype)
    return g.input(type, spec)


def partner(g: NetworkBuilder, x: Value) -> Value:
    """An operand of the element type of x whose shape mostly broadcasts against it."""
    if g.chance(0.4):
        candidates = [
            v for v in g.visible() if isinstance(v.type, TensorType) and v.dtype == x.dtype
        ]
        value: Value = x if g.chance(0.1) else g.one(candidates)
        return value
    shape = [d if isinstance(d, int) and g.chance(0.5) else 1 for d in x.shape]
    shape = shape[g.number(0, len(shape)) :]
    if g.chance(0.1):
        shape = [g.one(g.scale.sizes) if d == 1 else d for d in [1, *shape]]
    if g.chance(0.15):
        return g.input(TensorType(x.dtype, tuple(shape)))
    return g.constant(tuple(shape), x.dtype)


def _spec_type(g: NetworkBuilder, spec: Any, dtype: DType | None) -> tuple[TensorType, Any]:
    if isinstance(spec, TensorType):
        return spec, None
    if isinstance(spec, Bools):
        return TensorType(dtypes.bool_, spec.shape), spec
    if isinstance(spec, Ints):
        return TensorType(spec.dtype, spec.shape), spec
    if isinstance(spec, Floats):
        return TensorType(
            dtype if dtype and spec.dtype == dtypes.float32 else spec.dtype, spec.shape
        ), spec
    if isinstance(spec, tuple):
        return TensorType(dtype or g.dtype, spec), None
    array = np.asarray(spec)
    if dtype and array.dtype == np.float32:
        array = array.astype(dtype.numpy)
    actual = type_of(array)
    assert isinstance(actual, TensorType)
    return actual, array


def adapted(g: NetworkBuilder, type: TensorType, spec: Any = None) -> Value:
    """A value of this type made of another one, whatever its shape and its kind of numbers."""
    x = g.pick(lambda v: v.dtype.kind in "fiub" and v.dtype.bits >= 8)
    if type.dtype.bits < 8 or type.dtype.kind not in "fiub":
        raise Misfit("such elements are not made of others")
    if x.tensor.shape != type.shape:
        if not type.is_static:
            raise Misfit("symbolic sizes are not made of others")
        x = reshaped(g, x, numbers(type.shape))
    if isinstance(spec, Ints):
        x = x if x.dtype == dtypes.int64 else g.call("Cast", x, to=dtypes.int64)
        width, low = np.int64(max(spec.high - spec.low, 1)), np.int64(spec.low)
        x = g.call("Add", g.call("Mod", x, width), low)
    if isinstance(spec, Floats):
        x = x if x.dtype == dtypes.float32 else g.call("Cast", x, to=dtypes.float32)
        x = g.call("Clip", x, float(spec.low), float(spec.high))
    return x if x.dtype == type.dtype else g.call("Cast", x, to=type.dtype)


def reshaped(g: NetworkBuilder, x: Value, shape: tuple[int, ...]) -> Value:
    """The elements of x, repeated or cut off, in a shape."""
    count = int(np.prod(shape))
    if x.tensor.size == count:
        return g.call("Reshape", x, list(shape))
    if x.tensor.size == 1 and g.chance(0.5):
        return g.call("Expand", g.call("Reshape", x, [1] * len(shape)), list(shape))
    flat = g.call("Reshape", x, [-1])
    size = x.tensor.size
    if not isinstance(size, int) or size < count:
        zeros = constant(np.ones(count).astype(x.dtype.numpy), "", x.dtype)
        flat = g.call("Concat", flat, zeros, axis=0)
    return g.call("Reshape", g.call("Slice", flat, [0], [count], [0]), list(shape))


def numbers(shape: Shape | None) -> tuple[int, ...]:
    """The sizes of a shape; Misfit where some are symbols."""
    if shape is None or not all(isinstance(d, int) for d in shape):
        raise Misfit("the sizes are not known")
    return tuple(d for d in shape if isinstance(d, int))
