"""Features of tables (ai.onnx.ml): scaled, normalized, completed, put side by side and picked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import ShapeError, TypeMismatchError
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.relations import must_equal
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Rounding, Sample
from infuse.ops.core.elementwise import f32
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import agree, int64s, length
from infuse.ops.domains.ml import NUMBERS, MlOp, check_transform, require_number

ROUNDED = Rounding(ulp=8, why="a product or quotient of rounded sums")


def _per_column(op: str, x: Value, name: str, count: int) -> None:
    """ShapeError unless there is one number for all columns of `x` or one for each."""
    shape = x.tensor.shape
    if count < 1 or (
        count > 1 and shape is not None and not (shape and must_equal(shape[-1], count))
    ):
        raise ShapeError(
            f"{name} of {op} has {count} numbers, found {x.type}",
            hint="one, or one for each column",
        )


class Scaler(MlOp):
    """(x - offset) · scale, each a number or one per column."""

    offset: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    accuracy = ROUNDED
    samples = (
        cases(
            x=[(2, 3), Ints((4, 3)), (3,)],
            offset=[(0.5,), (0.5, -1.0, 2.0)],
            scale=[(2.0,), (0.1, 1.0, 3.0)],
        ),
        cases(
            x=[np.array([[1, 2, 3]], np.float64), np.array([[4, 5, 6]], np.int32)],
            offset=[(0.1, 0.2, 0.3)],
            scale=[(0.3, 0.2, 0.1)],
        ),
    )

    def infer(self, x: Value) -> Inferred:
        require_number(self.name, x)
        for name, numbers in (("offset", self.offset), ("scale", self.scale)):
            _per_column(self.name, x, name, len(numbers))
        return TensorType(dtypes.float32, x.tensor.shape)

    def eval(self, x: Array) -> Array:
        wide = x if x.dtype == np.float64 else x.astype(np.float32)
        offset, scale = (
            np.array(v, np.float32).astype(wide.dtype) for v in (self.offset, self.scale)
        )
        return ((wide - offset) * scale).astype(np.float32)


class Normalizer(MlOp):
    """Rows divided by their largest element, the sum of their magnitudes (L1) or their length (L2),
    where not zero.
    """

    norm: str = "MAX"
    accuracy = ROUNDED
    samples = (
        cases(x=[(2, 3), (4, 33), Ints((3, 5)), f32(1, 2, 0.5)], norm=["MAX", "L1", "L2"]),
        cases(x=[np.array([[1, 2, 3], [0.0, 0.0, 0.0]], np.float64)], norm=["MAX", "L1", "L2"]),
    )

    def infer(self, x: Value) -> Inferred:
        require_number(self.name, x)
        check_transform(self.name, self.norm, ("MAX", "L1", "L2"))
        if x.tensor.rank == 0:
            raise ShapeError(f"{self.name} takes rows, found {x.type}")
        return TensorType(dtypes.float32, x.tensor.shape)

    def eval(self, x: Array) -> Array:
        wide = x if x.dtype == np.float64 else x.astype(np.float32)
        if self.norm == "MAX":
            divisor = wide.max(axis=-1, keepdims=True, initial=-np.inf)
        elif self.norm == "L1":
            divisor = np.abs(wide).sum(axis=-1, keepdims=True)
        else:
            divisor = np.sqrt((wide * wide).sum(axis=-1, keepdims=True))
        result: Array = wide / np.where(divisor == 0, wide.dtype.type(1), divisor)
        return result.astype(np.float32)


class Imputer(MlOp):
    """Elements that equal one number (NaN included) replaced by another, the same or one for each
    column.
    """

    imputed_value_floats: tuple[float, ...] = ()
    imputed_value_int64s: tuple[int, ...] = ()
    replaced_value_float: float = 0.0
    replaced_value_int64: int = 0
    samples = (
        cases(
            x=[f32(1, 0, 2).reshape(1, 3), np.array([[0, 2, 0]], np.float64)],
            imputed_value_floats=[(7.5,), (1.0, 2.0, 3.0)],
        ),
        cases(
            x=[np.array([[1, np.nan], [np.nan, 4]], np.float32)],
            imputed_value_floats=[(5.0, 6.0)],
            replaced_value_float=[math.nan],
        ),
        cases(
            x=[Ints((4, 3), -2, 2)],
            imputed_value_int64s=[(9,), (7, 8, 9)],
            replaced_value_int64=[-1],
        ),
        cases(
            x=[Ints((4, 3), -2, 2, dtypes.int32)],
            imputed_value_int64s=[(7, 8, 9)],
            replaced_value_int64=[0],
        ),
    )

    def infer(self, x: Value) -> Inferred:
        dtype = require_number(self.name, x)
        replacement = self.imputed_value_floats if dtype.is_float else self.imputed_value_int64s
        if not replacement:
            raise TypeMismatchError(f"{self.name} has no replacement of type {dtype}")
        _per_column(self.name, x, "the replacement", len(replacement))
        return x.type

    def choice(self, dtype: np.dtype[Any]) -> tuple[Array, Array]:
        """What is replaced, and by what, as elements of a type."""
        floats = dtypes.by_numpy(dtype).is_float
        replaced = np.array(self.replaced_value_float if floats else self.replaced_value_int64)
        values = np.array(self.imputed_value_floats if floats else self.imputed_value_int64s)
        stored = np.float32 if floats else np.int64
        return replaced.astype(stored).astype(dtype), values.astype(stored).astype(dtype)

    def eval(self, x: Array) -> Array:
        replaced, values = self.choice(x.dtype)
        missing = np.isnan(x) if replaced != replaced else x == replaced
        return np.where(missing, values, x)


class Binarizer(MlOp):
    """One where an element is larger than the threshold, else zero."""

    threshold: float = 0.0
    samples = (
        cases(
            x=[(2, 3), Ints((4,)), Ints((3, 2), -2, 2, dtypes.int32), f32(math.nan, 1, -1)],
            threshold=[0.0, 0.5, -1.5],
        ),
        cases(x=[np.array([0.1, 0.3], np.float64)], threshold=[0.1]),
    )

    def infer(self, x: Value) -> Inferred:
        require_number(self.name, x)
        return x.type

    def eval(self, x: Array) -> Array:
        threshold = np.float32(self.threshold)
        larger: Array = np.asarray(
            x > (np.float64(threshold) if x.dtype.kind in "iu" else threshold)
        )
        return larger.astype(x.dtype)


class FeatureVectorizer(MlOp):
    """Matrices side by side as floats, each cut or filled with zeros to its number of columns; a
    vector is a row.
    """

    inputdimensions: tuple[int, ...] = ()
    samples = (
        cases(
            inputs=[[(2, 3), (2, 1)], [Ints((2, 3)), Ints((2, 1))]],
            inputdimensions=[(3, 1), (2, 4)],
        ),
        Sample({"inputs": [(3,), (2,)]}, {"inputdimensions": (3, 2)}),
    )

    def widths(self, inputs: tuple[Value, ...]) -> list[Dim]:
        """The number of columns that each input gives."""
        return [
            self.inputdimensions[i] if i < len(self.inputdimensions) else x.shape[-1]
            for i, x in enumerate(inputs)
        ]

    def infer(self, *inputs: Value) -> Inferred:
        rows: Dim = 1
        for x in inputs:
            require_number(self.name, x)
            if x.tensor.rank is None:
                return TensorType(dtypes.float32, None)
            if x.rank not in (1, 2):
                raise ShapeError(f"{self.name} takes matrices, found {x.type}")
        sizes = [1 if x.rank == 1 else x.shape[0] for x in inputs]
        rows = next((s for s in sizes if isinstance(s, int)), sizes[0])
        for size in sizes:
            agree(size, rows, f"the rows of the matrices of {self.name}")
        return TensorType(dtypes.float32, (rows, sum(self.widths(inputs))))

    def eval(self, *inputs: Array) -> Array:
        parts = []
        for i, x in enumerate(inputs):
            part = x.astype(np.float32).reshape(1 if x.ndim == 1 else len(x), x.shape[-1])
            width = self.inputdimensions[i] if i < len(self.inputdimensions) else part.shape[1]
            parts.append(np.pad(part[:, :width], ((0, 0), (0, max(0, width - part.shape[1])))))
        return np.concatenate(parts, axis=1)


class ArrayFeatureExtractor(MlOp):
    """The elements at some places of the last axis; a vector gives one row."""

    samples = (
        cases(
            x=[(2, 5), (5,), (2, 3, 5), Ints((3, 4))],
            y=[int64s(0, 3), int64s(4), np.array([[1, 2]]), int64s(3, 0, 3)],
        ),
    )

    def infer(self, x: Value, y: Value) -> Inferred:
        require_number(self.name, x, (*NUMBERS, dtypes.string))
        if y.dtype != dtypes.int64:
            raise TypeMismatchError(f"{self.name} takes places of type int64, found {y.dtype}")
        shape = x.tensor.shape
        if shape is None or y.tensor.size is None:
            return TensorType(x.dtype, None)
        if not shape:
            raise ShapeError(f"{self.name} takes at least a vector")
        count = y.tensor.size if length(y) is None else length(y)
        assert count is not None
        return TensorType(x.dtype, ((1,) if len(shape) == 1 else shape[:-1]) + (count,))

    def eval(self, x: Array, y: Array) -> Array:
        places = y.reshape(-1)
        if places.size and not (
            -x.shape[-1] <= int(places.min()) and int(places.max()) < x.shape[-1]
        ):
            raise ShapeError(f"{self.name} is asked for elements outside of {x.shape[-1]} columns")
        columns = x[..., places]
        return columns[None] if x.ndim == 1 else columns
