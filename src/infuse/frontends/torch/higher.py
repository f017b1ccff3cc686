"""Control flow of exported programs: operators whose arguments are graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from infuse.frontends.torch.calls import TorchImporter
from infuse.ir.graph import Value

Arguments = Sequence[Mapping[str, Any]]


class Scope(Protocol):
    """The values of one graph of a program, by name (`reader.Scope`)."""

    g: TorchImporter
    proto: Mapping[str, Any]

    def argument(self, argument: Mapping[str, Any]) -> Any:
        """What an argument stands for."""

    def inner(self, argument: Mapping[str, Any], name: str, operands: Sequence[Any]) -> Scope:
        """The scope of a graph that is an argument, with these operands."""

    def run(self) -> None:
        """Make the nodes of all calls."""


HIGHER: Final[dict[str, Callable[[Scope, Arguments], Any]]] = {}
"""By target: what builds a call in a scope."""


def higher_order(name: str) -> Callable[[Any], Any]:
    """Register what builds the calls of this operator."""

    def register(build: Callable[[Scope, Arguments], Any]) -> Callable[[Scope, Arguments], Any]:
        HIGHER[f"higher_order.{name}"] = build
        return build

    return register


@higher_order("cond")
def cond(scope: Scope, arguments: Arguments) -> list[Value]:
    """`cond(predicate, true_graph, false_graph, operands)`."""
    predicate, positive, negative, operands = arguments
    values = scope.argument(operands)
    bodies = {}
    for name, graph in (("then_branch", positive), ("else_branch", negative)):
        inner = scope.inner(graph, name, values)
        inner.run()
        for number, output in enumerate(inner.proto["outputs"]):
            value = inner.g("Identity", inner.g.tensor(inner.argument(output)))
            inner.g.output(f"output_{number}", value)
        bodies[name] = inner.g
    count = len(bodies["then_branch"].graph.outputs)
    condition = scope.g.tensor(scope.argument(predicate))
    return scope.g.control(count, "If", condition, bodies=bodies)
