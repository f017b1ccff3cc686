"""How operators of TensorFlow Lite become nodes: the table, and what its entries build with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.tflite.model import LiteOperator, LiteTensor, Quantization
from infuse.frontends.tflite.resources import Resources
from infuse.frontends.tflite.schema import DTYPES
from infuse.ir.graph import Array, Value
from infuse.ops.quantization import limits
from infuse.tracing.importer import Importer, registered
from infuse.tracing.tensorflow.calls import OperandCall

Handler = Callable[["LiteCall"], Any]
Registered = TypeVar("Registered", bound=Handler)
TABLE: Final[dict[str, Handler]] = {}
"""By name of the operator."""
BYTES: Final = (dtypes.int8, dtypes.uint8)


def builtin(*names: str) -> Callable[[Registered], Registered]:
    """Register what builds these operators: a function of the call.

    It returns the value of the result, or a list of them. What is float for a result that the file
    has as scaled integers is quantized then.
    """
    return registered(TABLE, names)


class LiteScope(Protocol):
    """The values of the tensors of a subgraph (the reader's)."""

    g: Importer
    depth: int
    resources: Resources
    handles: dict[int, str]

    def tensor(self, index: int) -> LiteTensor:
        """What the file says of a tensor."""

    def value(self, index: int) -> Value:
        """The value of a tensor, made before or constant."""

    def set(self, index: int, value: Value) -> None:
        """Let a tensor have another value from here on."""

    def inner(self, g: Importer, subgraph: int, operands: Sequence[Value]) -> list[Value]:
        """The results of a subgraph, built by this importer with these operands."""

    def signature(self, subgraph: int) -> tuple[list[LiteTensor], list[LiteTensor]]:
        """The inputs and the outputs of a subgraph."""

    def variable(self, name: str, tensor: LiteTensor) -> Value:
        """A resource variable as it is before the run; `tensor` is what reads it."""


class LiteCall(OperandCall):
    """A call of an operator: its options, operands and results."""

    def __init__(self, scope: LiteScope, operator: LiteOperator) -> None:
        self.scope, self.operator = scope, operator
        self.g = scope.g

    # -- options -----------------------------------------------------------------------------------

    def option(self, name: str, default: Any = 0) -> Any:
        """An option by name; `default` where the operator has no options at all."""
        options = self.operator.options
        if options is None:
            return default
        if name not in options:
            raise ModelFileError(f"its options are those of another operator: it has no {name}")
        return options[name]

    def activated(self, value: Value) -> Value:
        """`value` after the activation that is fused into the operator."""
        return activation(self.g, self.option("activation"), value)

    # -- operands ----------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """How many operands there are, left out ones included."""
        return len(self.operator.inputs)

    def has(self, index: int) -> bool:
        """Whether an operand is there."""
        return index < self.count and self.operator.inputs[index] >= 0

    def number(self, index: int) -> int:
        """The number of the tensor that is an operand; ModelFileError where it is left out."""
        if not self.has(index):
            raise ModelFileError(f"it has no operand {index}")
        return self.operator.inputs[index]

    def tensor(self, index: int) -> LiteTensor:
        """What the file says of an operand."""
        return self.scope.tensor(self.number(index))

    def label(self, index: int) -> str:
        """What an operand is called in errors."""
        return self.tensor(index).name

    def raw(self, index: int) -> Value:
        """An operand with the elements that the file says, also where they are scaled integers."""
        if self.is_complex(index):
            raise self.unsupported("a complex operand")
        return self.scope.value(self.number(index))

    def is_complex(self, index: int) -> bool:
        """Whether an operand has complex numbers, which `parts` and `placed` take."""
        return self.tensor(index).type == _COMPLEX

    def parts(self, index: int) -> Value:
        """A complex operand: its real and imaginary parts along one more axis."""
        if not self.is_complex(index):
            raise ModelFileError(f"operand {index} is not complex")
        return self.scope.value(self.number(index))

    def real(self, index: int, *perm: int) -> Value:
        """An operand as real numbers, its axes in this order."""
        tensor, value = self.tensor(index), self.raw(index)
        if perm:
            if value.rank != len(perm):
                raise ModelFileError(f"operand {index} has {value.rank} axes, not {len(perm)}")
            value = self.g.permute(value, *perm)
        if not tensor.quantized or tensor.quantization is None:
            return value
        axis = tensor.quantization.axis
        return dequantized(self.g, value, tensor.quantization, perm.index(axis) if perm else axis)

    def bias(self, index: int) -> Value | None:
        """An operand that is added to a product of operands 0 and 1 (or 2 and 1): wide integers are
        in steps of their scales, or of the product of those of what is multiplied.
        """
        if not self.has(index):
            return None
        tensor, value = self.tensor(index), self.raw(index)
        if value.dtype not in (dtypes.int32, dtypes.int64):
            return self.real(index)
        quantization = tensor.quantization
        if quantization is None:
            x, w = (self.tensor(i).quantization for i in (0, 1))
            if x is None or w is None:
                raise ModelFileError(f"the integers of its bias {tensor.name!r} have no scale")
            scale = x.scale * w.scale
            quantization = Quantization(scale, np.zeros(scale.size, np.int64), 0)
        return dequantized(self.g, value, quantization, 0)

    def steps(self, index: int, types: Sequence[DType] = BYTES) -> Quantization | None:
        """The one scale of an operand of these types; None where it has none, or several."""
        tensor = self.tensor(index)
        scales = tensor.quantization if tensor.quantized and tensor.dtype in types else None
        return scales if scales is not None and scales.single else None

    def zero_of(self, index: int) -> Value | None:
        """The element that stands for zero in an operand, where that is not zero itself."""
        quantization = self.tensor(index).quantization
        if not self.tensor(index).quantized or quantization is None:
            return None
        dtype = self.raw(index).dtype
        return self.g.constant(quantization.zero.astype(dtype.numpy).reshape(()))

    # -- results -----------------------------------------------------------------------------------

    def result(self, index: int = 0) -> LiteTensor:
        """What the file says of a result."""
        if index >= len(self.operator.outputs):
            raise ModelFileError(f"it has no result {index}")
        return self.scope.tensor(self.operator.outputs[index])

    @property
    def results(self) -> int:
        """How many results the operator has."""
        return len(self.operator.outputs)

    @property
    def dtype(self) -> DType:
        """The element type of the first result in the file."""
        return self.result().dtype

    def quantized(self, value: Value, index: int = 0) -> Value:
        """Real numbers as the elements that the file says of a result."""
        tensor = self.result(index)
        if not tensor.quantized or tensor.quantization is None or not value.dtype.is_float:
            return value
        return quantized(self.g, value, tensor.quantization, tensor.dtype)

    def as_result(self, value: Value, index: int = 0) -> Value:
        """Integers in the type that the file says of a result."""
        return self.g.cast(value, self.result(index).dtype)

    def keeps(self, *operands: int, results: int = 1) -> bool:
        """Whether these operands and the first results mean the same by the same elements, so that
        moving them needs no real numbers.
        """
        return all(
            alike(self.tensor(index), self.result(number))
            for index in operands
            for number in range(results)
        )


_COMPLEX: Final = next(number for number, dtype in DTYPES.items() if dtype == dtypes.complex64)
_ACTIVATIONS: Final = 5


def alike(a: LiteTensor, b: LiteTensor) -> bool:
    """Whether elements of one tensor mean the same in another, wherever they are in it."""
    if not a.quantized or a.quantization is None:
        return not b.quantized
    return b.quantized and a.quantization.single and a.quantization.same(b.quantization)


def activation(g: Importer, kind: int, value: Value) -> Value:
    """`value` after the activation of this number."""
    if kind == 0:
        return value
    if kind == 1:
        return g("Relu", value)
    if kind in (2, 3):
        low, high = (-1, 1) if kind == 2 else (0, 6)
        return g("Clip", value, g.number(low, value.dtype), g.number(high, value.dtype))
    if kind == 4:
        return g("Tanh", value)
    if kind == _ACTIVATIONS:
        raise UnsupportedOperatorError("the fused activation SIGN_BIT is not supported")
    raise ModelFileError(f"there is no fused activation {kind}")


def parameters(quantization: Quantization, dtype: DType) -> tuple[Array, Array]:
    """Scale and zero point as operands; ModelFileError where they cannot be."""
    scale, zero = quantization.scale, quantization.zero
    low, high = limits(dtype)
    if not np.all(np.isfinite(scale) & (scale > 0)):
        raise ModelFileError(f"a scale is {scale[~(scale > 0)][:1]}, and scales are positive")
    if np.any((zero < low) | (zero > high)):
        raise ModelFileError(f"a zero point is not within those of {dtype}")
    shape = () if quantization.single else scale.shape
    return scale.reshape(shape), zero.astype(dtype.numpy).reshape(shape)


def dequantized(g: Importer, value: Value, quantization: Quantization, axis: int) -> Value:
    """Scaled integers as float32."""
    scale, zero = parameters(quantization, value.dtype)
    if value.dtype == dtypes.int64:
        shape = [-1 if i == axis else 1 for i in range(value.rank)] if scale.size > 1 else []
        scale = scale.reshape(shape)
        if value.const is not None:
            return g.constant((value.const * scale.astype(np.float64)).astype(np.float32))
        return g("Mul", g.cast(value, dtypes.float32), g.constant(scale))
    operands = (value, g.constant(scale), g.constant(zero) if zero.any() else None)
    return g("DequantizeLinear", *operands, axis=axis if scale.size > 1 else 1)


def quantized(g: Importer, value: Value, quantization: Quantization, dtype: DType) -> Value:
    """Real numbers as scaled integers of this type."""
    scale, zero = parameters(quantization, dtype)
    axis = quantization.axis if scale.size > 1 else 1
    single = g.cast(value, dtypes.float32)
    return g("QuantizeLinear", single, g.constant(scale), g.constant(zero), axis=axis)
