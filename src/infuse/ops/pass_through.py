"""Operators that pass their input on."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import DataError, TypeMismatchError, UnsupportedOperatorError
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.traits import Trait


class Identity(Op):
    """The input itself."""

    traits = Trait.MOVEMENT | Trait.TOTAL | Trait.VIEW
    carries_dims = True
    samples = cases(input=[(2, 3), (), Ints((2,))])

    def infer(self, input: Value) -> Inferred:
        return input.type

    def eval(self, input: Any) -> Any:
        return input


class Assert(Op):
    """The input itself where the condition holds; else the run fails, with `message`."""

    traits = Trait.VIEW

    message: str = ""

    domain = "infuse"
    samples = cases(input=[(2, 3), (), Ints((2,))], condition=[np.array(True)] * 3)

    def infer(self, input: Value, condition: Value) -> Inferred:
        if not condition.dtype.is_bool or condition.tensor.size not in (None, 1):
            raise TypeMismatchError(f"{self.name} needs one bool, found {condition.type}")
        return input.type

    def eval(self, input: Any, condition: Array) -> Any:
        if not condition.all():
            raise DataError(self.message or "an asserted condition does not hold")
        return input


class Dropout(Op):
    """The input itself, as inference has it, and a mask that keeps all; training mode is
    refused.
    """

    traits = Trait.VIEW

    seed: int | None = None

    since = 12
    samples = cases(data=[(2, 3), (4,)], ratio=[None, np.array(0.3, np.float32)])

    def infer(
        self, data: Value, ratio: Value | None = None, training_mode: Value | None = None
    ) -> Inferred:
        if (
            training_mode is not None
            and training_mode.const is not None
            and training_mode.const.any()
        ):
            raise UnsupportedOperatorError(
                "Dropout in training mode", hint="export the model for inference"
            )
        return data.type, TensorType(dtypes.bool_, data.tensor.shape)

    def eval(
        self, data: Array, ratio: Array | None = None, training_mode: Array | None = None
    ) -> tuple[Array, Array]:
        if training_mode is not None and training_mode.any():
            raise UnsupportedOperatorError(
                "Dropout in training mode", hint="export the model for inference"
            )
        return data, np.ones(data.shape, dtype=np.bool_)
