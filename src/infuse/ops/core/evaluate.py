"""The interpreter: runs a graph node by node in NumPy, as the operators define it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import DataError, GraphError, InfuseError, InputError, RuntimeFailure
from infuse.ir import dims
from infuse.ir.graph import Array, Graph, Node, Value, captured
from infuse.ir.nesting import depth, room, room_for
from infuse.ir.types import MapType, OptionalType, SequenceType, StateType, TensorType
from infuse.ops.core.base import Op
from infuse.ops.core.control_flow import ControlFlow, Run
from infuse.ops.core.opaque import Opaque

Watch = Callable[[Node, int, int], None]
"""Called after every node that ran, also those of bodies, with the times when it began and ended in
nanoseconds.
"""


def evaluate(
    graph: Graph,
    feeds: Mapping[str, Any],
    *,
    fetch: Sequence[str] | None = None,
    watch: Watch | None = None,
) -> dict[str, Array]:
    """The outputs of `graph` by name for these inputs by name.

    `fetch` names outputs or inner values to compute in place of all outputs; only the nodes that
    they need run. Sequences are lists. InputError when the inputs do not fit, RuntimeFailure when a
    node cannot be evaluated.
    """
    return Evaluator(graph, fetch).run(feeds, watch)


class Evaluator:
    """What evaluates a graph, which does not change, again and again; see `evaluate`. Threads may
    share it.
    """

    def __init__(self, graph: Graph, fetch: Sequence[str] | None = None) -> None:
        self.graph = graph
        self._names = list(graph.output_names if fetch is None else fetch)
        self._plan = _Plan(graph, _named(graph, self._names))
        self._depth = depth(graph)

    def run(self, feeds: Mapping[str, Any], watch: Watch | None = None) -> dict[str, Array]:
        """The outputs by name for these inputs by name."""
        inputs = check_feeds(self.graph, feeds)
        with room(self._depth):
            results = _Evaluation(watch).run(self._plan, dict(zip(self.graph.inputs, inputs)), None)
        return dict(zip(self._names, results))


def evaluate_values(
    graph: Graph, feeds: Mapping[str, Any], stated: Mapping[Value, Any] | None = None
) -> dict[Value, Any]:
    """All values of `graph` for these inputs by name, without those of bodies. `stated`: values
    that no node makes.

    Errors are those of `evaluate`.
    """
    values = {**dict(zip(graph.inputs, check_feeds(graph, feeds))), **(stated or {})}
    everything = [*graph.inputs, *(v for node in graph.nodes for v in node.outputs)]
    with room_for(graph):
        return dict(zip(everything, _Evaluation().run(_Plan(graph, everything), values, None)))


def evaluate_again(
    graph: Graph, values: Mapping[Value, Any], changed: Collection[Node]
) -> dict[str, Any]:
    """The outputs of `graph` by name when these of its nodes were changed since `values`, those of
    `evaluate_values`, were computed: only what depends on them is evaluated, and what is new.

    Errors are those of `evaluate`.
    """
    evaluation, frame = _Evaluation(), _Frame(dict(values), None)
    fresh: set[Value] = set()
    with room_for(graph):
        for node in graph.nodes:
            reads = [*node.operands(), *captured(node)]
            is_old = all(value in values for value in node.outputs)
            if is_old and node not in changed and fresh.isdisjoint(reads):
                continue
            arrays = [None if v is None else frame.read(v) for v in node.inputs]
            results = evaluate_node(node, arrays, evaluation.body_runner(frame))
            frame.values.update(zip(node.outputs, results))
            fresh.update(node.outputs)
    return {name: frame.read(v) for name, v in zip(graph.output_names, graph.outputs)}


def evaluate_node(node: Node, arrays: Sequence[Any], run: Run | None = None) -> tuple[Any, ...]:
    """The outputs of one node for these inputs (None: absent). `run` evaluates bodies; without it
    they may capture constants only.
    """
    op = node.op
    if isinstance(op, Opaque):
        raise op.refusal(node)
    assert isinstance(op, Op)
    try:
        if isinstance(op, ControlFlow):
            results = op.run_bodies(node, arrays, run or _Evaluation().body_runner(None))
        else:
            results = op.eval(*arrays)
    except InfuseError as error:
        error.within(f"{node.kind} node {node.name!r}")
        raise
    except MemoryError as error:
        raise RuntimeFailure(
            f"there is not enough memory for its result: {error}",
            where=f"{node.kind} node {node.name!r}",
            hint="use smaller inputs, or give the process more memory",
        ) from error
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        kind = RuntimeFailure if isinstance(error, TypeError) else DataError
        raise kind(
            f"cannot be evaluated: {error}", where=f"{node.kind} node {node.name!r}"
        ) from error
    several = isinstance(results, tuple) or isinstance(op, ControlFlow)
    outputs = tuple(results) if several else (results,)
    if len(outputs) < len(node.outputs):
        raise GraphError(
            f"it gives {len(outputs)} outputs, {len(node.outputs)} are asked for",
            where=f"{node.kind} node {node.name!r}",
        )
    return outputs[: len(node.outputs)]


# -- inputs ----------------------------------------------------------------------------------------


def check_feeds(graph: Graph, feeds: Mapping[str, Any]) -> list[Any]:
    """The values for the inputs of `graph`, in its order, as arrays; InputError when they do not
    fit.

    Inputs with a default need not be given. A symbol must stand for the same size wherever it
    occurs.
    """
    feeds = {v.name: v.default for v in graph.inputs if v.default is not None} | dict(feeds)
    check_names(graph, feeds)
    sizes: dict[str, int] = {}
    return [
        _as_texts(graph, _check_feed(value, feeds[value.name], sizes)) for value in graph.inputs
    ]


def _as_texts(graph: Graph, feed: Any) -> Any:
    """What is no string among strings as its text, where the graph is a model of ONNX: so ONNX
    Runtime reads arrays of Python objects.
    """
    if not graph.opsets:
        return feed
    if isinstance(feed, list):
        return [_as_texts(graph, part) for part in feed]
    if not isinstance(feed, np.ndarray) or feed.dtype != object:
        return feed
    elements = feed.reshape(-1).tolist()
    if all(isinstance(element, str) for element in elements):
        return feed
    texts = np.empty(feed.size, object)
    texts[:] = [str(element) for element in elements]
    return texts.reshape(feed.shape)


def check_names(graph: Graph, feeds: Collection[str]) -> None:
    """InputError unless these are names of inputs, all that have no default among them."""
    inputs = {v.name for v in graph.inputs}
    unknown = [name for name in feeds if name not in inputs]
    missing = [v.name for v in graph.inputs if v.default is None and v.name not in feeds]
    if unknown or missing:
        parts = [f"{', '.join(map(repr, missing))} missing"] * bool(missing)
        parts += [f"{', '.join(map(repr, unknown))} not known"] * bool(unknown)
        names = ", ".join(repr(v.name) for v in graph.inputs)
        raise InputError(f"inputs: {'; '.join(parts)}", hint=f"the model takes {names}")


def _check_feed(value: Value, feed: Any, sizes: dict[str, int]) -> Any:
    type = value.type
    if isinstance(type, OptionalType):
        return None if feed is None else _check_feed(Value(type.element, value.name), feed, sizes)
    if isinstance(type, SequenceType):
        if not isinstance(feed, (list, tuple)):
            raise InputError(f"input {value.name!r} is a sequence and takes a list")
        return [_check_feed(Value(type.element, value.name), part, {}) for part in feed]
    if isinstance(type, MapType):
        return _check_map(value.name, type, feed)
    if isinstance(type, StateType):
        type = type.element
    assert isinstance(type, TensorType)
    array = np.asarray(feed)
    if array.dtype.kind in "UST":
        array = np.asarray(
            np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array, dtype=object
        )
    if dtypes.by_numpy(array.dtype) != type.dtype:
        raise InputError(f"input {value.name!r} takes {type.dtype}, found {array.dtype}")
    if type.shape is not None:
        if len(type.shape) != array.ndim:
            raise InputError(f"input {value.name!r} takes {type}, found rank {array.ndim}")
        for dim, size in zip(type.shape, array.shape):
            _bind(value, dim, size, sizes)
    return array


def _check_map(name: str, type: MapType, feed: Any) -> dict[Any, Any]:
    keys = str if type.key == dtypes.string else (int, np.integer)
    if not isinstance(feed, Mapping) or not all(isinstance(key, keys) for key in feed):
        raise InputError(f"input {name!r} is a map and takes a dict whose keys are {type.key}")
    return dict(feed)


def _bind(value: Value, dim: dims.Dim, size: int, sizes: dict[str, int]) -> None:
    if isinstance(dim, int) and dim == size:
        return
    for name in dims.symbols(dim):
        if dim == dims.symbol(name) and sizes.setdefault(name, size) == size:
            return
    expected = dims.substitute(dim, sizes)
    if isinstance(expected, int) and expected != size:
        raise InputError(f"a size of input {value.name!r} must be {dim} = {expected}, found {size}")


# -- execution -------------------------------------------------------------------------------------


def _named(graph: Graph, names: Iterable[str]) -> list[Value]:
    """Outputs, or else any values of the graph, by name."""
    values = {v.name: v for node in graph.unordered_nodes for v in node.outputs}
    values.update({v.name: v for v in graph.inputs})
    values.update(dict(zip(graph.output_names, graph.outputs)))
    for name in names:
        if name not in values:
            raise InputError(
                f"there is no value {name!r} to fetch",
                hint=f"outputs: {', '.join(graph.output_names)}",
            )
    return [values[name] for name in names]


class _Plan:
    """The nodes of a graph that some of its values need, and what can be forgotten after each."""

    def __init__(self, graph: Graph, fetches: Sequence[Value]) -> None:
        self.graph = graph
        self.fetches = list(fetches)
        order = graph.nodes
        needed = {v.producer for v in fetches}
        self.nodes: list[Node] = []
        self.forget: list[list[Value]] = []
        alive = set(fetches)
        for node in reversed(order):
            if node in needed:
                reads = [*node.operands(), *captured(node)]
                needed.update(v.producer for v in reads)
                last = dict.fromkeys(v for v in (*reads, *node.outputs) if v not in alive)
                alive.update(last)
                self.nodes.append(node)
                self.forget.append(list(last))
        self.nodes.reverse()
        self.forget.reverse()


@dataclass
class _Frame:
    """Values of a running graph, inside the frame of the graph around it."""

    values: dict[Value, Any]
    outer: _Frame | None

    def read(self, value: Value) -> Any:
        frame: _Frame | None = self
        while frame is not None:
            if value in frame.values:
                return frame.values[value]
            frame = frame.outer
        if value.const is None:
            raise GraphError(f"value {value.name!r} is read before it is made")
        return value.const


@dataclass
class _Evaluation:
    watch: Watch | None = None
    plans: dict[Graph, _Plan] = field(default_factory=dict)

    def run(self, plan: _Plan, inputs: dict[Value, Any], outer: _Frame | None) -> list[Any]:
        frame = _Frame(inputs, outer)
        run_body = self.body_runner(frame)
        for node, forget in zip(plan.nodes, plan.forget):
            arrays = [None if v is None else frame.read(v) for v in node.inputs]
            begin = time.perf_counter_ns()
            results = evaluate_node(node, arrays, run_body)
            if self.watch is not None:
                self.watch(node, begin, time.perf_counter_ns())
            frame.values.update(zip(node.outputs, results))
            for value in forget:
                frame.values.pop(value, None)
        return [frame.read(v) for v in plan.fetches]

    def body_runner(self, outer: _Frame | None) -> Run:
        """What evaluates a body that reads values of `outer`."""

        def run(body: Graph, inputs: Sequence[Any]) -> list[Any]:
            if body not in self.plans:
                self.plans[body] = _Plan(body, body.outputs)
            return self.run(self.plans[body], dict(zip(body.inputs, inputs)), outer)

        return run
