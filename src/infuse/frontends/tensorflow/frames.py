"""Control flow of TensorFlow 1: values that are dead in one branch, and frames of loops.

A `Merge` gives whichever of its operands is alive, a `Switch` lets one of its results live. A loop
is a frame: `Enter` brings values in, `Merge` takes them or those of `NextIteration`, `Switch` sends
them on around or to `Exit`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.tensorflow.regions import FlowNode, FlowRegion, Ref
from infuse.frontends.tensorflow.scopes import FlowScope
from infuse.ir.graph import Value
from infuse.tracing.importer import Importer
from infuse.tracing.items import Item, Variable
from infuse.tracing.loops import branch, repeat, truth

Side = tuple[Ref, int]
"""A predicate, and which result of its switches is alive."""
_SWITCHES: Final = ("Switch", "RefSwitch")
_MERGES: Final = ("Merge", "RefMerge")
_SAME: Final = ("Identity", "RefIdentity", "StopGradient", "LoopCond", "Enter", "RefEnter")


def origin(region: FlowRegion, ref: Ref) -> Ref:
    """What a reference stands for, past nodes that change nothing."""
    for _ in range(len(region.nodes)):
        node = region.nodes.get(ref.node)
        if node is None or node.op not in _SAME[:3] or len(node.inputs) != 1:
            break
        ref = node.inputs[0]
    return ref


class Sides:
    """On which sides of switches the nodes of a graph are alive."""

    def __init__(self, region: FlowRegion) -> None:
        self._region = region
        self._sides: dict[str, frozenset[Side]] = {}

    def of(self, name: str) -> frozenset[Side]:
        """The sides that a node needs."""
        stack = [name]
        waiting: set[str] = set()
        while stack:
            name = stack[-1]
            if name in self._sides:
                stack.pop()
                continue
            node = self._region.nodes.get(name)
            before = [] if node is None else self._before(node)
            missing = [other for other in before if other not in self._sides]
            if not missing or name in waiting:
                self._sides[name] = self._made(node)
                stack.pop()
            else:
                waiting.add(name)
                stack.extend(missing)
        return self._sides[name]

    def through(self, ref: Ref) -> frozenset[Side]:
        """The sides that a result needs."""
        node = self._region.nodes.get(ref.node)
        sides = self.of(ref.node)
        if node is not None and node.op in _SWITCHES and len(node.inputs) == 2:
            return sides | {(origin(self._region, node.inputs[1]), ref.place)}
        return sides

    def _before(self, node: FlowNode) -> list[str]:
        inputs = node.inputs[:1] if _loops(self._region, node) else node.inputs
        return [*(ref.node for ref in inputs), *node.controls]

    def _made(self, node: FlowNode | None) -> frozenset[Side]:
        if node is None:
            return frozenset()
        inputs = node.inputs[:1] if _loops(self._region, node) else node.inputs
        # A control edge from a switch has no side; its pivots are identities of one.
        sides = [self._known(ref) for ref in inputs]
        together = frozenset().union(*sides, *(self._known(Ref(n)) for n in node.controls))
        if node.op in _MERGES:
            both = {p for p, side in together if (p, 1 - side) in together}
            return frozenset(s for s in together if s[0] not in both)
        return together

    def _known(self, ref: Ref) -> frozenset[Side]:
        sides = self._sides.get(ref.node, frozenset())
        node = self._region.nodes.get(ref.node)
        if node is not None and node.op in _SWITCHES and len(node.inputs) == 2:
            return sides | {(origin(self._region, node.inputs[1]), ref.place)}
        return sides


def _loops(region: FlowRegion, node: FlowNode) -> bool:
    """Whether a node is the start of a round of a loop."""
    if node.op not in _MERGES or len(node.inputs) != 2:
        return False
    other = region.nodes.get(node.inputs[1].node)
    return other is not None and other.op in ("NextIteration", "RefNextIteration")


# -- branches --------------------------------------------------------------------------------------


class Frames(FlowScope):
    """A scope that knows control flow of TensorFlow 1. In a branch, `side` is alive, and what does
    not need it comes from `around`.
    """

    around: Frames | None = None
    side: Side | None = None
    _sides: Sides | None = None

    @property
    def sides(self) -> Sides:
        """On which sides nodes are alive."""
        if self._sides is None:
            self._sides = Sides(self.region)
        return self._sides

    def needs(self, node: FlowNode) -> list[str]:
        """Nodes that are built before a node; none of one that is not of this branch."""
        return [] if self._foreign(node) else super().needs(node)

    def _foreign(self, node: FlowNode) -> bool:
        if self.around is None or node.op in _SWITCHES:
            return False
        return self.side is not None and self.side not in self.sides.of(node.name)

    def _built(self, node: FlowNode) -> list[Item]:
        if self._foreign(node) and self.around is not None:
            self.around.run([node.name])
            return self.around.results[node.name]
        return super()._built(node)

    def branch(self, g: Importer, side: Side) -> Frames:
        """The scope of a branch in which a side is alive."""
        inner = Frames(self.reader, g, self.region, {}, self.depth + 1)
        inner.around, inner.side, inner._sides = self, side, self.sides
        return inner


def _switch(scope: FlowScope, node: FlowNode) -> list[Item]:
    assert isinstance(scope, Frames)
    data, predicate = _operands(node, 2)
    wanted = origin(scope.region, predicate)
    if scope.around is not None and scope.side is not None:
        if scope.side[0] == wanted:
            item = scope.around.get(data)
            return [item, item]
        if scope.side not in scope.sides.of(node.name):
            scope.around.run([node.name])
            return scope.around.results[node.name]
    value = scope.get(predicate)
    if isinstance(value, Value) and value.const is not None:
        item = scope.get(data)
        return [item, item]
    raise UnsupportedOperatorError("a value of one branch that is read outside of it")


def _operands(node: FlowNode, count: int) -> tuple[Ref, ...]:
    if len(node.inputs) < count:
        raise ModelFileError(f"it has {len(node.inputs)} operands, not {count}")
    return node.inputs


def _merge(scope: FlowScope, node: FlowNode) -> list[Item]:
    assert isinstance(scope, Frames)
    if len(node.inputs) != 2 or _loops(scope.region, node):
        raise UnsupportedOperatorError(f"a merge of {len(node.inputs)} values, or out of its loop,")
    sides = [scope.sides.through(ref) for ref in node.inputs]
    predicate, first = _deciding(*sides)
    refs = node.inputs if first else tuple(reversed(node.inputs))

    def built(side: int) -> object:
        def body(g: Importer, _: list[Item]) -> list[Item]:
            inner = scope.branch(g, (predicate, side))
            return [inner.get(refs[1 - side])]

        return body

    condition = truth(scope.g, scope.get(predicate))
    then, other = built(1), built(0)
    (result,) = branch(scope.g, condition, then, other, [])  # type: ignore[arg-type]
    number = scope.g.constant(np.array([0, 1] if first else [1, 0], np.int32))
    chosen = scope.g("Where", condition, *(scope.g("Gather", number, i) for i in _zero_one(scope)))
    return [result, chosen]


def _zero_one(scope: FlowScope) -> list[Value]:
    return [scope.g.constant(np.array(i, np.int64)) for i in (0, 1)]


def _deciding(a: frozenset[Side], b: frozenset[Side]) -> tuple[Ref, bool]:
    """The predicate that decides between two values, and whether it holds for the first."""
    pairs = [(p, bool(side)) for p, side in a if (p, 1 - side) in b]
    pairs = pairs or [(p, bool(side)) for p, side in a - b]
    pairs = pairs or [(p, not side) for p, side in b - a]
    if len(pairs) != 1:
        raise UnsupportedOperatorError(
            f"a merge of values between which {len(pairs)} switches decide is not supported"
        )
    return pairs[0]


# -- loops -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Frame:
    """A loop: what enters and stays, the merges of its states, its condition."""

    constant: tuple[FlowNode, ...]
    entries: tuple[FlowNode, ...]
    merges: tuple[FlowNode, ...]
    condition: FlowNode
    switches: tuple[FlowNode | None, ...]


def _frame(region: FlowRegion, name: bytes) -> _Frame:
    inside = [
        n
        for n in region.nodes.values()
        if n.op in ("Enter", "RefEnter") and n.attribute("frame_name") == name
    ]
    constant, entries, merges, switches = [], [], [], []
    condition: FlowNode | None = None
    for enter in inside:
        readers = [n for n in region.readers.get(enter.name, ()) if _loops(region, n)]
        if not readers:
            constant.append(enter)
            continue
        (merge,) = readers
        entries.append(enter)
        merges.append(merge)
        after = [n for n in region.readers.get(merge.name, ()) if n.op in _SWITCHES]
        after = [n for n in after if _condition(region, n) is not None]
        switches.append(after[0] if after else None)
        condition = condition or (_condition(region, after[0]) if after else None)
    if condition is None:
        raise ModelFileError(f"the loop {name.decode('utf-8', 'replace')!r} has no condition")
    return _Frame(tuple(constant), tuple(entries), tuple(merges), condition, tuple(switches))


def _condition(region: FlowRegion, switch: FlowNode) -> FlowNode | None:
    node = region.nodes.get(switch.inputs[1].node) if len(switch.inputs) == 2 else None
    return node if node is not None and node.op == "LoopCond" else None


def _exit(scope: FlowScope, node: FlowNode) -> list[Item]:
    switch = scope.region.node(_operands(node, 1)[0].node)
    merge = scope.region.node(_operands(switch, 2)[0].node)
    enter = scope.region.node(_operands(merge, 2)[0].node)
    name = enter.attribute("frame_name")
    if switch.op not in _SWITCHES or not _loops(scope.region, merge) or name is None:
        raise ModelFileError("it is not at the end of a loop")
    frame = _frame(scope.region, name)
    results = _looped(scope, frame)
    for switch_, item in zip(frame.switches, results):
        for reader in scope.region.readers.get(switch_.name, ()) if switch_ else ():
            if reader.op in ("Exit", "RefExit"):
                scope.results[reader.name] = [item]
    return scope.results[node.name]


def _looped(scope: FlowScope, frame: _Frame) -> list[Item]:
    start = [scope.get(_operands(enter, 1)[0]) for enter in frame.entries]
    constants = {enter.name: [scope.get(enter.inputs[0])] for enter in frame.constant}
    changing = [
        i
        for i, (merge, switch) in enumerate(zip(frame.merges, frame.switches))
        if not _unchanged(scope.region, merge, switch) and not isinstance(start[i], Variable)
    ]

    def bound(items: list[Item], merges_only: bool) -> dict[str, list[Item]]:
        whole = list(start)
        for place, item in zip(changing, items):
            whole[place] = item
        results = dict(constants)
        for merge, switch, item in zip(frame.merges, frame.switches, whole):
            results[merge.name] = [item, None]
            if switch is not None and not merges_only:
                results[switch.name] = [item, item]
        return results

    def condition(g: Importer, items: list[Item]) -> list[Item]:
        return [scope.inner(g, bound(items, True)).get(_operands(frame.condition, 1)[0])]

    def body(g: Importer, items: list[Item]) -> list[Item]:
        inner = scope.inner(g, bound(items, False))
        after = [scope.region.node(frame.merges[i].inputs[1].node) for i in changing]
        return [inner.get(_operands(node, 1)[0]) for node in after]

    results = repeat(scope.g, [start[i] for i in changing], condition, body)
    whole = list(start)
    for place, item in zip(changing, results):
        whole[place] = item
    return whole


def _unchanged(region: FlowRegion, merge: FlowNode, switch: FlowNode | None) -> bool:
    after = region.node(merge.inputs[1].node)
    return switch is not None and origin(region, _operands(after, 1)[0]) == Ref(switch.name, 1)


Frames.flow = {
    "Switch": _switch, "RefSwitch": _switch, "Merge": _merge, "RefMerge": _merge,
    "Exit": _exit, "RefExit": _exit,
}  # fmt: skip
