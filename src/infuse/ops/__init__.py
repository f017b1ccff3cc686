"""Operators, each defined once, and the functions that write them into expressions
(`ops.gelu(x)`). The file of a family is imported when one of its operators is looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from infuse.ir.expression import Call, const, maybe, one_of, rest
from infuse.ops.core import opaque  # noqa: F401  (registers what unknown operators become)
from infuse.ops.core.base import REGISTRY, Op, infer_node
from infuse.ops.core.expressions import call, snake_case

_FUNCTIONS: dict[str, Callable[..., Call]] = {}


def __getattr__(name: str) -> Any:
    if name not in _FUNCTIONS:
        # Operators of users may have been registered since the last look; ONNX's own come last and
        # have the name.
        _FUNCTIONS.update(
            (snake_case(op), call(op, domain)) for domain, op in sorted(REGISTRY, reverse=True)
        )
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    raise AttributeError(f"there is no operator function {name!r}")


if TYPE_CHECKING:

    def __dir__() -> list[str]: ...


__all__ = ["REGISTRY", "Call", "Op", "const", "infer_node", "maybe", "one_of", "rest"]
