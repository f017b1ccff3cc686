"""A program of Paddle → graph: inputs and outputs by name, parameters, operators in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import infuse.frontends.paddle.operators  # noqa: F401  registers the operators
from infuse.errors import InfuseError, ModelFileError, UnsupportedOperatorError
from infuse.frontends.paddle.calls import TABLE, Item, PaddleCall
from infuse.frontends.paddle.names import NEW
from infuse.frontends.paddle.program import (
    PaddleOperator,
    PaddleRegion,
    Program,
    Reference,
    all_operators,
)
from infuse.ir.graph import Graph, Value
from infuse.tracing.importer import Importer, free_name, require_all
from infuse.tracing.layout import LayoutImporter, tidy

_DEEPEST = 50
"""Regions inside each other."""


class PaddleReader:
    """Reads a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.g = LayoutImporter("model")
        self._scope = PaddleScope(self.g, {}, program)

    def graph(self) -> Graph:
        """The graph; UnsupportedOperatorError names all operators that are not known."""
        require_all(
            ((op.name, f"operator {op.number}") for op in all_operators(self.program.region)),
            TABLE,
            "the model",
            "export the model with other operators, or report the operator",
        )
        values = self._scope.values
        for entry in self.program.inputs:
            sizes: list[Any] = [None if size < 0 else size for size in entry.shape]
            if sizes and sizes[0] is None:
                sizes[0] = "batch"
            values[entry.reference] = self.g.input(entry.name, entry.dtype, sizes)
        self._scope.run(self.program.region)
        for name, reference in self.program.results:
            names = {*self.g.graph.output_names, *(v.name for v in self.g.graph.inputs)}
            self.g.output(free_name(name, names), self._scope.value(reference))
        tidy(self.g.graph)
        return self.g.graph


def _in_order(operator: PaddleOperator) -> list[tuple[str, list[Reference]]]:
    """All results of an operator by the order of its signature."""
    signature = NEW.get(operator.name)
    if signature is None:
        return list(operator.results.items())
    return [(name, operator.results.get(name, [])) for name in signature.results]


class PaddleScope:
    """What references stand for while a region is built."""

    def __init__(
        self, g: Importer, values: dict[Reference, Item], program: Program, depth: int = 0
    ) -> None:
        self.g, self.values, self.program, self.depth = g, values, program, depth
        self._own: set[Reference] = set()
        self._postponed: dict[Reference, PaddleRegion] = {}
        self._operators: list[PaddleOperator] = []
        self._done: set[int] = set()

    def run(self, region: PaddleRegion) -> None:
        """Make the nodes of all operators."""
        self._operators = region.operators
        self._own |= set(region.arguments)
        for operator in region.operators:
            if operator.number in self._done:
                continue
            with self.g.scope(*operator.path, source=f"operator {operator.number}"):
                try:
                    self._call(operator)
                except InfuseError as error:
                    error.within(operator.name)
                    raise

    def _call(self, operator: PaddleOperator) -> None:
        call = PaddleCall(self, operator)
        made = TABLE[operator.name](call)
        call.check()
        for references, item in zip(
            _in_order(operator), made if isinstance(made, tuple) else (made,)
        ):
            self._set(operator, *references, item)
        self._replace(operator)

    def _replace(self, operator: PaddleOperator) -> None:
        """Let what reads the operand that was written in place see the result."""
        operand = operator.replaced
        if operand is None:
            return
        result = _in_order(operator)[0][1][0]
        if self.depth and operand not in self._own:
            raise UnsupportedOperatorError("writing in place what is outside is not supported")
        self.values[operand] = self.values[result]

    def _set(
        self, operator: PaddleOperator, name: str, references: list[Reference], item: Item | None
    ) -> None:
        if item is None or not references:
            return
        if name in operator.listed or isinstance(item, Value):
            items: Sequence[Item] = [item]
        else:
            items = item
        if len(items) != len(references):
            raise ModelFileError(f"it has {len(references)} {name}, and makes {len(items)}")
        self.values.update(zip(references, items))
        self._own |= set(references)

    # -- what calls ask for ------------------------------------------------------------------------

    def item(self, reference: Reference) -> Item:
        """What a reference stands for: a tensor, a list of them, or a parameter."""
        item = self.values.get(reference)
        if item is None:
            if reference not in self.program.parameters:
                raise ModelFileError(f"it reads {reference!r}, which no operator makes")
            name, elements = self.program.parameters[reference]
            item = self.values[reference] = self.g.constant(elements, name)
        return item

    def defined(self, reference: Reference) -> bool:
        """Whether a reference stands for something."""
        return reference in self.values or reference in self.program.parameters

    def value(self, reference: Reference) -> Value:
        """The tensor that a reference stands for."""
        item = self.item(reference)
        if not isinstance(item, Value):
            raise ModelFileError(f"{reference!r} is a list of tensors, not one")
        return item

    def inner(
        self, g: Importer, region: PaddleRegion, values: Mapping[Reference, Item]
    ) -> Callable[[Sequence[Reference]], list[Value]]:
        """Builds a region with an importer; the answer looks up what its references stand for."""
        if self.depth >= _DEEPEST:
            raise ModelFileError(f"more than {_DEEPEST} regions are inside each other")
        scope = PaddleScope(g, {**self.values, **values}, self.program, self.depth + 1)
        scope.run(region)
        return lambda references: [scope.value(reference) for reference in references]

    def update(self, values: Mapping[Reference, Value]) -> None:
        """Let references stand for tensors from here on."""
        self.values.update(values)

    def postpone(self, region: PaddleRegion, results: Sequence[Reference]) -> None:
        """Let these be results of a region that is built where they are chosen."""
        self._postponed.update(dict.fromkeys(results, region))

    def resumed(self, g: Importer, references: Sequence[Reference]) -> list[Value]:
        """What references stand for, with the postponed regions that make them built by this
        importer.
        """
        values: dict[Reference, Value] = {}
        regions = {self._postponed[r] for r in references if r in self._postponed}
        for region in regions:
            names = [r for r in references if self._postponed.get(r) is region]
            values.update(zip(names, self.inner(g, region, {})(names)))
        return [values[r] if r in values else self.value(r) for r in references]

    def together(self, operator: PaddleOperator) -> list[PaddleOperator]:
        """An operator, and those like it behind it that choose by the same mask."""
        group = []
        for other in self._operators[self._operators.index(operator) :]:
            if (other.name, other.operands.get("Mask")) != (
                operator.name,
                operator.operands["Mask"],
            ):
                break
            group.append(other)
        self._done |= {other.number for other in group}
        return group
