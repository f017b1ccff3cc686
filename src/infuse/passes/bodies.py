"""Bodies of control flow made smaller: what nobody needs goes, what never varies is neither carried
nor chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

import numpy as np

from infuse.ir.contents import known_ints
from infuse.ir.graph import Graph, Node, Use, Value, constant
from infuse.ir.types import TensorType
from infuse.ops.core.base import Op
from infuse.ops.shaping import Unsqueeze
from infuse.passes.hoist import control_nodes, is_inside
from infuse.passes.inline import inlined, known_truth, replace_outputs
from infuse.rewrite import Pass
from infuse.rewrite.node_ref import label
from infuse.rewrite.patch import Patch, redirect, remove_dead
from infuse.rewrite.record import Report, Rewrite
from infuse.rewrite.refine import Change, compare_types, reinfer


class InlineShortLoop(Pass):
    """Loop that runs exactly once → its body; Loop that never runs → what it was given."""

    level = "basic"
    rows = ("G1", "G24")

    def run(self, graph: Graph, report: Report) -> None:
        for node in control_nodes(graph, "Loop"):
            trips = _trips(node)
            if trips == 0:
                self._skip(node, report)
            elif trips == 1:
                self._once(node, report)

    def _skip(self, node: Node, report: Report) -> None:
        carried = [v for v in node.inputs[2:] if v is not None]
        empty = [_nothing(v) for v in node.outputs[len(carried) :]]
        results = [*carried, *(v for v in empty if v is not None)]
        if len(results) >= len(node.outputs):
            replace_outputs(self, node, results, [], report)

    def _once(self, node: Node, report: Report) -> None:
        assert node.graph is not None
        body = node.subgraphs["body"]
        initial = [
            constant(0),
            constant(np.array(True)),
            *(v for v in node.inputs[2:] if v is not None),
        ]
        created, outputs = inlined(body, node.graph, dict(zip(body.inputs, initial)))
        patch = Patch(node.graph, node.origin, node.name)
        count = len(initial) - 2
        rows = [
            patch.add(Unsqueeze(), [v, constant(np.array([0]))]).output
            for v in outputs[1 + count :]
        ]
        replace_outputs(
            self, node, [*outputs[1 : 1 + count], *rows], [*created, *patch.created], report
        )


class InlineEqualBranches(Pass):
    """If both of whose branches compute the same → that; each result that is the same in both is
    not chosen.
    """

    level = "basic"
    rows = ("G10", "G24")
    requires = ("EliminateCommonSubexpressions",)

    def run(self, graph: Graph, report: Report) -> None:
        for node in control_nodes(graph, "If"):
            then, other = node.subgraphs["then_branch"], node.subgraphs["else_branch"]
            key = body_key(then)
            if key is not None and key == body_key(other) and node.graph is not None:
                created, outputs = inlined(then, node.graph, {})
                replace_outputs(self, node, outputs, created, report)
            else:
                self._pass_by(node, then, other, report)

    def _pass_by(self, node: Node, then: Graph, other: Graph, report: Report) -> None:
        """Let readers of results that are one and the same outer value read that."""
        for result, a, b in zip(node.outputs, then.outputs, other.outputs):
            if (
                a is b
                and result.uses
                and compare_types(result.type, a.type) in (Change.SAME, Change.BETTER)
            ):
                readers = list(result.users())
                redirect(result, a)
                reinfer(readers)
                report.add(
                    Rewrite(
                        self.name,
                        (),
                        (),
                        self.level,
                        self.rows,
                        f"{result.name} is the same in both",
                    )
                )


class RemoveUnusedResults(Pass):
    """Results of If, Loop and Scan that nobody reads, and carried values that only carry
    themselves, are not made.
    """

    level = "basic"
    rows = ("G6", "G24")

    def run(self, graph: Graph, report: Report) -> None:
        for node in control_nodes(graph, "If", "Loop", "Scan"):
            if not any(v.uses for v in node.outputs):
                continue
            if node.kind == "If":
                self._branches(node, report)
            else:
                self._iterations(node, report)

    def _branches(self, node: Node, report: Report) -> None:
        gone = {i for i, v in enumerate(node.outputs) if not v.uses}
        if gone:
            dead = [n for body in node.subgraphs.values() for n in _without_outputs(body, gone)]
            self._shrink(node, gone, (), dead, report)

    def _iterations(self, node: Node, report: Report) -> None:
        body = node.subgraphs["body"]
        first_in, first_out, count = _carried(node)
        gone_states = {
            i
            for i in range(count)
            if _is_unread(node, i) and _feeds_itself(body, first_in + i, first_out + i)
        }
        rows = range(count, len(body.outputs) - 1) if node.kind == "Loop" else ()
        gone_rows = {i for i in rows if _is_unread(node, i)}
        gone = gone_states | gone_rows
        if not gone:
            return
        dead = _without_outputs(body, {first_out + i for i in gone})
        dead += remove_dead(
            [n for i in gone_states for n in list(body.inputs[first_in + i].users())]
        )
        inputs = {first_in + i for i in gone_states}
        body.inputs = [v for i, v in enumerate(body.inputs) if i not in inputs]
        self._shrink(node, gone, inputs, dead, report)

    def _shrink(
        self,
        node: Node,
        outputs: Collection[int],
        inputs: Collection[int],
        dead: Sequence[Node],
        report: Report,
    ) -> None:
        if inputs:
            node.set_inputs([v for i, v in enumerate(node.inputs) if i not in inputs])
        names = ", ".join(v.name for i, v in enumerate(node.outputs) if i in outputs)
        node.outputs = [v for i, v in enumerate(node.outputs) if i not in outputs]
        for index, value in enumerate(node.outputs):
            value.index = index
        report.add(
            Rewrite(self.name, label(dead), (), self.level, self.rows, f"nobody reads {names}")
        )


class PassInvariantsBy(Pass):
    """A carried value that no iteration of a Loop or Scan changes is read from outside."""

    level = "basic"
    rows = ("G24",)

    def run(self, graph: Graph, report: Report) -> None:
        for node in control_nodes(graph, "Loop", "Scan"):
            body = node.subgraphs["body"]
            first_in, first_out, count = _carried(node)
            for place in range(count):
                inside, outside = body.inputs[first_in + place], node.inputs[first_in + place]
                if body.outputs[first_out + place] is inside and outside is not None:
                    self._pass_by(node, inside, outside, place, report)

    def _pass_by(
        self, node: Node, inside: Value, outside: Value, place: int, report: Report
    ) -> None:
        result = node.outputs[place] if place < len(node.outputs) else None
        own = Use(node.subgraphs["body"], _carried(node)[1] + place)
        readers = [*inside.users(), *(result.users() if result is not None else ())]
        used = len(inside.uses) > 1 or (result is not None and bool(result.uses))
        if not used or compare_types(inside.type, outside.type) in (Change.WEAKER, Change.CLASH):
            return
        for user, index in list(inside.uses):
            if (user, index) != own:
                user.set_operand(index, outside)
        if result is not None:
            redirect(result, outside)
        reinfer(readers)
        report.add(
            Rewrite(self.name, (), (), self.level, self.rows, f"{inside.name} never changes")
        )


# -- bodies ----------------------------------------------------------------------------------------


def body_key(body: Graph) -> Hashable | None:
    """What makes two bodies without inputs compute the same; None where nothing does (random
    numbers).
    """
    numbers: dict[Value, int] = {}
    nodes: list[Hashable] = []

    def read(value: Value | None) -> Hashable:
        if value is None:
            return None
        return ("inside", numbers[value]) if value in numbers else ("outside", id(value))

    for node in body.nodes:
        if node.subgraphs or not isinstance(node.op, Op) or not node.op.deterministic:
            return None
        nodes.append((node.op, tuple(map(read, node.inputs)), len(node.outputs)))
        for value in node.outputs:
            numbers[value] = len(numbers)
    return (tuple(nodes), tuple(map(read, body.outputs)))


def _trips(node: Node) -> int | None:
    """How often a Loop runs, as far as that is known to be 0 or 1."""
    first, counts = node.input(1), known_ints(node.input(0))
    most = counts[0] if counts and isinstance(counts[0], int) else None
    starts = True if first is None else known_truth(first)
    if starts is False or (most is not None and most <= 0):
        return 0
    if starts is not True:
        return None
    stops = known_truth(node.subgraphs["body"].outputs[0]) is False
    at_least_once = node.input(0) is None or most is not None
    return 1 if most == 1 or (stops and at_least_once) else None


def _nothing(value: Value) -> Value | None:
    """The rows of a Loop that never ran; None where their shape is not known."""
    if not isinstance(value.type, TensorType) or value.type.shape is None:
        return None
    sizes = value.type.shape[1:]
    if not all(isinstance(d, int) for d in sizes):
        return None
    return constant(np.zeros((0, *map(int, sizes)), value.dtype.numpy), value.name, value.dtype)


def _carried(node: Node) -> tuple[int, int, int]:
    """Where carried values begin among the inputs and among the outputs of the body, and how many
    there are.

    The inputs of the node are in the places of those of its body.
    """
    if node.kind == "Loop":
        return 2, 1, len(node.inputs) - 2
    return 0, 0, len(node.inputs) - int(node.op.attributes()["num_scan_inputs"])


def _is_unread(node: Node, output: int) -> bool:
    return output >= len(node.outputs) or not node.outputs[output].uses


def _feeds_itself(body: Graph, number: int, result: int) -> bool:
    """Whether only result `result` of a body depends on its input `number`."""
    reached: set[Node] = set()
    pending = [body.inputs[number]]
    while pending:
        value = pending.pop()
        for use in value.uses:
            if isinstance(use.user, Graph):
                if use != Use(body, result):
                    return False
            elif use.user.graph is not body or use.user.subgraphs:
                return False
            elif use.user not in reached:
                reached.add(use.user)
                pending.extend(use.user.outputs)
    return True


def _without_outputs(body: Graph, gone: Collection[int]) -> list[Node]:
    """Drop outputs of a body; the nodes that are gone with them."""
    remaining = [
        (v, name)
        for i, (v, name) in enumerate(zip(body.outputs, body.output_names))
        if i not in gone
    ]
    dropped = [v for i, v in enumerate(body.outputs) if i in gone]
    set_outputs(body, remaining)
    return remove_dead(
        [v.producer for v in dropped if v.producer is not None and is_inside(v, body)]
    )


def set_outputs(body: Graph, outputs: Sequence[tuple[Value, str]]) -> None:
    """Let a body give these values, under these names, and no others."""
    for index, value in enumerate(body.outputs):
        value.uses.pop(Use(body, index), None)
    body.outputs, body.output_names = [], []
    for value, name in outputs:
        body.add_output(value, name)
