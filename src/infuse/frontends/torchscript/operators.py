"""Calls of ATen's operators: the overload, the types of the results, views, changes in place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from infuse import dtypes
from infuse.errors import UnsupportedOperatorError
from infuse.frontends.torchscript.values import (
    Cell,
    Dict,
    List,
    Object,
    Stacked,
    Tensor,
    Undecided,
    View,
)
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import PLACEMENT, handler_of
from infuse.tracing.aten.element_types import dtype_of
from infuse.tracing.aten.overloads import overload_of
from infuse.tracing.aten.results import results_of
from infuse.tracing.aten.scripting import ScriptImporter
from infuse.tracing.aten.writing import PERHAPS, RESHAPING, SAME, SPLITS, VIEWS, split_writer

LISTS: Final = frozenset([*SPLITS, "meshgrid", "broadcast_tensors", "nonzero_numpy", "where"])
"""Operators whose results are a list, not a tuple."""


class World(Protocol):
    """What calls are made in (`interpreter.Interpreter`)."""

    @property
    def g(self) -> ScriptImporter:
        """The importer of the graph or body in hand."""

    def touch(self, thing: Cell | Object | List | Dict) -> None:
        """Note that a thing is about to change."""


def is_tensor(value: Any) -> bool:
    """Whether an argument is a tensor, or a list with tensors."""
    if isinstance(value, (list, tuple)):
        return any(isinstance(x, (Tensor, Stacked)) for x in value)
    return isinstance(value, Tensor)


def values_of(world: World, argument: Any) -> Any:
    """An argument as entries of the table take it."""
    if isinstance(argument, Tensor):
        return argument.read(world.g)
    if isinstance(argument, (list, tuple)):
        return [values_of(world, x) for x in argument]
    if isinstance(argument, Undecided):
        raise UnsupportedOperatorError(f"a value is used that cannot be told: {argument.reason}")
    if isinstance(argument, Stacked):
        raise UnsupportedOperatorError("a list that a loop made is used as a whole")
    return argument


def call(world: World, name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """The result of an operator (`add`, `relu_`), with tensors among its arguments."""
    if name in SAME:
        return _same(world, name, arguments, options)
    if name in RESHAPING:
        raise UnsupportedOperatorError(f"{name} changes the sizes of a tensor in place")
    if name.endswith("_") and not name.endswith("__"):
        return _in_place(world, name[:-1], arguments, options)
    plain, named = _narrowed(world, arguments, options)
    made = compute(world.g, name, plain, named)
    first = arguments[0] if arguments else None
    if name in SPLITS and isinstance(first, Tensor):
        return _split(world, name, first, plain, named, made)
    if name in VIEWS and isinstance(first, Tensor) and isinstance(made, Value):
        return _view(name, first, plain, named, made)
    result = wrapped(name, made)
    if name in PERHAPS:
        for argument in arguments:
            for tensor in argument if isinstance(argument, list) else [argument]:
                if isinstance(tensor, Tensor):
                    link(tensor, result)
    return result


def wrapped(name: str, made: Any) -> Any:
    """What an entry of the table made, as the program sees it."""
    if isinstance(made, list):
        items = [wrapped(name, item) for item in made]
        return List(items) if name in LISTS else tuple(items)
    return Tensor(Cell(made)) if isinstance(made, Value) else made


def link(tensor: Tensor, result: Any) -> None:
    """Note that results may lie where a tensor does."""
    for other in result if isinstance(result, (list, tuple)) else [result]:
        if isinstance(other, Tensor) and other.cell is not tensor.cell:
            tensor.cell.linked.append(other.cell)
            other.cell.linked.append(tensor.cell)


def assign(world: World, tensor: Tensor, value: Value) -> None:
    """Let a tensor have these elements from now on."""
    whole = tensor.written(world.g, value)
    world.touch(tensor.cell)
    tensor.cell.value = whole
    seen, waiting = {id(tensor.cell)}, list(tensor.cell.linked)
    while waiting:
        cell = waiting.pop()
        if id(cell) not in seen:
            seen.add(id(cell))
            world.touch(cell)
            cell.spoiled = True
            waiting += cell.linked


def compute(
    g: ScriptImporter, name: str, arguments: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """What the entry of an operator makes of these values."""
    overload = overload_of(name, arguments, options)
    target = f"aten.{name}.{overload}"
    handler = handler_of(target)
    if handler is None:
        raise UnsupportedOperatorError(f"there is no translation of torch.{name} ({target})")
    parameters = inspect.signature(handler).parameters
    _check_options(name, options, parameters)
    plain = list(arguments)
    named = {key: value for key, value in options.items() if key not in PLACEMENT}
    types = {key: named[key] for key in ("dtype",) if named.get(key) is not None}
    place = list(parameters)[1:].index("dtype") if "dtype" in parameters else len(plain)
    if place < len(plain) and parameters["dtype"].kind is not inspect.Parameter.KEYWORD_ONLY:
        types["dtype"] = plain[place]
        plain[place] = None if plain[place] is None else dtype_of(plain[place])
    if "dtype" in named:
        named["dtype"] = None if named["dtype"] is None else dtype_of(named["dtype"])
    g.results = results_of(name, overload, plain, {**named, **types})
    g.called, g.dense = target, True
    try:
        inspect.signature(handler).bind(g, *plain, **named)
    except TypeError as error:
        raise UnsupportedOperatorError(
            f"torch.{name} is called with arguments that are not supported: {error}"
        ) from error
    return handler(g, *plain, **named)


def _check_options(name: str, options: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
    """UnsupportedOperatorError for an option that an entry would not see."""
    swallows = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    for key, value in options.items():
        read = key in parameters or key in PLACEMENT or (swallows and key == "dtype")
        if key == "out" or not (read or value is None):
            raise UnsupportedOperatorError(f"the option {key} of torch.{name} is not supported")
    if options.get("layout") not in (None, 0):
        raise UnsupportedOperatorError(f"torch.{name} makes a tensor that is not dense")


def _narrowed(
    world: World, arguments: Sequence[Any], options: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments as values, in which computed numbers do not make a tensor's type wider."""
    plain = [values_of(world, a) for a in arguments]
    named = {key: values_of(world, a) for key, a in options.items()}
    tensors = [
        v for a, v in zip([*arguments, *options.values()], [*plain, *named.values()])
        if isinstance(a, Tensor)
    ]  # fmt: skip
    if not tensors:
        return plain, named
    dtype = next((t.dtype for t in tensors if t.dtype.is_float), dtypes.float32)

    def narrow(argument: Any, value: Any) -> Any:
        wide = isinstance(argument, Value) and argument.dtype == dtypes.float64
        return world.g.cast(value, dtype) if wide else value

    plain = [narrow(a, v) for a, v in zip(arguments, plain)]
    return plain, {key: narrow(options[key], v) for key, v in named.items()}


def _same(world: World, name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    if name == "dropout":
        probability, training = arguments[1], arguments[2]
        if training is not False and probability != 0:
            raise UnsupportedOperatorError(
                "dropout in training mode is not supported", hint="call module.eval() and save it"
            )
    return arguments[0]


def _in_place(world: World, name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    tensor = arguments[0]
    if not isinstance(tensor, Tensor):
        raise UnsupportedOperatorError(f"{name}_ changes what is not a tensor")
    before = tensor.read(world.g)
    plain, named = _narrowed(world, arguments, options)
    made = compute(world.g, name, plain, named)
    if not isinstance(made, Value):
        raise UnsupportedOperatorError(f"{name}_ does not make one tensor")
    assign(world, tensor, world.g.cast(made, before.dtype))
    return tensor


def _bound(
    name: str, plain: Sequence[Any], named: Mapping[str, Any]
) -> Callable[[Any, Value], Any]:
    """The operator as a function of its first operand alone."""
    rest = list(plain[1:])

    def read(g: Any, whole: Value) -> Any:
        return compute(g, name, [whole, *rest], named)

    return read


def _view(
    name: str, first: Tensor, plain: Sequence[Any], named: Mapping[str, Any], made: Value
) -> Tensor:
    write = VIEWS[name]
    rest, options = list(plain[1:]), dict(named)
    if name == "view" and overload_of(name, plain, named) == "dtype":
        write = None
    back = None if write is None else lambda g, x, part: write(g, x, part, *rest, **options)
    view = View(_bound(name, plain, named), back)
    return Tensor(first.cell, (*first.views, view), made)


def _split(
    world: World, name: str, first: Tensor, plain: Sequence[Any], named: Mapping[str, Any],
    made: list[Value],
) -> List:  # fmt: skip
    whole = plain[0]
    default = 0
    dim = named.get("dim", plain[-1] if len(plain) > _DIM_AFTER.get(name, 2) else default)
    read = _bound(name, plain, named)
    parts = []
    for place, part in enumerate(made):
        back = split_writer(name, whole, made, place, dim)
        view = View(lambda g, x, i=place: read(g, x)[i], back)  # type: ignore[misc]
        parts.append(Tensor(first.cell, (*first.views, view), part))
    return List(parts)


_DIM_AFTER: Final = {"unbind": 1}
"""Arguments before the axis of operators that take a tensor apart; 2 for the others."""
