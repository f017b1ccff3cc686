"""Operators that make tensors: filled, counted, and random."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ShapeError
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op, same_dtype
from infuse.ops.core.samples import Floats, Ints, cases
from infuse.ops.core.sizes import (
    fresh_dim,
    fresh_shape,
    int64s,
    integers,
    known_one,
    length,
    scalar,
)
from infuse.ops.core.traits import Trait

_MOST = 2**62
"""Elements that no tensor has."""


class ConstantOfShape(Op):
    """A tensor of the listed shape, filled with one value of type `dtype`.

    ONNX gives the value as a tensor of one element; such an array is taken apart into `value` and
    `dtype`.
    """

    traits = Trait.ZERO_FLOPS

    value: Any = 0.0
    dtype: DType = dtypes.float32
    since = 9
    carries_dims = True
    samples = (
        cases(input=[int64s(2, 3), int64s(), int64s(0, 4)]),
        cases(
            input=[int64s(3)], value=[np.array([7]), np.array([True]), np.array([0.5], np.float16)]
        ),
    )

    def __post_init__(self) -> None:
        if isinstance(self.value, np.ndarray):
            object.__setattr__(self, "dtype", dtypes.by_numpy(self.value.dtype))
            object.__setattr__(self, "value", scalar(self.value))

    def infer(self, input: Value) -> Inferred:
        shape = known_ints(input)
        return TensorType(
            self.dtype, shape if shape is not None else fresh_shape(length(input), "filled")
        )

    def eval(self, input: Array) -> Array:
        return np.full(integers(input), self.value, dtype=self.dtype.numpy)


class Range(Op):
    """Numbers from `start` to before `limit` in steps of `delta`."""

    traits = Trait.FLOAT32 | Trait.ZERO_FLOPS
    since = 11
    carries_dims = True
    samples = cases(
        start=[
            np.array(1),
            np.array(5),
            np.array(0.5, np.float32),
            np.array(3),
            np.array(0, np.int32),
        ],
        limit=[
            np.array(9),
            np.array(-2),
            np.array(3.0, np.float32),
            np.array(3),
            np.array(-1, np.int32),
        ],
        delta=[
            np.array(3),
            np.array(-2),
            np.array(0.75, np.float32),
            np.array(1),
            np.array(2, np.int32),
        ],
    )

    def infer(self, start: Value, limit: Value, delta: Value) -> Inferred:
        dtype = same_dtype(self.name, start, limit, delta)
        first, last, step = (known_one(v, self.name) for v in (start, limit, delta))
        if all(v.const is not None for v in (start, limit, delta)):
            return TensorType(
                dtype, (self._count(*(scalar(v.const) for v in (start, limit, delta))),)
            )
        if first is None or last is None or step is None or not dtype.is_integer:
            return TensorType(dtype, (fresh_dim("range"),))
        return TensorType(dtype, (self._symbolic_count(first, last, step),))

    def _count(self, start: Any, limit: Any, delta: Any) -> int:
        if delta == 0:
            raise ShapeError("the step of Range is zero")
        with np.errstate(all="ignore"):
            exact = all(isinstance(n, int) for n in (start, limit, delta))
            count = -((start - limit) // delta) if exact else np.ceil((limit - start) / delta)
        if not count < _MOST:
            raise ShapeError(
                f"Range from {start} to {limit} by {delta} has more elements than a tensor can have"
            )
        return int(count) if count > 0 else 0

    def _symbolic_count(self, start: Dim, limit: Dim, delta: Dim) -> Dim:
        if not isinstance(delta, int):
            return fresh_dim("range")
        if delta == 0:
            raise ShapeError("the step of Range is zero")
        count = (
            dims.ceildiv(limit - start, delta) if delta > 0 else dims.ceildiv(start - limit, -delta)
        )
        return dims.maximum(count, 0)

    def eval(self, start: Array, limit: Array, delta: Array) -> Array:
        first, last, step = scalar(start), scalar(limit), scalar(delta)
        if start.dtype == object:
            return np.array(
                [first + i * step for i in range(int(self._symbolic_count(first, last, step)))],
                object,
            )
        count = self._count(first, last, step)
        return np.asarray(
            np.arange(count).astype(start.dtype) * delta.reshape(()) + start.reshape(())
        )


class EyeLike(Op):
    """A matrix of the input's shape with ones on diagonal `k`, zeros elsewhere."""

    traits = Trait.ZERO_FLOPS | Trait.ZERO_GRADIENT

    dtype: DType | None = None
    k: int = 0
    since = 9
    samples = cases(input=[(3, 4), Ints((4, 2))], dtype=[None, dtypes.float64], k=[0, 1, -2])

    def infer(self, input: Value) -> Inferred:
        if input.tensor.rank not in (None, 2):
            raise ShapeError(f"EyeLike needs a matrix, found {input.type}")
        return TensorType(self.dtype or input.dtype, input.tensor.shape or fresh_shape(2, "eye"))

    def eval(self, input: Array) -> Array:
        rows, columns = input.shape
        diagonal = min(max(self.k, -rows), columns)
        return np.eye(
            rows, columns, diagonal, dtype=self.dtype.numpy if self.dtype else input.dtype
        )


class Random(Op, abstract=True):
    """Draws random numbers; the same ones every time where a seed is given: those of ONNX's own
    evaluator.
    """

    traits = Trait.ZERO_FLOPS | Trait.ZERO_GRADIENT

    seed: float | None = None
    deterministic = False

    def _generator(self) -> np.random.RandomState:
        seed = self.seed
        if seed is None or (seed >= 0 and seed == int(seed)):
            return np.random.RandomState(None if seed is None else int(seed) % 2**32)
        return np.random.RandomState(int(np.float32(seed).view(np.uint32)))


class Normal(Random, abstract=True):
    """Draws from the normal distribution."""

    mean: float = 0.0
    scale: float = 1.0

    def _draw(self, shape: tuple[int, ...], dtype: DType) -> Array:
        return self._generator().normal(self.mean, self.scale, shape).astype(dtype.numpy)


class Uniform(Random, abstract=True):
    """Draws evenly from `low` to before `high`."""

    low: float = 0.0
    high: float = 1.0

    def _draw(self, shape: tuple[int, ...], dtype: DType) -> Array:
        return self._generator().uniform(self.low, self.high, shape).astype(dtype.numpy)


class RandomNormal(Normal):
    """Normally distributed numbers in a given shape."""

    shape: tuple[int, ...] = ()
    dtype: DType = dtypes.float32
    samples = cases(
        shape=[(2, 3), ()], seed=[1.0, None], mean=[2.0], dtype=[dtypes.float32, dtypes.float16]
    )

    def infer(self) -> Inferred:
        return TensorType(self.dtype, self.shape)

    def eval(self) -> Array:
        return self._draw(self.shape, self.dtype)


class RandomUniform(Uniform):
    """Evenly distributed numbers in a given shape."""

    shape: tuple[int, ...] = ()
    dtype: DType = dtypes.float32
    samples = cases(
        shape=[(2, 3), ()], seed=[1.0, None], high=[2.0], dtype=[dtypes.float32, dtypes.float16]
    )

    def infer(self) -> Inferred:
        return TensorType(self.dtype, self.shape)

    def eval(self) -> Array:
        return self._draw(self.shape, self.dtype)


class RandomNormalLike(Normal):
    """Normally distributed numbers in the shape of the input."""

    dtype: DType | None = None
    samples = cases(
        input=[(2, 3), Floats((4,), dtype=dtypes.float64)], dtype=[None, dtypes.float16], seed=[3.0]
    )

    def infer(self, input: Value) -> Inferred:
        return TensorType(self.dtype or input.dtype, input.tensor.shape)

    def eval(self, input: Array) -> Array:
        return self._draw(input.shape, self.dtype or dtypes.by_numpy(input.dtype))


class RandomUniformLike(Uniform):
    """Evenly distributed numbers in the shape of the input."""

    dtype: DType | None = None
    samples = cases(
        input=[(2, 3), Floats((4,), dtype=dtypes.float64)], dtype=[None, dtypes.float16], seed=[3.0]
    )

    def infer(self, input: Value) -> Inferred:
        return TensorType(self.dtype or input.dtype, input.tensor.shape)

    def eval(self, input: Array) -> Array:
        return self._draw(input.shape, self.dtype or dtypes.by_numpy(input.dtype))


class Bernoulli(Random):
    """Ones with the probability that each element of the input gives, zeros otherwise."""

    dtype: DType | None = None
    since = 15
    samples = cases(
        input=[Floats((3, 4), 0, 1)], dtype=[None, dtypes.bool_, dtypes.int32], seed=[None, 2.0]
    )

    def infer(self, input: Value) -> Inferred:
        return TensorType(self.dtype or input.dtype, input.tensor.shape)

    def eval(self, input: Array) -> Array:
        drawn = self._generator().random_sample(input.shape) < input.astype(np.float64)
        return drawn.astype(self.dtype.numpy if self.dtype else input.dtype)


class Multinomial(Random):
    """Class numbers drawn `sample_size` times per row of unnormalized logarithms of
    probabilities.
    """

    sample_size: int = 1
    dtype: DType = dtypes.int32
    since = 7
    samples = cases(
        input=[(2, 5), (1, 3)],
        sample_size=[1, 4],
        dtype=[dtypes.int32, dtypes.int64],
        seed=[None, 2.0],
    )

    def infer(self, input: Value) -> Inferred:
        if input.tensor.rank not in (None, 2):
            raise ShapeError(f"Multinomial needs a matrix, found {input.type}")
        rows = fresh_dim("rows") if input.tensor.shape is None else input.shape[0]
        return TensorType(self.dtype, (rows, self.sample_size))

    def eval(self, input: Array) -> Array:
        weights = np.exp(input.astype(np.float64) - input.max(axis=1, keepdims=True))
        limits = np.cumsum(weights, axis=1) / weights.sum(axis=1, keepdims=True)
        drawn = self._generator().random_sample((len(input), self.sample_size, 1))
        chosen: Array = np.minimum((drawn >= limits[:, None, :]).sum(axis=2), input.shape[1] - 1)
        return chosen.astype(self.dtype.numpy)
