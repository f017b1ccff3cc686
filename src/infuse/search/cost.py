"""What a choice of terms costs, as the code generator will run it.

A kernel call has a price of its own (`Prices`). Around it stands what the code generator does with
terms: pointwise work joins the kernel that makes its operand, where nobody else reads that; cuts
are views, which a product of rows reads as they are and every other kernel in a copy; what is
joined is written in its place where that is possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from infuse.analysis.cost import cost_of
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.types import TensorType
from infuse.ops.contraction import MatMul
from infuse.ops.convolution import Conv
from infuse.ops.core.base import Op
from infuse.ops.core.traits import Trait, has_trait
from infuse.ops.spatial import Sliding
from infuse.search.egraph import EGraph
from infuse.search.equalities.linear import CHANNELS, is_unpadded
from infuse.search.terms import (
    ConcatTerm,
    GatherTerm,
    Leaf,
    Opaque,
    ReshapeTerm,
    SliceTerm,
    Term,
    TransposeTerm,
    is_pointwise,
)

SizeOf = Callable[[Dim], int]
"""A number for a size that may be symbolic."""


class Prices(Protocol):
    """Seconds of one kernel call, and of moving bytes: read and written, at best or element by
    element.
    """

    def call(
        self, op: Op, operands: Sequence[TensorType], result: TensorType, size: SizeOf
    ) -> float: ...

    def copy(self, count: float, *, scattered: bool = False) -> float: ...


@dataclass(frozen=True)
class Roofline:
    """Prices from operations and bytes, where no better model knows: both take their time, and a
    call takes some of its own.

    The numbers are those of one core of a server of 2023: operations and bytes per second, out of
    its second cache.
    """

    peak: float = 1e11
    bandwidth: float = 3e10
    overhead: float = 1e-6
    lanes: int = 16
    kernels: Callable[[Op, Sequence[TensorType], TensorType, SizeOf], float | None] | None = None
    """A better model of kernels: seconds of a call, None where it knows nothing."""

    def call(
        self, op: Op, operands: Sequence[TensorType], result: TensorType, size: SizeOf
    ) -> float:
        seconds = None if self.kernels is None else self.kernels(op, operands, result, size)
        if seconds is not None:
            return seconds
        cost = cost_of(op, operands, [result])
        flops, moved = float(size(cost.flops)), float(size(cost.read) + size(cost.written))
        return (
            flops * self._slowness(op, operands, result, size) / self.peak
            + moved / self.bandwidth
            + self.overhead
        )

    def copy(self, count: float, *, scattered: bool = False) -> float:
        return count * (8 if scattered else 1) / self.bandwidth + self.overhead

    def _slowness(
        self, op: Op, operands: Sequence[TensorType], result: TensorType, size: SizeOf
    ) -> float:
        """How many times as long an operation takes as at best: lanes that are idle, kernels that
        wait for memory.
        """
        assert result.shape is not None
        if isinstance(op, MatMul) and result.shape:
            return self._idle(size(result.shape[-1]))
        if isinstance(op, Conv) and operands[1].shape is not None:
            if op.group > 1:
                return 4.0
            kernel = [size(k) for k in operands[1].shape[2:]]
            simple = kernel == [3, 3] and all(s == 1 for s in (*op.steps(2), *op.spread(2)))
            return self._idle(size(result.shape[1])) / (2.25 if simple else 1.0)
        return 2.0

    def _idle(self, columns: int) -> float:
        return -(-columns // self.lanes) * self.lanes / max(columns, 1)


DENSE = 0.6
"""What a byte costs in a pass over whole tensors, where one in a copy with strides costs one."""
Choice = Mapping[int, Term]
"""One term for each class that is computed."""


class Pricing:
    """The price of choices of terms of an e-graph."""

    def __init__(
        self, g: EGraph, prices: Prices, size: SizeOf, shared: Callable[[Term], bool]
    ) -> None:
        self.g = g
        self.prices = prices
        self.size = size
        self.shared = shared
        """Whether others than one concatenation read a leaf."""
        self._calls: dict[Term, float] = {}

    # -- one term ----------------------------------------------------------------------------------

    def bytes(self, number: int) -> float:
        """Bytes of a class."""
        type_ = self.g[number].type
        assert type_.shape is not None
        return float(math.prod(self.size(d) for d in type_.shape) * type_.dtype.bytes)

    def call(self, at: int, term: Term) -> float:
        """The price of a term's kernel alone."""
        if term not in self._calls:
            assert isinstance(term.head, Op)
            operands = [self.g[a].type for a in term.args]
            self._calls[term] = self.prices.call(term.head, operands, self.g[at].type, self.size)
        return self._calls[term]

    def own(self, at: int, term: Term, chosen: Choice, readers: Callable[[int], int]) -> float:
        """The price of a term where its operands are computed as `chosen`; `readers` counts who
        reads a class.
        """
        if isinstance(term.head, (Leaf, Opaque, SliceTerm, ReshapeTerm)) or self.g.is_const(at):
            return 0.0
        if is_pointwise(term.head):
            return self._pointwise(at, term, chosen, readers)
        if isinstance(term.head, ConcatTerm):
            copied = [a for a in term.args if not self._is_in_place(a, chosen, readers)]
            return sum(self.prices.copy(2 * self.bytes(a)) for a in copied)
        if isinstance(term.head, GatherTerm):
            return self.prices.copy(2 * self.bytes(at), scattered=True)
        if isinstance(term.head, TransposeTerm):
            return self._moved(at, term)
        return self.call(at, term) + sum(
            self._dense(term, index, chosen) for index in range(len(term.args))
        )

    def _pointwise(
        self, at: int, term: Term, chosen: Choice, readers: Callable[[int], int]
    ) -> float:
        """Nothing but its other operands where it joins a kernel before it; else a pass over
        all.
        """
        free = [a for a in dict.fromkeys(term.args) if not self.g.is_const(a)]
        shape = self.g.shape(at)
        for arg in free:
            before = chosen.get(arg)
            if (
                before is not None
                and self._computes(before)
                and readers(arg) <= 1
                and self.g.shape(arg) == shape
            ):
                others = [a for a in free if a != arg]
                return sum(self.bytes(a) for a in others) * self.prices.copy(1e6) / 1e6 + 1e-9
        gaps = any(
            isinstance(chosen[a].head, (SliceTerm, TransposeTerm, GatherTerm))
            for a in free
            if a in chosen
        )
        return self.prices.copy(
            (sum(map(self.bytes, free)) + self.bytes(at)) * (1 if gaps else DENSE)
        )

    def _computes(self, term: Term) -> bool:
        """Whether a kernel makes this, to which work can be added."""
        if isinstance(term.head, Opaque):
            node = term.head.node
            moves = has_trait(node, Trait.MOVEMENT) or node.kind == "Concat"
            return len(node.outputs) == 1 and not moves
        return isinstance(term.head, Op)

    def _is_in_place(self, arg: int, chosen: Choice, readers: Callable[[int], int]) -> bool:
        """Whether an operand of a concatenation is written where it belongs at once."""
        term = chosen.get(arg)
        if term is None or self.g.is_const(arg):
            return False
        if isinstance(term.head, Leaf):
            return not self.shared(term)
        return readers(arg) <= 1 and (
            self._computes(term) or isinstance(term.head, (ConcatTerm, GatherTerm))
        )

    def _moved(self, at: int, term: Term) -> float:
        assert isinstance(term.head, TransposeTerm)
        shape = self.g.shape(term.args[0])
        moved_axes = [p for p in term.head.perm if shape[p] != 1]
        return (
            0.0
            if moved_axes == sorted(moved_axes)
            else self.prices.copy(
                2 * self.bytes(at), scattered=moved_axes[-1:] != [max(moved_axes)]
            )
        )

    def _dense(self, term: Term, index: int, chosen: Choice) -> float:
        """The price of a copy where a kernel cannot read a view."""
        arg = term.args[index]
        before = chosen.get(arg)
        if before is None or not isinstance(before.head, SliceTerm) or self.g.is_const(arg):
            return 0.0
        axis, rank = before.head.axis, len(self.g.shape(arg))
        rows = isinstance(term.head, MatMul) or (
            isinstance(term.head, Conv) and self._reads_rows(term)
        )
        if rows and axis == (CHANNELS if isinstance(term.head, Conv) else rank - 1):
            return 0.0
        return (
            self.prices.copy(2 * self.bytes(arg))
            if isinstance(term.head, (Sliding, MatMul))
            else 0.0
        )

    def _reads_rows(self, term: Term) -> bool:
        op, kernel = term.head, self.g.shape(term.args[1])[2:]
        assert isinstance(op, Conv)
        point = op.group == 1 and is_unpadded(op) and all(k == 1 for k in kernel)
        return point and all(step == 1 for step in op.steps(len(kernel)))

    # -- a whole choice ----------------------------------------------------------------------------

    def total(self, roots: Sequence[int], choice: Choice) -> float:
        """The price of computing these classes; infinite where the choice goes in a circle."""
        order = self.order(roots, choice)
        if order is None:
            return math.inf
        readers: dict[int, int] = dict.fromkeys(order, 0)
        for number in order:
            for arg in self.operands(number, choice):
                readers[arg] += 1
        for root in roots:
            readers[root] += 1
        nested = self._nested(order, choice)
        seconds = 0.0
        for number in order:
            if number not in nested:
                seconds += self.own(number, choice[number], choice, readers.__getitem__)
        return seconds

    def operands(self, number: int, choice: Choice) -> list[int]:
        """The classes that a choice reads for a class, each once; none for a constant."""
        return [] if self.g.is_const(number) else list(dict.fromkeys(choice[number].args))

    def order(self, roots: Sequence[int], choice: Choice) -> list[int] | None:
        """The classes that are computed, operands first; None where they need each other."""
        order: list[int] = []
        state: dict[int, int] = {}
        for root in roots:
            stack = [(root, False)]
            while stack:
                number, done = stack.pop()
                if done:
                    state[number] = 2
                    order.append(number)
                    continue
                if number in state:
                    if state[number] == 1:
                        return None
                    continue
                state[number] = 1
                stack.append((number, True))
                args = self.operands(number, choice)
                if any(state.get(a) == 1 for a in args):
                    return None
                stack += [(a, False) for a in reversed(args) if a not in state]
        return order

    def _nested(self, order: Sequence[int], choice: Choice) -> set[int]:
        """Concatenations that are the beginning of a larger one, of which they are a part without
        any work.
        """
        classes: set[int] = set()
        families: dict[tuple[int, int], list[int]] = {}
        for number in order:
            term = choice[number]
            if isinstance(term.head, ConcatTerm) and not self.g.is_const(number):
                families.setdefault((term.head.axis, term.args[0]), []).append(number)
        for family in families.values():
            family.sort(key=lambda n: -len(choice[n].args))
            whole = choice[family[0]].args
            classes.update(n for n in family[1:] if choice[n].args == whole[: len(choice[n].args)])
        return classes


def usual(values: Mapping[str, int]) -> SizeOf:
    """Sizes under these values of symbols, one for the others."""

    def size(dim: Dim) -> int:
        if isinstance(dim, int):
            return dim
        sizes = {name: values.get(name, 1) for name in dims.symbols(dim)}
        return max(dims.evaluate(dim, sizes), 0)

    return size
