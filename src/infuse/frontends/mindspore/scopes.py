"""Graphs of MindIR as they are called: values of nodes, branches, and loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from infuse.budgets import check_time, spend
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.mindspore.calls import TABLE, MindCall
from infuse.frontends.mindspore.items import (
    MONAD,
    Again,
    Choice,
    Closure,
    Item,
    describe,
    leaves,
    rebuilt,
    structure,
    tensor,
)
from infuse.frontends.mindspore.model import FIRST_ONLY, GraphOf, MindModel, MindNode
from infuse.frontends.mindspore.tensors import metas_of
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import Meta, TorchImporter
from infuse.tracing.importer import Importer
from infuse.tracing.items import flat
from infuse.tracing.loops import branch, repeat, truth

_DEEPEST: Final = 60
"""How deep calls of graphs may be inside each other."""
CONTROL: Final = frozenset(["Partial", "Switch", "UpdateState", *FIRST_ONLY])
"""Primitives that are built here."""


class MindRun:
    """What all frames of a model share."""

    def __init__(self, model: MindModel) -> None:
        self.model = model
        self.calls = 0


class Frame:
    """One call of a graph: its nodes are built when their results are needed. `loops` are the
    graphs whose next rounds are left to loops around.
    """

    def __init__(
        self,
        run: MindRun,
        g: TorchImporter,
        graph: GraphOf,
        items: Sequence[Item],
        parent: Frame | None = None,
        loops: tuple[str, ...] = (),
        depth: int = 0,
    ) -> None:
        if depth > _DEEPEST:
            raise ModelFileError(f"calls of graphs are nested more than {_DEEPEST} deep")
        run.calls += 1
        check_time("reading the model")
        spend("nodes", run.calls, "the model calls its graphs in")
        if len(items) != len(graph.inputs):
            raise ModelFileError(
                f"the graph {graph.name!r} has {len(graph.inputs)} inputs, and gets {len(items)}"
            )
        self.run, self.g, self.graph, self.parent = run, g, graph, parent
        self.loops, self.depth = loops, depth
        self._items: dict[str, Item] = dict(zip((i.name for i in graph.inputs), items))

    def result(self) -> Item:
        """What the graph makes."""
        return self.item(self.graph.output)

    # -- items by name -----------------------------------------------------------------------------

    def item(self, name: str) -> Item:
        """What a name stands for; the nodes that it needs are built first."""
        if name in self._items:
            return self._items[name]
        if name not in self.graph.nodes:
            return self._outside(name)
        pending: list[tuple[str, bool]] = [(name, False)]
        begun: set[str] = set()
        while pending:
            current, ready = pending.pop()
            if current in self._items or current not in self.graph.nodes:
                continue
            node = self.graph.nodes[current]
            if ready:
                self._items[current] = self._build(node)
                continue
            if current in begun:
                raise ModelFileError(f"the node {current!r} needs its own result")
            begun.add(current)
            pending.append((current, True))
            pending += ((operand, False) for operand in reversed(node.operands))
        return self._items[name]

    def _outside(self, name: str) -> Item:
        model = self.run.model
        if model.has(name):
            return model.named(name)
        if name in model.graphs:
            return Closure(name, (), self)
        frame = self.parent
        if frame is None:
            raise ModelFileError(f"there is no node {name!r}")
        return frame.item(name)

    def _build(self, node: MindNode) -> Item:
        with self.g.scope(*node.scope.split("/")[1:]):
            if not node.primitive:
                items = [self.item(name) for name in node.inputs]
                return self.call(self.item(node.callee), items)
            if node.primitive == "UpdateState":
                return MONAD
            if node.primitive in FIRST_ONLY:
                return self.item(node.inputs[0])
            items = [self.item(name) for name in node.inputs]
            if node.primitive == "Partial":
                return _partial(items)
            if node.primitive == "Switch":
                return self._switch(items)
            return self._apply(node, items)

    def _apply(self, node: MindNode, items: list[Item]) -> Item:
        if node.shape is None:
            raise ModelFileError(f"the file does not say of what type {node.name!r} is")
        metas = metas_of(node.shape)
        self.g.results = [meta for meta in metas if meta is not None]
        call = MindCall(self.g, node.primitive, items, node.attributes(self.run.model.files))
        with self.g.scope(node.primitive):
            result = TABLE[node.primitive](call)
            call.check_used()
            if metas and not isinstance(result, (list, tuple)):
                return self._checked(result, metas[0])
            if isinstance(result, (list, tuple)) and len(metas) == len(result):
                pairs = zip(result, metas)
                return [self._checked(part, meta) for part, meta in pairs]
            return result

    def _checked(self, item: Item, meta: Meta | None) -> Item:
        """A result, of the type that the file says."""
        if not isinstance(item, Value) or meta is None:
            return item
        if item.dtype != meta.dtype:
            if item.dtype.is_integer and meta.dtype.is_integer:
                item = self.g.cast(item, meta.dtype)
            else:
                raise UnsupportedOperatorError(
                    f"its result is {item.dtype} here, and {meta.dtype} in the file"
                )
        sizes = item.tensor.shape
        if sizes is not None and not _fits(sizes, meta.sizes):
            raise UnsupportedOperatorError(
                f"its result has the sizes {list(sizes)} here, and {list(meta.sizes)} in the file"
            )
        return item

    # -- functions ---------------------------------------------------------------------------------

    def call(self, function: Item, items: Sequence[Item]) -> Item:
        """What a function makes of these items."""
        if isinstance(function, Choice):
            return self._branch(function, items)
        if not isinstance(function, Closure):
            raise ModelFileError(f"{describe(function)} is called")
        items = [*function.items, *items]
        name, model = function.graph, self.run.model
        if name not in model.graphs:
            raise ModelFileError(f"there is no graph {name!r}")
        if name in self.loops:
            return Again(name, tuple(items))
        if model.reaches(name, name, self.loops):
            return self._loop(name, items, function.frame)
        return self._frame(self.g, name, items, function.frame, self.loops).result()

    def _frame(
        self,
        g: TorchImporter,
        name: str,
        items: Sequence[Item],
        parent: Frame | None,
        loops: tuple[str, ...],
    ) -> Frame:
        graph = self.run.model.graphs[name]
        return Frame(self.run, g, graph, items, parent or self, loops, self.depth + 1)

    def _within(self, g: TorchImporter) -> Frame:
        """This frame, with another importer."""
        frame = Frame(self.run, g, self.graph, [None] * len(self.graph.inputs))
        frame._items = dict(self._items)
        frame.parent, frame.loops, frame.depth = self.parent, self.loops, self.depth + 1
        return frame

    def _switch(self, items: list[Item]) -> Item:
        if len(items) != 3:
            raise ModelFileError(f"a Switch has {len(items)} operands, not three")
        condition, holds, fails = items
        if isinstance(holds, Closure) and isinstance(fails, Closure):
            return Choice(condition, holds, fails)
        if isinstance(holds, (Closure, Choice)) or isinstance(fails, (Closure, Choice)):
            raise UnsupportedOperatorError("a choice between a function and a choice")
        if structure(holds) != structure(fails):
            raise ModelFileError("what a Switch chooses from are items of different kinds")
        g = self.g
        pairs = zip(leaves(g, [holds]), leaves(g, [fails]))
        chosen = [g("Where", truth(g, tensor(g, condition)), a, b) for a, b in pairs]
        return rebuilt([holds], chosen)[0]

    def _branch(self, choice: Choice, items: Sequence[Item]) -> Item:
        condition = choice.condition
        if isinstance(condition, (bool, int)):
            return self.call(choice.holds if condition else choice.fails, items)
        made: list[Item] = []

        def body(closure: Closure) -> Any:
            def build(inner: Importer, _: list[Any]) -> list[Any]:
                assert isinstance(inner, TorchImporter)
                made.append(self._within(inner).call(closure, items))
                if len(made) == 2 and structure(made[0]) != structure(made[1]):
                    raise _left(made)
                return list(leaves(inner, made[-1:]))

            return build

        g = self.g
        holds = truth(g, tensor(g, condition))
        values = branch(g, holds, body(choice.holds), body(choice.fails), [])
        return rebuilt(made[:1], flat(values))[0]

    # -- loops -------------------------------------------------------------------------------------

    def _loop(self, name: str, items: Sequence[Item], parent: Frame | None) -> Item:
        """What a graph makes that calls itself at its end: a loop, and what comes behind it."""
        loops = (*self.loops, name)

        def frame(g: Importer, values: list[Any]) -> Frame:
            assert isinstance(g, TorchImporter)
            return self._frame(g, name, rebuilt(items, flat(values)), parent, loops)

        def condition(g: Importer, values: list[Any]) -> list[Any]:
            round = frame(g, values)
            choice, _ = round._sides(name)
            going = truth(g, tensor(round.g, choice.condition))
            return [going if _continues(self.run.model, choice, name, loops) else g("Not", going)]

        def body(g: Importer, values: list[Any]) -> list[Any]:
            round = frame(g, values)
            choice, more = round._sides(name)
            again = round.call(_side(self.run.model, choice, name, loops, True), more)
            if not isinstance(again, Again) or again.graph != name:
                raise _left([again])
            if structure(again.items) != structure(tuple(items)):
                raise UnsupportedOperatorError("a loop whose state changes its kind")
            return list(leaves(round.g, again.items))

        final = repeat(self.g, list(leaves(self.g, items)), condition, body)
        last = self._frame(self.g, name, rebuilt(items, flat(final)), parent, loops)
        choice, more = last._sides(name)
        last.loops = self.loops
        return last.call(_side(self.run.model, choice, name, loops, False), more)

    def _sides(self, name: str) -> tuple[Choice, list[Item]]:
        """The choice that ends a graph which is a loop, and the arguments of what is chosen."""
        output = self.graph.output
        node = self.graph.nodes.get(output)
        while node is not None and node.primitive in FIRST_ONLY:
            node = self.graph.nodes.get(node.inputs[0])
        if node is None or not node.callee or node.callee in self.run.model.graphs:
            raise UnsupportedOperatorError(f"the recursive function {name!r}, which is not a loop,")
        choice = self.item(node.callee)
        if not isinstance(choice, Choice):
            raise UnsupportedOperatorError(f"the recursive function {name!r}, which is not a loop,")
        return choice, [self.item(operand) for operand in node.inputs]


def _fits(sizes: Sequence[Dim], said: Sequence[int | None]) -> bool:
    """Whether sizes are those that the file says, where both are numbers. Numbers that are no
    tensors are written as if they had one axis without elements; -2 stands for any sizes.
    """
    if not sizes or (None in said[:1] and len(said) != len(sizes)):
        return True
    return len(sizes) == len(said) and all(
        not isinstance(a, int) or b is None or a == b for a, b in zip(sizes, said)
    )


def _partial(items: list[Item]) -> Item:
    if not items or not isinstance(items[0], Closure):
        raise UnsupportedOperatorError("a Partial of what is not a graph")
    first = items[0]
    return Closure(first.graph, (*first.items, *items[1:]), first.frame)


def _continues(model: MindModel, choice: Choice, name: str, loops: tuple[str, ...]) -> bool:
    """Whether a loop goes on where the condition of the choice holds."""
    sides = [
        closure.graph == name or model.reaches(closure.graph, name, loops)
        for closure in (choice.holds, choice.fails)
    ]
    if all(sides) or not any(sides):
        raise UnsupportedOperatorError(f"the recursive function {name!r}, which is not a loop,")
    return sides[0]


def _side(
    model: MindModel, choice: Choice, name: str, loops: tuple[str, ...], going: bool
) -> Closure:
    return choice.holds if _continues(model, choice, name, loops) == going else choice.fails


def _left(items: Sequence[Item]) -> UnsupportedOperatorError:
    if any(isinstance(item, Again) for item in items):
        return UnsupportedOperatorError(
            "a loop that is left in the middle (break or return) is not supported",
            hint="let the condition of the loop say when it ends",
        )
    return UnsupportedOperatorError("branches whose results are of different kinds")
