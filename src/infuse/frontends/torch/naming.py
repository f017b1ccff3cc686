"""Names of the dynamic sizes of a program, from the `dynamic_shapes` that it was exported with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from infuse.errors import InputError


def with_dims(dynamic_shapes: Any) -> Any:
    """Dynamic shapes in which a torch.export.Dim of the same name stands for each text."""
    if isinstance(dynamic_shapes, str):
        from torch.export import Dim

        if not dynamic_shapes.isidentifier():
            raise InputError(f"{dynamic_shapes!r} is not a name for a size")
        return Dim(dynamic_shapes)
    if isinstance(dynamic_shapes, Mapping):
        return {key: with_dims(value) for key, value in dynamic_shapes.items()}
    if isinstance(dynamic_shapes, tuple) and type(dynamic_shapes) is not tuple:
        return dynamic_shapes
    if isinstance(dynamic_shapes, (list, tuple)):
        return type(dynamic_shapes)(with_dims(value) for value in dynamic_shapes)
    return dynamic_shapes


def named_sizes(
    program: Any,
    forward: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
) -> dict[str, str]:
    """The names of sizes by torch's symbols (`s0`): those of the torch.export.Dim that each stands
    for. Sizes that torch named itself, and those derived from others, have none.
    """
    from torch.utils import _pytree as pytree

    leaves, _ = pytree.tree_flatten_with_path((tuple(args), dict(kwargs)))
    holders = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    inputs = [holders.get(name) for name in program.graph_signature.user_inputs]
    if len(inputs) != len(leaves):
        return {}
    parameters = _parameters(forward, len(args))
    names: dict[str, str] = {}
    for (path, _), node in zip(leaves, inputs):
        value = None if node is None else node.meta.get("val")
        spec = _spec_of(dynamic_shapes, path, parameters)
        for axis, dim in _axes(spec):
            shape = getattr(value, "shape", ())
            text = str(shape[axis]) if -len(shape) <= axis < len(shape) else ""
            name = getattr(dim, "__name__", "")
            if text.isidentifier() and name.isidentifier():
                names.setdefault(text, name)
    return names


def _parameters(forward: Callable[..., Any], count: int) -> list[str]:
    """The names of the parameters that positional arguments go to."""
    parameters = list(inspect.signature(forward).parameters.values())
    names = [p.name for p in parameters if p.kind is not inspect.Parameter.VAR_POSITIONAL]
    starred = [p.name for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL]
    return names[:count] if not starred else [*names[:0], *starred]


def _spec_of(dynamic_shapes: Any, path: Sequence[Any], parameters: Sequence[str]) -> Any:
    """What the dynamic shapes say of the input at a path of ((arguments), {named ones})."""
    spec: Any
    first, second, *rest = [_key(entry) for entry in path]
    if isinstance(dynamic_shapes, Mapping):
        if first == 1:
            spec = dynamic_shapes.get(second)
        elif second < len(parameters):
            spec = dynamic_shapes.get(parameters[second])
        else:
            spec = None
    elif isinstance(dynamic_shapes, (list, tuple)) and first == 0:
        spec = dynamic_shapes[second] if second < len(dynamic_shapes) else None
    else:
        return None
    for key in rest:
        try:
            spec = spec[key]
        except (KeyError, IndexError, TypeError):
            return None
    return spec


def _key(entry: Any) -> Any:
    """An index or a key, from an entry of a path of torch's trees."""
    for field in ("idx", "key", "name"):
        if hasattr(entry, field):
            return getattr(entry, field)
    return None


def _axes(spec: Any) -> Iterator[tuple[int, Any]]:
    """The axes of a tensor that have a size of their own."""
    if isinstance(spec, Mapping):
        yield from ((axis, dim) for axis, dim in spec.items() if isinstance(axis, int))
    elif isinstance(spec, (list, tuple)):
        yield from enumerate(spec)
