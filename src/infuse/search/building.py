"""A choice of terms as nodes of the graph: what stays is left alone, constants are computed, the
rest is new.

A node whose term is chosen stays although its operands may be made otherwise: its readers need not
know.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infuse.ir.graph import Array, Node, Value, constant
from infuse.ops.convolution import Conv
from infuse.ops.core.base import Op
from infuse.ops.core.sizes import int64s
from infuse.ops.indexing import Gather
from infuse.ops.movement import Concat, Slice
from infuse.ops.shaping import Reshape, Transpose
from infuse.passes.rules.common import reshape_target
from infuse.rewrite.patch import Patch
from infuse.search.cost import Choice
from infuse.search.egraph import EGraph
from infuse.search.regions import Region
from infuse.search.terms import (
    ConcatTerm,
    GatherTerm,
    Head,
    Leaf,
    Opaque,
    ReshapeTerm,
    SliceTerm,
    Term,
    TransposeTerm,
    folded,
)


class Builder:
    """Makes the values of classes by a choice of terms; `patch` has the new nodes."""

    def __init__(self, region: Region, choice: Choice, patch: Patch) -> None:
        self.region = region
        self.g: EGraph = region.g
        self.choice = choice
        self.patch = patch
        self.created: set[int] = set()
        """Classes for which there are new nodes."""
        self._known: dict[int, list[tuple[int, Value]]] = {}
        for raw, value in region.values.items():
            self._known.setdefault(self.g.find(raw), []).append((raw, value))
        self._values: dict[int, Value] = {}
        self._arrays: dict[int, Array] = {}
        self._nodes: dict[tuple[Node, tuple[int, ...]], Node] = {}
        self._kept: dict[int, Value | None] = {}

    def value(self, number: int) -> Value:
        """The value of a class, its operands before it."""
        number = self.g.find(number)
        pending = [number]
        while pending:
            each = pending[-1]
            if each in self._values:
                pending.pop()
                continue
            missing = [a for a in self._operands(each) if a not in self._values]
            if missing:
                pending += missing
                continue
            pending.pop()
            self._values[each] = self._made(each)
        return self._values[number]

    def needed(self, roots: Sequence[int]) -> list[int]:
        """The classes that the choice computes for these."""
        terms = dict.fromkeys(roots)
        pending = list(roots)
        while pending:
            number = pending.pop()
            more = (
                []
                if self.g.is_const(number)
                else [a for a in self.choice[number].args if a not in terms]
            )
            terms.update(dict.fromkeys(more))
            pending += more
        return list(terms)

    def existing_value(self, number: int) -> Value | None:
        """The value of the model that a class keeps, None where it is computed otherwise now.

        Its node stays although its operands may be others. A value may be made of several terms (a
        product and its bias): then all of them must be chosen.
        """
        if number not in self._kept:
            values = (value for raw, value in self._known.get(number, ()) if self._stays(raw))
            self._kept[number] = next(values, None)
        return self._kept[number]

    def _stays(self, raw: int) -> bool:
        """Whether the term of the model for a class, numbered as before any unions, is chosen."""
        term = self.region.first[raw]
        if self.choice[self.g.find(raw)] != self.g.canonical(term):
            return False
        inner = [a for a in term.args if a not in self.region.values and not self.g.is_const(a)]
        return all(map(self._stays, inner))

    def _operands(self, number: int) -> list[int]:
        if self.g.is_const(number) or self.existing_value(number) is not None:
            return []
        return list(dict.fromkeys(self.choice[number].args))

    def _made(self, number: int) -> Value:
        term = self.choice[number]
        existing = self.existing_value(number)
        if existing is not None:
            return existing
        if self.g.is_const(number):
            return self._constant(number)
        self.created.add(number)
        return self._built(term, [self._values[a] for a in term.args])

    # -- constants ---------------------------------------------------------------------------------

    def _constant(self, number: int) -> Value:
        """A constant, computed in float64 and rounded once."""
        term = self.choice[number]
        if isinstance(term.head, Leaf):
            return term.head.value
        kind = self.g[number].type.dtype
        return constant(np.ascontiguousarray(self._array(number).astype(kind.numpy)), dtype=kind)

    def _array(self, number: int) -> Array:
        if number not in self._arrays:
            term = self.choice[number]
            if isinstance(term.head, Leaf):
                data = term.head.value.const
                assert data is not None
                self._arrays[number] = (
                    data.astype(np.float64) if self.g.dtype(number).is_float else data
                )
            else:
                self._arrays[number] = folded(term.head, [self._array(a) for a in term.args])
        return self._arrays[number]

    # -- nodes -------------------------------------------------------------------------------------

    def _built(self, term: Term, operands: list[Value]) -> Value:
        if isinstance(term.head, Opaque):
            return self._copied(term, operands).outputs[term.head.index]
        op, more = _operator(term.head, operands)
        return self.patch.add(op, [*operands, *more]).output

    def _copied(self, term: Term, operands: list[Value]) -> Node:
        """A node that nothing is known of, with other operands."""
        assert isinstance(term.head, Opaque)
        node = term.head.node
        key = (node, term.args)
        if key not in self._nodes:
            rest = iter(operands)
            inputs = [None if v is None else next(rest) for v in node.inputs]
            self._nodes[key] = self.patch.add(node.op, inputs, len(node.outputs))
        return self._nodes[key]


def _operator(head: Head, operands: list[Value]) -> tuple[Op, list[Value]]:
    """The operator of a term, and the operands that say where elements go."""
    if isinstance(head, SliceTerm):
        places = [(head.start,), (head.stop,), (head.axis,), (head.step,)]
        return Slice(), [constant(int64s(*p)) for p in places]
    if isinstance(head, GatherTerm):
        return Gather(axis=head.axis), [constant(int64s(*head.places))]
    if isinstance(head, TransposeTerm):
        return Transpose(perm=head.perm), []
    if isinstance(head, ReshapeTerm):
        return Reshape(), [constant(reshape_target(operands[0].shape, head.target))]
    if isinstance(head, ConcatTerm):
        return Concat(axis=head.axis), []
    assert isinstance(head, Op)
    if isinstance(head, Conv):
        return head.replace(kernel_shape=operands[1].shape[2:]), []
    return head, []
