"""Live functions of JAX: traced, with inputs that are named by their place in the arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from infuse.errors import InputError, OptionError
from infuse.frontends.jax.calls import JaxImporter
from infuse.frontends.jax.reader import check, constant, run
from infuse.frontends.signatures import required_arguments
from infuse.ir.graph import Graph, Value
from infuse.ops.core.sizes import numbering
from infuse.tracing.importer import free_name
from infuse.tracing.sizes import Sizes


def from_jax(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    constants: Iterable[str] = (),
) -> Graph:
    """The graph of a function of JAX, traced on these arguments (see `infuse.from_jax`)."""
    try:
        import jax
    except ImportError as error:
        raise InputError(
            "JAX is not installed", hint="install jax, or load the model from a file"
        ) from error
    if not callable(function):
        raise InputError(f"{type(function).__name__} is not a function")
    call = f"call infuse.from_jax(function, ({required_arguments(function)}))"
    if not isinstance(args, (tuple, list)):
        raise InputError(f"the arguments are {type(args).__name__}, not a tuple", hint=call)
    _check_signature(function, args, kwargs or {}, call)
    if isinstance(constants, str):
        raise OptionError("constants is a text, not a list", hint=f"give [{constants!r}]")
    named = dict(kwargs or {})
    traced = (function if hasattr(function, "trace") else jax.jit(function)).trace(*args, **named)
    leaves = _leaves(jax, function, args, named)
    jaxpr = _needed(traced.jaxpr)
    if len(leaves) != len(jaxpr.in_avals):
        raise InputError(
            f"{len(leaves)} arrays are given, and JAX traces {len(jaxpr.in_avals)}",
            hint="bind static arguments with functools.partial before jax.jit",
        )
    label = getattr(function, "__name__", "") or type(function).__name__
    check(jaxpr, f"the function {label}")
    return _graph(jax, label, jaxpr, leaves, frozenset(constants), traced.out_info)


def _check_signature(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], hint: str
) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # functions of C have no signature
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise InputError(f"the arguments do not fit the function: {error}", hint=hint) from error


def _needed(closed: Any) -> Any:
    """A jaxpr without what no result needs, such as keys of random numbers that nobody draws."""
    from jax.interpreters.partial_eval import dce_jaxpr

    jaxpr, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    return closed.replace(jaxpr=jaxpr)


def _graph(
    jax: Any,
    label: str,
    jaxpr: Any,
    leaves: Sequence[tuple[str, str, Any]],
    constants: frozenset[str],
    results: Any,
) -> Graph:
    unknown = constants - {argument for argument, _, _ in leaves}
    if unknown:
        raise OptionError(
            f"no argument with arrays is called {', '.join(sorted(unknown))}",
            hint=f"the arguments are {', '.join(dict.fromkeys(leaf[0] for leaf in leaves))}",
        )
    sizes = Sizes()
    g = JaxImporter(label, sizes)
    operands: list[Value] = []
    names: set[str] = set()
    with numbering(sizes.taken):
        for (argument, path, leaf), aval in zip(leaves, jaxpr.in_avals):
            name = free_name(path, names)
            names.add(name)
            with g.scope(source=f"argument {name}"):
                if argument in constants:
                    operands.append(_weights(g, name, leaf, aval))
                else:
                    type = g.type_of(aval)
                    operands.append(g.input(name, type.dtype, type.shape))
        outputs = run(g, jaxpr, operands)
        paths, _ = jax.tree_util.tree_flatten_with_path(results)
        for (path, _), value in zip(paths, outputs, strict=True):
            name = _output(g.graph, _parts(path))
            g.output(name, g("Identity", value) if value.producer is None else value)
    return g.graph


def _weights(g: JaxImporter, name: str, leaf: Any, aval: Any) -> Value:
    if not isinstance(leaf, (int, float, np.generic)) and not hasattr(leaf, "__array__"):
        raise InputError(
            f"{name} is a {type(leaf).__name__}, which has no elements to be constants",
            hint="give the arrays of arguments that are constants",
        )
    return constant(g, leaf, aval)


def _leaves(
    jax: Any, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[tuple[str, str, Any]]:
    """Of every array: its argument, its path, and what was given."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # functions of C have no signature
        parameters = []
    ordered = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [p.name for p in parameters if p.kind in ordered]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "arg")
    leaves = []
    for number, argument in enumerate(args):
        after = number - len(positional)
        name = positional[number] if after < 0 else f"{rest}_{after}"
        leaves += _paths(jax, name, argument)
    for name, argument in sorted(kwargs.items()):
        leaves += _paths(jax, name, argument)
    return leaves


def _paths(jax: Any, name: str, argument: Any) -> list[tuple[str, str, Any]]:
    paths, _ = jax.tree_util.tree_flatten_with_path(argument)
    return [(name, ".".join([name, *_parts(path)]), leaf) for path, leaf in paths]


def _parts(path: Sequence[Any]) -> list[str]:
    """The keys, numbers and attributes of a path in a tree."""
    parts = []
    for entry in path:
        names = (getattr(entry, name, None) for name in ("key", "idx", "name"))
        parts.append(str(next((n for n in names if n is not None), entry)))
    return parts


def _output(graph: Graph, parts: Sequence[str]) -> str:
    """The name of a result: `output`, a number behind it in a tuple, or its keys."""
    if parts and not parts[0].isdigit():
        name = ".".join(parts)
    else:
        name = ".".join(["_".join(["output", *parts[:1]]), *parts[1:]])
    used = {value.name for value in graph.inputs} | set(graph.output_names)
    return free_name(name, used)
