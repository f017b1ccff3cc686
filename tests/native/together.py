"""Graphs of many cases as parts of one graph, so that one library holds them all."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from infuse.build.compile import compile_graph
from infuse.errors import InfuseError
from infuse.ir.clone import clone_nodes
from infuse.ir.graph import Graph, Value
from infuse.options import CompileOptions

Key = TypeVar("Key", bound=Hashable)
Arrays = Mapping[str, Any]
"""By name of an input or output."""


class Part(NamedTuple):
    """The graph of one case, and what it is fed."""

    graph: Graph
    feeds: Arrays


class Together(Generic[Key]):
    """What each part gives, all of them compiled as one graph with these options and run once.

    Where that is an error, each part is compiled alone, and asking for its outputs raises its own.
    """

    def __init__(self, parts: Mapping[Key, Part], options: CompileOptions) -> None:
        self._found: dict[Key, Arrays | InfuseError] = {}
        try:
            self._found.update(zip(parts, _run(list(parts.values()), options)))
        except InfuseError:
            for key, part in parts.items():
                try:
                    self._found[key] = _run([part], options)[0]
                except InfuseError as error:
                    self._found[key] = error

    def __getitem__(self, key: Key) -> Arrays:
        found = self._found[key]
        if isinstance(found, InfuseError):
            raise found
        return found


def joined(graphs: Iterable[Graph]) -> Graph:
    """One graph of all nodes; names of inputs and outputs begin with the number of their part."""
    whole = Graph("together")
    for number, graph in enumerate(graphs):
        values: dict[Value, Value] = {}
        for value in graph.inputs:
            values[value] = whole.add_input(f"{number}_{value.name}", value.type)
        for node in clone_nodes(graph.nodes, values):
            whole.add_node(node)
        for value, name in zip(graph.outputs, graph.output_names):
            whole.add_output(values.get(value, value), f"{number}_{name}")
    return whole


def _run(parts: list[Part], options: CompileOptions) -> list[Arrays]:
    feeds = {f"{i}_{name}": x for i, part in enumerate(parts) for name, x in part.feeds.items()}
    with compile_graph(joined(part.graph for part in parts), options) as model:
        outputs = model.run(feeds)
    return [
        {name: outputs[f"{i}_{name}"] for name in part.graph.output_names}
        for i, part in enumerate(parts)
    ]
