"""The transposed convolution of 8-bit integers, which only stands between ConvTranspose and
kernels; no graph of a user has it.
"""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.codegen.expand.ml_kernels import KERNELS
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.convolution import ConvTranspose
from infuse.ops.core.base import Array, Inferred
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.integers import sum_in_32_bits


class ConvTransposeInteger(ConvTranspose, abstract=True):
    """The transposed convolution of x − its zero point with filters of 8 bits, in int32."""

    domain = KERNELS
    name = "ConvTransposeInteger"

    def infer(self, x: Value, w: Value, zero: Value | None = None) -> Inferred:
        wide = (Value(TensorType(dtypes.float32, v.tensor.shape)) for v in (x, w))
        result = super().infer(*wide)
        assert isinstance(result, TensorType)
        return TensorType(dtypes.int32, result.shape)

    def eval(self, x: Array, w: Array, zero: Array | None = None) -> Array:
        shift = 0.0 if zero is None else float(zero.reshape(()))
        return sum_in_32_bits(super().eval(x - np.float64(shift), w.astype(np.float64)))

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(super().flops(shapes).macs)
