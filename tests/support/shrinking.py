"""Failing networks made small: what is not needed for the failure is taken out, piece by piece."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from infuse.errors import InfuseError
from infuse.ir.clone import clone
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.printer import big_constants, print_graph
from infuse.ir.types import TensorType
from infuse.ir.verify import verify
from infuse.passes.inline import InlineConstantIf
from infuse.rewrite import Report
from infuse.rewrite.patch import redirect, remove_dead
from infuse.testing.running import run_graph
from tests.support.generators.networks import Feeds, Network

Fails = Callable[[Network], bool]
ROUNDS = 8


def reduced(network: Network, fails: Fails) -> Network:
    """The smallest network found on which `fails` still holds: with fewer runs, outputs and nodes.

    A node goes by being replaced with one of its operands, with constants or with inputs of what it
    gave. `fails` may
    raise: that is no failure.
    """
    if not _holds(network, fails):
        raise ValueError("the network does not fail")
    for _ in range(ROUNDS):
        before = _size(network)
        for smaller in (_fewer_runs, _fewer_outputs, _fewer_nodes, _simpler_numbers):
            network = smaller(network, fails)
        if _size(network) == before:
            break
    return network


def text(network: Network) -> str:
    """A network as text, to copy into a test: the graph, its big constants and its inputs."""
    lines = [print_graph(network.graph)]
    arrays = [("constant", name, array) for name, array in big_constants(network.graph).items()]
    for number, feeds in enumerate(network.feeds):
        arrays += [(f"run {number}", name, array) for name, array in feeds.items()]
    for what, name, array in arrays:
        lines.append(
            f"{what}: {name} = np.array({np.asarray(array).tolist()}, "
            f"dtype=np.{np.asarray(array).dtype})"
        )
    return "\n".join(lines)


def _size(network: Network) -> tuple[int, ...]:
    graphs = list(network.graph.all_graphs())
    constants = sum(int(v.const.size) for g in graphs for v in g.constants() if v.const is not None)
    return (
        sum(map(len, graphs)),
        len(network.feeds),
        len(network.graph.outputs),
        len(network.graph.inputs),
        constants,
    )


def _holds(network: Network, fails: Fails) -> bool:
    try:
        verify(network.graph)
        return fails(network)
    except Exception:
        return False


def _fewer_runs(network: Network, fails: Fails) -> Network:
    for feeds in network.feeds:
        single = Network(network.graph, [feeds], network.extreme)
        if len(network.feeds) > 1 and _holds(single, fails):
            return single
    return network


def _fewer_outputs(network: Network, fails: Fails) -> Network:
    count = len(network.graph.outputs)
    choices = [[i] for i in range(count)] + [
        [i for i in range(count) if i != left] for left in range(count)
    ]
    for numbers in choices if count > 1 else []:
        smaller = _with_outputs(network, numbers)
        if _holds(smaller, fails):
            return _fewer_outputs(smaller, fails)
    return network


def _with_outputs(network: Network, numbers: list[int]) -> Network:
    graph = clone(network.graph)
    outputs = [(graph.outputs[i], graph.output_names[i]) for i in numbers]
    for index, value in enumerate(graph.outputs):
        value.uses = {use: None for use in value.uses if use != (graph, index)}
    graph.outputs, graph.output_names = [], []
    for value, name in outputs:
        graph.add_output(value, name)
    return _trimmed(graph, network.feeds, network.extreme)


def _fewer_nodes(network: Network, fails: Fails) -> Network:
    place = 0
    while place < len(_nodes(network.graph)):
        for smaller in _without(network, place):
            if _size(smaller) < _size(network) and _holds(smaller, fails):
                network = smaller
                break
        else:
            place += 1
    return network


def _nodes(graph: Graph) -> list[Node]:
    """All nodes, those of the bodies too, later ones first."""
    return [node for inner in graph.all_graphs() for node in reversed(inner.nodes)]


def _without(network: Network, place: int) -> Iterator[Network]:
    """Networks without one node."""
    node = _nodes(network.graph)[place]
    assert node.graph is not None
    if node.kind == "If":
        for branch in (True, False):
            graph = clone(network.graph)
            _nodes(graph)[place].set_inputs([constant(np.array(branch))])
            InlineConstantIf().run(graph, Report())
            yield _trimmed(graph, network.feeds, network.extreme)
    for index, operand in enumerate(node.inputs):
        if operand is not None and operand.type == node.output.type and len(node.outputs) == 1:
            graph = clone(network.graph)
            copy = _nodes(graph)[place]
            source = copy.inputs[index]
            assert source is not None
            redirect(copy.output, source)
            yield _trimmed(graph, network.feeds, network.extreme)
    if node.graph is network.graph and all(isinstance(v.type, TensorType) for v in node.outputs):
        yield from _given(network, place)


def _given(network: Network, place: int) -> Iterator[Network]:
    """Networks in which what a node gave is constant, or an input."""
    columns = _results(network, place)
    if columns is None:
        return
    if len(network.feeds) == 1:
        graph = clone(network.graph)
        node = _nodes(graph)[place]
        for old, (array,) in zip(node.outputs, columns):
            redirect(old, constant(array, "", old.dtype))
        yield _trimmed(graph, network.feeds, network.extreme)
    graph = clone(network.graph)
    node = _nodes(graph)[place]
    feeds = [dict(f) for f in network.feeds]
    for old, column in zip(node.outputs, columns):
        taken = {v.name for v in graph.inputs}
        new = graph.add_input(
            next(name for i in itertools.count() if (name := f"made{i}") not in taken), old.type
        )
        new.content = None
        redirect(old, new)
        for each, array in zip(feeds, column):
            each[new.name] = array
    yield _trimmed(graph, feeds, network.extreme)


def _results(network: Network, place: int) -> list[list[Any]] | None:
    """What the outputs of a node hold in each run; None where it cannot be computed."""
    node = _nodes(network.graph)[place]
    runs: list[list[Any]] = []

    def note(each: Node, results: Any) -> Any:
        if each is node:
            runs.append(list(results))
        return results

    for feeds in network.feeds:
        try:
            run_graph(
                network.graph,
                [feeds[v.name] for v in network.graph.inputs],
                lambda v: v.const,
                note,
            )
        except InfuseError:
            return None
    return [list(column) for column in zip(*runs)]


def _simpler_numbers(network: Network, fails: Fails) -> Network:
    """Constants of equal elements where the failure does not depend on them."""
    for index in range(len(_floats(network.graph))):
        graph = clone(network.graph)
        old = _floats(graph)[index]
        assert old.const is not None
        if len(set(old.const.reshape(-1).tolist())) > 1:
            redirect(old, constant(np.ones_like(old.const), "", old.dtype))
            smaller = Network(graph, network.feeds, network.extreme)
            network = smaller if _holds(smaller, fails) else network
    return network


def _floats(graph: Graph) -> list[Value]:
    return [v for inner in graph.all_graphs() for v in inner.constants() if v.dtype.is_float]


def _trimmed(graph: Graph, feeds: Any, extreme: bool) -> Network:
    """The network without dead nodes and without inputs that nobody reads."""
    for inner in graph.all_graphs():
        remove_dead([n for n in inner.unordered_nodes if not any(v.uses for v in n.outputs)])
    graph.inputs = [v for v in graph.inputs if v.uses]
    names = [v.name for v in graph.inputs]
    trimmed: list[Feeds] = [{name: each[name] for name in names} for each in feeds]
    return Network(graph, trimmed, extreme)
