"""Symbolic sizes and inputs with defaults fixed on request: the same graph for one batch size, one
image size …
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from infuse.errors import InfuseError, OptionError, ShapeError
from infuse.ir import dims
from infuse.ir.graph import Array, Graph, Value, constant
from infuse.ir.types import HOLDERS, StateType, TensorType, Type
from infuse.ops.core.feeds import input_symbols
from infuse.ops.core.inference import symbols_of
from infuse.options.data import require_symbols
from infuse.rewrite.refine import Change, compare_types

_PASTS: Final = (
    ("past_key_values", "present"),
    ("past_key_values", "present_key_values"),
    ("past", "present"),
    ("cache", "new_cache"),
    ("cache_in", "cache_out"),
    ("state_in", "state_out"),
    ("state", "new_state"),
    ("state", "stateN"),
)
"""How exporters name what goes in and what comes out for the next run."""


def set_dims(graph: Graph, sizes: Mapping[str, int]) -> None:
    """Give symbols of `graph` these sizes, in place; what follows from them is known as well
    afterwards.

    OptionError for a symbol that no input has and for sizes below zero, ShapeError (with the node)
    where the model does not allow the size.
    """
    require_symbols(sizes, input_symbols(graph))
    sizes = {name: operator.index(size) for name, size in sizes.items()}
    for name, size in sizes.items():
        if size < 0:
            raise OptionError(
                f"the dynamic axis {name!r} cannot be {size}", hint="sizes are not negative"
            )
    for value in graph.inputs:
        value.type = _bound(value.type, sizes)
        if isinstance(value.type, TensorType) and any(
            isinstance(d, int) and d < 0 for d in value.type.shape or ()
        ):
            raise ShapeError(f"input {value.name!r} would be {value.type}", where=_where(sizes))
    try:
        _infer(graph, sizes)
    except InfuseError as error:
        error.within(_where(sizes))
        raise


def fix_defaults(graph: Graph) -> None:
    """Let inputs that have a default be constants, in place; what follows from them is known as
    well afterwards.
    """
    fixed = [value for value in graph.inputs if value.default is not None]
    for value in fixed:
        assert value.default is not None
        value.replace_by(constant(value.default, value.name, value.dtype))
    graph.inputs = [value for value in graph.inputs if value.default is None]
    if fixed:
        _infer(graph, {})


def states_of(graph: Graph) -> list[Value]:
    """Inputs with a default that a caller feeds with what the run before gave: those with an output
    of their own (`NAME.out`, `present` for `past`), and caches, which begin without elements or
    with zeros along three axes and more. As constants they would stay what they are at first.
    """
    outputs = set(graph.output_names)
    return [
        value
        for value in graph.inputs
        if value.default is not None
        and (
            value.default.size == 0
            or (value.default.ndim > 2 and _is_zero(value.default))
            or f"{value.name}.out" in outputs
            or any(each in outputs for each in _presents(value.name))
        )
    ]


def _is_zero(array: Array) -> bool:
    return array.dtype.kind not in "OU" and not np.any(array)


def _presents(name: str) -> Iterator[str]:
    """What exporters call the output that belongs to an input of the past."""
    for past, present in _PASTS:
        if past in name:
            yield name.replace(past, present)


def warn_of_defaults(graph: Graph) -> None:
    """Warn where inputs have defaults, which may cost much: weights that a call may replace are not
    prepared. States are no such weights.
    """
    states = states_of(graph)
    names = [v.name for v in graph.inputs if v.default is not None and v not in states]
    if names:
        advice = (
            f"; states are among the defaults ({_listed(states)}), which fix_defaults would freeze"
            if states
            else "; fix_defaults (--fix-defaults) makes them constants"
        )
        warnings.warn(
            f"calls may replace the defaults of {len(names)} inputs ({_listed(names)}), so nothing "
            f"is computed from them beforehand{advice}",
            RuntimeWarning,
            stacklevel=5,
        )


def warn_of_frozen_states(graph: Graph) -> None:
    """Warn where inputs that are to become constants are states."""
    if states := states_of(graph):
        warnings.warn(
            f"states ({_listed(states)}), which each run takes from the one before, become "
            "constants: they stay what they are at first, such as an empty cache; leave "
            "--fix-defaults out where they are to change",
            RuntimeWarning,
            stacklevel=2,
        )


def _listed(values: Sequence[Value | str]) -> str:
    names = [value if isinstance(value, str) else value.name for value in values]
    return ", ".join(names if len(names) <= 3 else [*names[:3], "…"])


def _infer(graph: Graph, sizes: Mapping[str, int]) -> None:
    for node in graph.nodes:
        for body in node.subgraphs.values():
            for value in body.inputs:
                value.type = _bound(value.type, sizes)
            _infer(body, sizes)
        results = [(_bound(v.type, sizes), _bound_content(v, sizes)) for v in node.outputs]
        node.op.infer_node(node)
        for value, (type, content) in zip(node.outputs, results):
            change = compare_types(type, value.type)
            if change is Change.CLASH:
                raise ShapeError(
                    f"output {value.name!r} would be {value.type} and {type}",
                    where=f"{node.kind} node {node.name!r}",
                    hint="the model does not allow this size",
                )
            if change is Change.WEAKER:
                value.type = type
            if value.content is None:
                value.content = content


def _where(sizes: Mapping[str, int]) -> str:
    return f"with {', '.join(f'{name} = {size}' for name, size in sizes.items())}"


def _bound(type: Type, sizes: Mapping[str, int]) -> Type:
    if not symbols_of(type) & sizes.keys():
        return type
    if isinstance(type, StateType):
        return StateType(type.element.substitute(sizes))
    if isinstance(type, HOLDERS):
        return replace(type, element=_bound(type.element, sizes))
    assert isinstance(type, TensorType)
    return type.substitute(sizes)


def _bound_content(value: Value, sizes: Mapping[str, int]) -> Array | None:
    if value.content is None:
        return None
    bound: Array = value.content.copy()
    for index, dim in enumerate(bound.reshape(-1)):
        bound.reshape(-1)[index] = dims.substitute(dim, dict(sizes))
    return bound
