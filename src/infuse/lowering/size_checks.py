"""What a program checks of the sizes that its nodes rely on."""

from __future__ import annotations

from collections.abc import Iterable

from infuse.ir.graph import Node
from infuse.ir.relations import Relation
from infuse.lowering.expressions import Expression, Invocation, Operation, Size
from infuse.lowering.program import Program
from infuse.lowering.writer import FunctionWriter


class SizeChecks:
    """Adds checks to a program, each once."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._checked: set[Relation] = set()

    def add_all(self, relied: Iterable[tuple[Node, Relation]]) -> list[tuple[Node, Relation]]:
        """Checks of those relations whose sizes are known by now; the others."""
        return [(node, relation) for node, relation in relied if self.add(node, [relation])]

    def add(self, node: Node, relied: Iterable[Relation]) -> list[Relation]:
        """Checks, before the run or now, of those relations whose sizes are known; the others."""
        later = []
        for relation in relied:
            if relation in self._checked:
                continue
            if relation.symbols <= self._program.available_sizes:
                self.require(node, relation)
                self._checked.add(relation)
            else:
                later.append(relation)
        return later

    def require(self, node: Node, relation: Relation) -> None:
        """A check of what a node needs of two sizes: before the run if they follow from those of
        the inputs, else where the node stands.
        """
        text = f"{node.kind} node {node.name!r} needs {relation}"
        if relation.symbols <= set(self._program.symbols):
            condition = _condition(relation, Size(relation.a), Size(relation.b))
            self._program.checks.append((condition, text))
        else:
            f = FunctionWriter(self._program, "check", [node])
            condition = _condition(relation, f.number(relation.a), f.number(relation.b))
            f.fail_unless(condition, "DIFFERENT_SIZES")
            f.finish(text)


def _condition(relation: Relation, a: Expression, b: Expression) -> Expression:
    """What has to hold of two sizes that are in a relation."""
    if relation.kind == "~":
        return Invocation("do_broadcast", (a, b))
    return Operation(relation.kind, (a, b))
