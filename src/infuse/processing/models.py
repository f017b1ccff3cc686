"""Models as parts of traced programs, and programs as parts of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any

from infuse.errors import InfuseError, OptionError, ShapeError, TypeMismatchError
from infuse.ir import dims
from infuse.ir.clone import clone_nodes
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Value, constant
from infuse.ir.types import TensorType
from infuse.processing.image_sizes import asserted
from infuse.tracing.arrays.array import Array, importer, lifted, node, source_line
from infuse.tracing.arrays.sizes import listed
from infuse.tracing.arrays.tracing import Spec, trace_inputs


def call_model(model: Graph, *arrays: Any, **named: Any) -> Any:
    """The outputs of a model for traced arrays: one array, or a tuple of them.

    For use inside of `infuse.trace`: the model's nodes become a part of the program. Arrays are its
    inputs in their order or by name; those with a default may be left out. Sizes for which the
    model has symbols become what the arrays have. TypeMismatchError and ShapeError where types and
    shapes do not fit; what only a run knows is checked there.
    """
    results = _called(model, _matched(model, arrays, named))
    return results[0] if len(results) == 1 else tuple(results)


def attach(
    model: Graph,
    *,
    before: Callable[..., Any] | None = None,
    specs: Mapping[str, Any] | None = None,
    after: Callable[..., Any] | None = None,
) -> Graph:
    """A model with functions of traced arrays before and after it, as one new graph.

    `before` takes arrays like `specs`, by parameter's name (see `infuse.trace`), and returns the
    model's input, a tuple of its inputs, or a dictionary by their names. What the dictionary has
    beside these is handed on to `after`, or is an output where there is no `after`. Inputs of the
    model that nothing is said of stay inputs.

    The parameters of `after` are named as outputs of the model, as what `before` hands on, or as
    entries of `specs`; the others are the model's outputs in their order. It returns the outputs.
    """
    inputs = {name: Spec.of(spec) for name, spec in (specs or {}).items()}
    _check_specs(inputs, before, after)

    def program(**arrays: Any) -> Any:
        fed, rest = _prepared(model, before, arrays)
        for value in model.inputs:
            if value.name not in fed:
                fed[value.name] = _new_input(value)
        outputs = dict(zip(model.output_names, _called(model, fed)))
        if after is None:
            return {**outputs, **rest}
        return after(**_arguments(after, outputs, {**arrays, **rest}))

    graph = trace_inputs(program, inputs, model.name)
    graph.doc = model.doc
    graph.metadata.update(model.metadata)
    return graph


# -- a model in a program --------------------------------------------------------------------------


def _matched(model: Graph, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays by the names of a model's inputs."""
    names = [str(value.name) for value in model.inputs]
    if len(arrays) > len(names):
        raise OptionError(
            f"the model {model.name!r} has {len(names)} inputs, {len(arrays)} arrays are given",
            where=source_line() or None,
            hint=f"its inputs: {', '.join(names)}",
        )
    fed = dict(zip(names, arrays))
    for name, array in named.items():
        if name not in names or name in fed:
            raise OptionError(
                f"the model {model.name!r} has no {'other ' if name in fed else ''}input {name!r}",
                where=source_line() or None,
                hint=f"its inputs: {', '.join(names)}",
            )
        fed[name] = array
    return fed


def _called(model: Graph, fed: Mapping[str, Any]) -> list[Array]:
    """The outputs of a model for arrays by name."""
    missing = [v.name for v in model.inputs if v.name not in fed and v.default is None]
    if missing:
        raise OptionError(
            f"the model {model.name!r} needs its inputs {', '.join(map(repr, missing))}",
            where=source_line() or None,
        )
    sizes: dict[str, tuple[Dim, Any]] = {}
    values: dict[Value, Value] = {}
    for value in model.inputs:
        if value.name in fed:
            values[value] = _fitting(lifted(fed[value.name]), value, sizes).value
        else:
            assert value.default is not None
            values[value] = constant(value.default, value.name, value.dtype)
    into = importer().graph
    for domain, version in model.opsets.items():
        if domain:
            into.opsets.setdefault(domain, version)
    bound = {name: dim for name, (dim, _) in sizes.items()}
    for copy in clone_nodes(model.nodes, values):
        copy.renumber()
        for output in copy.outputs:
            if isinstance(output.type, TensorType):
                output.type = output.type.substitute(bound)
        into.add_node(copy)
        try:
            copy.op.infer_node(copy)
        except InfuseError as error:
            error.within(f"model {model.name!r}")
            raise
    return [Array(_read(values, value)) for value in model.outputs]


def _read(values: Mapping[Value, Value], value: Value) -> Value:
    if value.const is not None and value not in values:
        return constant(value.const, value.name, value.dtype)
    return values[value]


def _fitting(x: Array, value: Value, sizes: dict[str, tuple[Dim, Any]]) -> Array:
    """An array as an input of a model, whose symbols get sizes, and numbers or arrays of these."""
    what = f"input {value.name!r} of the model is {value.type}"
    if not isinstance(value.type, TensorType):
        raise TypeMismatchError(f"{what}, not an array", where=source_line() or None)
    if x.value.dtype != value.dtype:
        raise TypeMismatchError(
            f"{what}, the array has {x.value.dtype}",
            where=source_line() or None,
            hint=f"astype({str(value.dtype)!r}) makes it fit",
        )
    if value.type.shape is None:
        return x
    if x.ndim != len(value.type.shape):
        raise ShapeError(
            f"{what}, the array has {x.ndim} axes: {x.value.type}", where=source_line() or None
        )
    shape = list(x.shape)
    for axis, needed in enumerate(value.type.shape):
        size = x.value.shape[axis]
        message = f"{what}: axis {axis} of the array has another size"
        if dims.symbols(needed) == {str(needed)} and str(needed) not in sizes:
            sizes[str(needed)] = size, shape[axis]
            continue
        meant = dims.substitute(needed, {name: dim for name, (dim, _) in sizes.items()})
        verdict = dims.compare("==", size, meant)
        if verdict is False:
            raise ShapeError(
                f"{what}, the array is {x.value.type}: its axis {axis} has {size} and not {meant}",
                where=source_line() or None,
            )
        if verdict is None and isinstance(meant, int):
            x, shape[axis] = asserted(x, shape[axis] == meant, message), meant
        elif verdict is None and str(needed) in sizes:
            x = asserted(x, shape[axis] == sizes[str(needed)][1], message)
    if any(isinstance(a, int) and a != b for a, b in zip(shape, x.value.shape)):
        x = node("Reshape", x, listed(shape), allowzero=1)
    return x


# -- a program around a model ----------------------------------------------------------------------


def _check_specs(
    specs: Mapping[str, Spec],
    before: Callable[..., Any] | None,
    after: Callable[..., Any] | None,
) -> None:
    """OptionError for specs of no parameter, and for parameters of `before` without a spec."""
    needed = _names(before)
    missing = [name for name in needed if name not in specs]
    if missing:
        raise OptionError(
            f"specs say nothing of the parameters {', '.join(map(repr, missing))} of before",
            hint='give specs={"image": infuse.Spec("uint8", ("height", "width", 3))}, say',
        )
    unused = [name for name in specs if name not in (*needed, *_names(after))]
    if unused:
        raise OptionError(
            f"specs name {', '.join(map(repr, unused))}, which no function has as a parameter"
        )


def _names(function: Callable[..., Any] | None) -> list[str]:
    """The parameters of a function that need an argument."""
    if function is None:
        return []
    entries = signature(function).parameters.values()
    kinds = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    wrong = [e.name for e in entries if e.kind in kinds or e.kind is Parameter.POSITIONAL_ONLY]
    if wrong:
        raise OptionError(
            f"arguments are given by name, so the parameter {wrong[0]!r} needs one of its own"
        )
    return [e.name for e in entries if e.default is Parameter.empty]


def _prepared(
    model: Graph, before: Callable[..., Any] | None, arrays: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `before` returns: inputs of the model, and the rest, by name."""
    if before is None:
        return {}, {}
    parameters = signature(before).parameters
    results = before(**{name: x for name, x in arrays.items() if name in parameters})
    names = [str(value.name) for value in model.inputs]
    if isinstance(results, Mapping):
        by_name = {str(name): result for name, result in results.items()}
        fed = {name: x for name, x in by_name.items() if name in names}
        if not fed:
            raise OptionError(
                f"before returns {', '.join(map(repr, by_name))}, of which the model has no input",
                hint=f"its inputs: {', '.join(names)}",
            )
        return fed, {name: x for name, x in by_name.items() if name not in fed}
    listed_ = list(results) if isinstance(results, (tuple, list)) else [results]
    if len(listed_) > len(names):
        raise OptionError(
            f"before returns {len(listed_)} arrays, the model has {len(names)} inputs",
            hint=f"return a dictionary: {names[0]!r} for the input, other names for what is handed "
            "on"
            if names
            else None,
        )
    return dict(zip(names, listed_)), {}


def _new_input(value: Value) -> Array:
    """An input of the program that is one of the model."""
    if not isinstance(value.type, TensorType):
        raise TypeMismatchError(f"input {value.name!r} of the model is {value.type}, not an array")
    g = importer()
    for size in value.type.shape or ():
        g.sizes.taken |= dims.symbols(size)
    made = g.input(str(value.name), value.dtype, value.type.shape)
    made.default = value.default
    return Array(made)


def _arguments(
    after: Callable[..., Any], outputs: Mapping[str, Array], others: Mapping[str, Any]
) -> dict[str, Any]:
    """Arrays for the parameters of a function."""
    names = _names(after)
    by_order = [name for name in outputs if name not in names]
    arguments: dict[str, Any] = {}
    for name in signature(after).parameters:
        if name in outputs:
            arguments[name] = outputs[name]
        elif name in others:
            arguments[name] = others[name]
        elif name in names and by_order:
            arguments[name] = outputs[by_order.pop(0)]
        elif name in names:
            raise OptionError(
                f"nothing is there for the parameter {name!r} of after",
                hint=f"outputs of the model: {', '.join(outputs)}; beside them: "
                f"{', '.join(others) or 'nothing'}",
            )
    return arguments
