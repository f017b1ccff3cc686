"""Operands and graphs on which several rules are refused."""

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Variable

X, M, V, P = Variable("X"), Variable("M"), Variable("V"), Variable("P")
OPERANDS = {"X": (2, 3, 4), "M": (3, 4), "V": (4,), "P": (1, 4, 5, 5)}
"""The shapes of the variables."""
HALVES = ops.split(M, num_outputs=2, axis=1)
IMAGE = (1, 4, 5, 5)
FILTERS = {"w": (4, 4, 3, 3), "b": (4,)}
STATISTICS = {"scale": (4,), "shift": (4,), "mean": (4,), "var": (4,)}


def f32(*values: float) -> Any:
    return np.array(values, dtype=np.float32)
