"""Parts of a graph, between some of its values and others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from infuse.errors import OptionError, did_you_mean
from infuse.ir.clone import clone
from infuse.ir.graph import Graph, Use, Value


def extract(graph: Graph, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
    """A copy of what computes `outputs` from `inputs`, both by the names of values.

    No inputs stand for those of the graph that are needed, no outputs for those of the graph that
    can be computed. OptionError for a name that no value of the graph has, and where the outputs
    need more than the inputs.
    """
    copy = clone(graph)
    copy.report = copy.compression = None
    values = _by_name(copy)
    results = [(name, _value(values, name, "output")) for name in dict.fromkeys(outputs)]
    cut = [(name, _value(values, name, "input")) for name in dict.fromkeys(inputs)]
    if results:
        _give(copy, results)
    starts = [_input(copy, name, value) for name, value in cut]
    for node in reversed(copy.nodes):
        if not any(value.uses for value in node.outputs):
            copy.remove(node)
    _take(copy, starts, needed=[value for value in copy.inputs if value.uses])
    return copy


def _by_name(graph: Graph) -> dict[str, Value]:
    values = {value.name: value for value in graph.inputs}
    values |= {value.name: value for node in graph.nodes for value in node.outputs}
    values |= dict(zip(graph.output_names, graph.outputs))
    values.pop("", None)
    return values


def _value(values: dict[str, Value], name: str, role: str) -> Value:
    if name not in values:
        hint = did_you_mean(name, values, otherwise="infuse show --text names all values")
        raise OptionError(f"the graph has no value {name!r} for an {role}", hint=hint)
    if values[name].is_const:
        raise OptionError(f"the {role} {name!r} is a constant")
    return values[name]


def _give(graph: Graph, results: Iterable[tuple[str, Value]]) -> None:
    for number, value in enumerate(graph.outputs):
        del value.uses[Use(graph, number)]
    graph.outputs, graph.output_names = [], []
    for name, value in results:
        graph.add_output(value, name)


def _input(graph: Graph, name: str, value: Value) -> Value:
    """The input of the copy in the place of a value, which everybody reads from now on."""
    if value in graph.inputs:
        return value
    start = Value(value.type, name)
    start.content = value.content
    value.replace_by(start)
    return start


def _take(graph: Graph, starts: Sequence[Value], needed: Sequence[Value]) -> None:
    """Let the inputs be those that were named, or those that are needed where none were."""
    missing = [value.name for value in needed if value not in starts and value.default is None]
    if starts and missing:
        raise OptionError(
            f"the outputs also need the input {missing[0]!r}",
            hint=f"name it too, or a value between: all that is missing is {', '.join(missing)}",
        )
    defaults = [value for value in needed if value not in starts]
    graph.inputs = [*starts, *defaults]
    unused = [value.name for value in starts if not value.uses]
    if unused:
        raise OptionError(f"no output depends on {unused[0]!r}", hint="leave it out")
