"""The inputs that an operator takes, read from the parameters of its methods."""

from __future__ import annotations

import inspect
from typing import Any

from infuse.errors import TypeMismatchError
from infuse.immutable import Immutable
from infuse.ir.graph import Node


class Signature(Immutable):
    """Parameters of an operator: names, how many are required, whether the last takes any number,
    and which of the required ones may be absent all the same (annotated with None) since others
    follow.
    """

    names: tuple[str, ...]
    required: int
    variadic: bool
    absent: frozenset[str] = frozenset()


SETTINGS = ("depth", "roi", "scales")
"""Inputs of floats that say sizes and places, and are nothing that is computed with."""
_NO_INPUTS = ("self", "make")
"""Parameters of an operator's methods that are no inputs: itself, and what builds its body."""
_SIGNATURES: dict[type, Signature] = {}


def signature(op: type[Any]) -> Signature:
    """The inputs of an operator, read from the parameters of its method `inputs_of`."""
    entry = _SIGNATURES.get(op)
    if entry is None:
        reader = getattr(op, op.inputs_of)
        parameters = [
            p for p in inspect.signature(reader).parameters.values() if p.name not in _NO_INPUTS
        ]
        fixed = [p for p in parameters if p.kind is not p.VAR_POSITIONAL]
        entry = Signature(
            tuple(p.name for p in parameters),
            sum(p.default is p.empty for p in fixed),
            len(fixed) < len(parameters),
            frozenset(p.name for p in fixed if "None" in str(p.annotation)),
        )
        _SIGNATURES[op] = entry
    return entry


def check_arity(op: Any, node: Node) -> None:
    """ShapeError-like complaint when inputs are missing or too many."""
    expected = signature(type(op))
    count = len(node.inputs)
    if count < expected.required or (count > len(expected.names) and not expected.variadic):
        raise TypeMismatchError(
            f"{op.name} takes {', '.join(expected.names)}; {count} inputs are given",
            where=f"node {node.name!r}",
        )
    for name, value in zip(expected.names[: expected.required], node.inputs):
        if value is None and name not in expected.absent:
            raise TypeMismatchError(
                f"{op.name} needs its input {name!r}", where=f"node {node.name!r}"
            )
    if expected.variadic and len(expected.names) == 1 and (not node.inputs or None in node.inputs):
        raise TypeMismatchError(
            f"{op.name} takes one or more inputs, none of them absent", where=f"node {node.name!r}"
        )
