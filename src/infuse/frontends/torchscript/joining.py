"""What branches and loops share."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import UnsupportedOperatorError
from infuse.frontends.torchscript.interpreter import Frame, Interpreter
from infuse.ir.graph import Value


def follow(interpreter: Interpreter, body: Sequence[ast.stmt], frame: Frame) -> None:
    """Carry out statements, which must not return."""
    done, _ = interpreter.run(body, frame)
    if done:
        raise UnsupportedOperatorError("a function returns inside of a branch that nodes decide")


def computed_type(a: Any, b: Any) -> DType:
    """The type of two numbers, which is one."""
    kinds = []
    for x in (a, b):
        if isinstance(x, Value):
            kinds.append(x.dtype)
        else:
            kind = dtypes.int64 if isinstance(x, int) else dtypes.float64
            kinds.append(dtypes.bool_ if isinstance(x, bool) else kind)
    if kinds[0] != kinds[1]:
        raise UnsupportedOperatorError("two branches give numbers of different types")
    return kinds[0]
