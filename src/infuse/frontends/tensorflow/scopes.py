"""The results of nodes of a graph or function, each built when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from infuse.errors import InfuseError, ModelFileError, UnsupportedOperatorError
from infuse.frontends.tensorflow.calls import TABLE, FlowCall
from infuse.frontends.tensorflow.regions import FlowModel, FlowNode, FlowRegion, Ref
from infuse.ir.graph import Array
from infuse.tracing.importer import Importer
from infuse.tracing.items import Item, Table, Variable

_DEEPEST: Final = 40
"""Functions and bodies inside each other."""


class FlowReader(Protocol):
    """What all scopes of a model share (`reader.Reader`)."""

    model: FlowModel
    restoring: bool

    def variable(self, name: str) -> Variable:
        """The variable of this name."""

    def restored(self, name: str) -> Array:
        """The elements of a tensor of the checkpoint."""

    def table(self, name: str) -> Table:
        """The table of this name."""

    def asset(self, name: str) -> memoryview:
        """The content of a file that the model brings."""


class FlowScope:
    """The results of one graph while it is built. `results` holds those of arguments at first."""

    flow: dict[str, Callable[[FlowScope, FlowNode], Any]] = {}
    """Builders of the nodes of control flow, which decide by themselves what they need."""

    def __init__(
        self,
        reader: FlowReader,
        g: Importer,
        region: FlowRegion,
        results: Mapping[str, list[Item]],
        depth: int = 0,
    ) -> None:
        if depth > _DEEPEST:
            raise ModelFileError(f"more than {_DEEPEST} functions are inside each other")
        self.reader, self.g, self.region, self.depth = reader, g, region, depth
        self.results: dict[str, list[Item]] = dict(results)

    @property
    def model(self) -> FlowModel:
        """The model, with its functions."""
        return self.reader.model

    def variable(self, name: str) -> Variable:
        """The variable of this name."""
        return self.reader.variable(name)

    def restored(self, name: str) -> Array:
        """The elements of a tensor of the checkpoint."""
        return self.reader.restored(name)

    @property
    def restoring(self) -> bool:
        """Whether what is built gives variables and tables what they hold."""
        return self.reader.restoring

    def table(self, name: str) -> Table:
        """The table of this name."""
        return self.reader.table(name)

    def asset(self, name: str) -> memoryview:
        """The content of a file that the model brings."""
        return self.reader.asset(name)

    def inner(self, g: Importer, results: Mapping[str, list[Item]]) -> FlowScope:
        """A scope of the same graph for a body of control flow, with these results."""
        return type(self)(self.reader, g, self.region, results, self.depth + 1)

    # -- results by name ---------------------------------------------------------------------------

    def get(self, ref: Ref) -> Item:
        """A result, built now if it is not there."""
        self.run([ref.node])
        return self.listed(ref)

    def listed(self, ref: Ref) -> Item:
        """A result of a node that has been built."""
        items = self.results[ref.node]
        if ref.place >= len(items):
            raise ModelFileError(f"{ref.node!r} has {len(items)} results, not {ref.place + 1}")
        return items[ref.place]

    def run(self, names: Iterable[str]) -> None:
        """Build nodes, and first what they need."""
        stack, expanded = [*names], set()
        stack.reverse()
        while stack:
            name = stack[-1]
            if name in self.results:
                stack.pop()
                continue
            node = self.region.node(name)
            missing = [other for other in self.needs(node) if other not in self.results]
            if not missing:
                self.results[name] = self._built(node)
                stack.pop()
            elif name in expanded:
                raise ModelFileError(f"{name!r} needs its own result")
            else:
                expanded.add(name)
                stack.extend(reversed(missing))

    def needs(self, node: FlowNode) -> list[str]:
        """Nodes that are built before a node."""
        if node.op in self.flow:
            return []
        before = [ref.node for ref in node.inputs]
        return [*before, *node.controls] if self.reader.restoring else before

    def _built(self, node: FlowNode) -> list[Item]:
        with self.g.scope(*filter(None, node.name.split("/"))):
            try:
                made = self._made(node)
            except InfuseError as error:
                error.within(node.op)
                raise
        return list(made) if isinstance(made, (list, tuple)) else [made]

    def _made(self, node: FlowNode) -> Any:
        if node.op in self.flow:
            return self.flow[node.op](self, node)
        items = [self.listed(ref) for ref in node.inputs]
        if node.op in self.model.functions:
            return self.function(self.g, node.op, items)
        handler = TABLE.get(node.op)
        if handler is None:
            raise UnsupportedOperatorError(f"the operator {node.op} is not known")
        return handler(FlowCall(self, node, items))

    # -- functions ---------------------------------------------------------------------------------

    def function(self, g: Importer, name: str, items: list[Item]) -> list[Item]:
        """The results of a function, built by this importer."""
        region = self.model.function(name)
        if len(region.arguments) != len(items):
            raise ModelFileError(
                f"the function {name!r} has {len(region.arguments)} arguments, and gets "
                f"{len(items)}"
            )
        bound = {argument: [item] for argument, item in zip(region.arguments, items)}
        scope = type(self)(self.reader, g, region, bound, self.depth + 1)
        scope.run(ref.node for ref in region.results)
        scope.run(region.effects)
        return [scope.listed(ref) for ref in region.results]
