"""Functions that write operators into expressions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from infuse.ir.expression import Call


def snake_case(name: str) -> str:
    """`LayerNormalization` → `layer_normalization`, `MatMul` → `matmul`."""
    words = {"MatMul": "matmul", "CumSum": "cumsum", "CumProd": "cumprod", "IsNaN": "is_nan"}
    if name in words:
        return words[name]
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def call(kind: str, domain: str = "") -> Callable[..., Call]:
    """The function that writes an operator into an expression: `call("Erf")(x)`.

    Keyword arguments are attributes; `name=` labels the node for a rule's `when` and `build`.
    """

    def function(*args: Any, name: str = "", **attributes: Any) -> Call:
        return Call(kind, args, attributes, domain=domain, label=name)

    function.__name__ = snake_case(kind)
    return function
