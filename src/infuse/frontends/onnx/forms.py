"""An operator call on its way from an old form to the newest one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from infuse.dtypes import DType
from infuse.errors import UnsupportedOperatorError
from infuse.ir.dims import Dim
from infuse.ir.graph import Value, constant
from infuse.ir.types import UNKNOWN, Shape, TensorType

Array = npt.NDArray[Any]
Lift = Callable[["Form"], None]
LIFTS: Final[dict[str, list[tuple[int, Lift]]]] = {}
"""For each operator, the lifts and the opsets whose forms they make, oldest first."""


@dataclass
class Form:
    """A call as it stands: operator, inputs, attributes, and which of its outputs anyone reads.

    A lift changes it in place; nodes that must run before it are added with `emit`.
    """

    kind: str
    inputs: list[Value | None]
    attributes: dict[str, Any]
    used: list[bool]
    name: str
    emitter: Callable[[str, Sequence[Value | None], dict[str, Any]], Value]

    def emit(self, kind: str, *inputs: Value | None, **attributes: Any) -> Value:
        """The result of another operator (in its newest form) that runs before this one."""
        return self.emitter(kind, inputs, attributes)

    def become(self, kind: str, *inputs: Value | None, **attributes: Any) -> None:
        """Turn into another operator with the same outputs."""
        self.kind, self.inputs, self.attributes = kind, list(inputs), attributes

    def constant(self, elements: Array | int | Sequence[int], name: str) -> Value:
        """A constant; integers become int64."""
        data = elements if isinstance(elements, np.ndarray) else np.array(elements, dtype=np.int64)
        return constant(data, f"{self.name}/{name}")

    def number_like(self, value: float, index: int, name: str) -> Value:
        """The number as a scalar of the element type of input `index`."""
        dtype = self.dtype(index)
        if dtype is not None:
            return constant(np.array(value).astype(dtype.numpy), f"{self.name}/{name}", dtype)
        return self.emit(
            "CastLike", self.constant(np.array(value, np.float32), name), self.inputs[index]
        )

    def input(self, index: int) -> Value | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def set_input(self, index: int, value: Value | None) -> None:
        self.inputs += [None] * (index + 1 - len(self.inputs))
        self.inputs[index] = value

    def attribute_to_input(self, attribute: str, index: int) -> None:
        """Move a list of integers from an attribute to an input, where it is given."""
        elements = self.attributes.pop(attribute, None)
        if elements is not None:
            self.set_input(index, self.constant(elements, attribute))

    def shape(self, index: int) -> Shape | None:
        """The shape of an input, None when not even its rank is known."""
        value = self.input(index)
        return (
            value.type.shape if value is not None and isinstance(value.type, TensorType) else None
        )

    def rank(self, index: int) -> int | None:
        shape = self.shape(index)
        return None if shape is None else len(shape)

    def dim(self, index: int, axis: int) -> Dim | None:
        shape = self.shape(index)
        return None if shape is None or len(shape) <= axis else shape[axis]

    def dtype(self, index: int) -> DType | None:
        value = self.input(index)
        typed = (
            value is not None and value.type is not UNKNOWN and isinstance(value.type, TensorType)
        )
        return value.dtype if value is not None and typed else None

    def refuse(self, reason: str) -> UnsupportedOperatorError:
        """The error for an old form that has no newer one."""
        return UnsupportedOperatorError(
            f"this form of {self.kind} cannot be brought to its newest form: {reason}",
            hint="export the model with a newer opset",
        )


def lift(opset: int, *kinds: str) -> Callable[[Lift], Lift]:
    """Mark a function that brings calls of these operators, made before `opset`, to their form of
    `opset`.
    """

    def register(function: Lift) -> Lift:
        for kind in kinds:
            lifts = LIFTS.setdefault(kind, [])
            lifts.append((opset, function))
            lifts.sort(key=lambda entry: entry[0])
        return function

    return register


def adapt(form: Form, opset: int) -> None:
    """Bring a call of `opset` to the newest form."""
    pending = [entry for entry in LIFTS.get(form.kind, ()) if entry[0] > opset]
    while pending:
        (opset, function), kind = pending.pop(0), form.kind
        function(form)
        if form.kind != kind:
            pending = [entry for entry in LIFTS.get(form.kind, ()) if entry[0] > opset]
