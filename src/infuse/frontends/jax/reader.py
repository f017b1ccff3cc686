"""From a jaxpr to nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import infuse.frontends.jax.primitives  # noqa: F401  fills the table
from infuse.errors import GraphError
from infuse.frontends.jax.calls import RANDOM_HINT, TABLE, JaxCall, JaxImporter
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.tracing.importer import require_all

_RANDOM = ("random_", "rng_", "threefry")


def check(jaxpr: Any, what: str) -> None:
    """UnsupportedOperatorError that names all primitives, also those of inner jaxprs, that have no
    translation.
    """
    calls = [(equation.primitive.name, _line(equation)) for equation in _equations(jaxpr)]
    missing = {name for name, _ in calls if name not in TABLE}
    is_random = any(name.startswith(_RANDOM) for name in missing)
    hint = RANDOM_HINT if is_random else "write it with other functions of jax.numpy"
    require_all(calls, TABLE, what, hint)


def _equations(jaxpr: Any) -> Iterator[Any]:
    pending = [jaxpr]
    while pending:
        current = pending.pop()
        for equation in getattr(current, "jaxpr", current).eqns:
            yield equation
            for parameter in equation.params.values():
                parts = parameter if isinstance(parameter, (tuple, list)) else (parameter,)
                pending.extend(p for p in parts if hasattr(getattr(p, "jaxpr", p), "eqns"))


def run(g: JaxImporter, jaxpr: Any, operands: Sequence[Value]) -> list[Value]:
    """The results of a jaxpr, closed or without constants, for these operands."""
    opened = getattr(jaxpr, "jaxpr", jaxpr)
    values: dict[Any, Value] = dict(zip(opened.invars, operands, strict=True))
    for variable, elements in zip(opened.constvars, getattr(jaxpr, "consts", ())):
        values[variable] = constant(g, elements, variable.aval)

    def read(atom: Any) -> Value:
        return constant(g, atom.val, atom.aval) if hasattr(atom, "val") else values[atom]

    for equation in opened.eqns:
        scopes = (*str(equation.source_info.name_stack).split("/"), _label(equation))
        with g.scope(*scopes, source=_line(equation)):
            types = [g.type_of(variable.aval) for variable in equation.outvars]
            name = equation.primitive.name
            atoms = [read(atom) for atom in equation.invars]
            made = TABLE[name](JaxCall(g, name, equation.params, atoms, types, run))
            results = made if isinstance(made, list) else [made]
            for variable, value, type in zip(equation.outvars, results, types, strict=True):
                values[variable] = _checked(name, value, type)
    return [read(atom) for atom in opened.outvars]


def constant(g: JaxImporter, elements: Any, aval: Any) -> Value:
    """A constant of the type that JAX says."""
    type = g.type_of(aval)
    return g.constant(np.asarray(elements, type.dtype.numpy))


def _label(equation: Any) -> str:
    """The name of a function that the equation calls."""
    name = equation.params.get("name", "")
    return name if isinstance(name, str) else ""


def _checked(name: str, value: Value, type: TensorType) -> Value:
    """A result, with the sizes that JAX says of it."""
    shape, sizes = value.tensor.shape, type.shape
    same = value.dtype == type.dtype and sizes is not None
    if same and shape is not None and sizes is not None:
        pairs = list(zip(shape, sizes))
        numbers = (a == b for a, b in pairs if isinstance(a, int) and isinstance(b, int))
        same = len(shape) == len(sizes) and all(numbers)
    if not same:
        raise GraphError(f"{name} makes {value.type} where JAX has {type}")
    if shape != sizes and value.producer is not None:
        value.type = type
    return value


def _line(equation: Any) -> str:
    """The line of the user's program that an equation is from; nothing where JAX has none."""
    import jax

    library = str(Path(jax.__file__).parent)
    traceback = equation.source_info.traceback
    for frame in traceback.frames if traceback is not None else ():
        if not frame.file_name.startswith(library):
            return f"{frame.file_name}:{frame.line_num}"
    return ""
