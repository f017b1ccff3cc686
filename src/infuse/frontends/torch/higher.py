"""Control flow of exported programs: operators whose arguments are graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.tracing.aten.calls import TorchImporter

Arguments = Sequence[Mapping[str, Any]]


class ExportScope(Protocol):
    """The values of one graph of a program, by name (the reader's)."""

    g: TorchImporter
    proto: Mapping[str, Any]

    def argument(self, argument: Mapping[str, Any]) -> Any:
        """What an argument stands for."""

    def inner(self, argument: Mapping[str, Any], name: str, operands: Sequence[Any]) -> ExportScope:
        """The scope of a graph that is an argument, with these operands."""

    def run(self) -> None:
        """Make the nodes of all calls."""


HIGHER: Final[dict[str, Callable[[ExportScope, Arguments], Any]]] = {}
"""By target: what builds a call in a scope."""


def higher_order(name: str) -> Callable[[Any], Any]:
    """Register what builds the calls of this operator."""

    def register(
        build: Callable[[ExportScope, Arguments], Any],
    ) -> Callable[[ExportScope, Arguments], Any]:
        HIGHER[f"higher_order.{name}"] = build
        return build

    return register


def _outputs(inner: ExportScope) -> None:
    """Let the results of a graph be outputs of its body."""
    for number, output in enumerate(inner.proto["outputs"]):
        value = inner.g.tensor(inner.argument(output))
        inner.g.output(f"output_{number}", inner.g("Identity", value))


@higher_order("cond")
def cond(scope: ExportScope, arguments: Arguments) -> list[Value]:
    """`cond(predicate, true_graph, false_graph, operands)`."""
    predicate, positive, negative, operands = arguments
    values = scope.argument(operands)
    bodies = {}
    for name, graph in (("then_branch", positive), ("else_branch", negative)):
        inner = scope.inner(graph, name, values)
        inner.run()
        _outputs(inner)
        bodies[name] = inner.g
    count = len(bodies["then_branch"].graph.outputs)
    condition = scope.argument(predicate)
    if not isinstance(condition, Value):
        condition = scope.g.number(bool(condition), dtypes.bool_)
    return scope.g.control(count, "If", scope.g.shaped(condition), bodies=bodies)


@higher_order("while_loop")
def while_loop(scope: ExportScope, arguments: Arguments) -> list[Value]:
    """`while_loop(condition_graph, body_graph, carried, others)`."""
    condition, body, carried, others = arguments
    more = scope.argument(others)
    start = [
        value if isinstance(value, Value) else scope.g.number(value, dtypes.int64)
        for value in _values(scope, carried)
    ]
    first = scope.inner(condition, "condition", [*start, *more])
    first.g = scope.g
    first.run()
    (going,) = (first.argument(output) for output in first.proto["outputs"])
    loop = scope.g.body("body")
    loop.input("iteration", dtypes.int64, [])
    loop.input("going", dtypes.bool_, [])
    state = [loop.typed_input(f"state_{i}", value.type) for i, value in enumerate(start)]
    step = scope.inner(body, "body", [*state, *more])
    step.g = loop
    step.run()
    after = [loop.tensor(step.argument(output)) for output in step.proto["outputs"]]
    again = scope.inner(condition, "condition", [*after, *more])
    again.g = loop
    again.run()
    (further,) = (again.argument(output) for output in again.proto["outputs"])
    loop.output("going_on", loop("Identity", loop.shaped(further)))
    for number, value in enumerate(after):
        loop.output(f"output_{number}", loop("Identity", value))
    return scope.g.control(
        len(start), "Loop", None, scope.g.shaped(going), *start, bodies={"body": loop}
    )


def _values(scope: ExportScope, argument: Mapping[str, Any]) -> list[Any]:
    return list(scope.argument(argument))


def _scanned(
    scope: ExportScope,
    graph: Any,
    state: Sequence[Value],
    rows: Sequence[Value],
    more: Sequence[Any],
) -> list[Value]:
    """A Scan over the first axis of `rows`."""
    loop = scope.g.body("body")
    inputs = [loop.typed_input(f"state_{i}", value.type) for i, value in enumerate(state)]
    for number, row in enumerate(rows):
        inputs.append(loop.typed_input(f"row_{number}", TensorType(row.dtype, row.shape[1:])))
    step = scope.inner(graph, "body", [*inputs, *more])
    step.g = loop
    step.run()
    results = [loop.tensor(step.argument(output)) for output in step.proto["outputs"]]
    for number, value in enumerate(results):
        loop.output(f"output_{number}", loop("Identity", value))
    return scope.g.control(
        len(results), "Scan", *state, *rows, bodies={"body": loop}, num_scan_inputs=len(rows)
    )


@higher_order("scan")
def scan(scope: ExportScope, arguments: Arguments) -> list[Value]:
    """`scan(body_graph, carried, scanned, others)`, over the first axis."""
    graph, state, rows, others = arguments
    return _scanned(scope, graph, *(_values(scope, a) for a in (state, rows, others)))


@higher_order("map_impl")
def map_(scope: ExportScope, arguments: Arguments) -> list[Value]:
    """`map_impl(body_graph, mapped, others)`, over the first axis."""
    graph, rows, others = arguments
    return _scanned(scope, graph, [], *(_values(scope, a) for a in (rows, others)))
