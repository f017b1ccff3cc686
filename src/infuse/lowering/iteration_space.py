"""Iteration over a result: rows × columns in memory order, and the addresses of operands in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.types import Shape
from infuse.lowering.tensors import Order, Tensor


class IterationSpace:
    """The elements of a logical shape in memory order, as rows × columns.

    The last `inner` physical axes form the column index (1 for kernels with a sink; more where
    every operand allows).
    """

    def __init__(self, shape: Shape, order: Order, inner: int = 1) -> None:
        self.shape, self.order, self.inner = shape, order, inner

    @property
    def sizes(self) -> Shape:
        """Physical sizes, outermost first."""
        return tuple(self.shape[a] for a in self.order)

    @property
    def rows(self) -> Dim:
        return dims.product(self.sizes[: len(self.order) - self.inner])

    @property
    def columns(self) -> Dim:
        return dims.product(self.sizes[len(self.order) - self.inner :])

    def strides(self, tensor: Tensor) -> list[Dim]:
        """Strides of a (broadcast) operand along the physical axes."""
        shift = len(self.shape) - tensor.rank
        result: list[Dim] = []
        for axis in self.order:
            own = axis - shift
            repeated = own < 0 or (
                dims.is_at_most_one(tensor.shape[own]) and self.shape[axis] != tensor.shape[own]
            )
            result.append(0 if repeated or self.shape[axis] == 1 else tensor.strides[own])
        return result

    def column_stride(self, tensor: Tensor) -> Dim | None:
        """Elements from one column to the next; None where the column axes do not merge for this
        operand.
        """
        strides = self.strides(tensor)
        merged = _collapse(
            self.sizes[-self.inner :] if self.inner else (),
            strides[-self.inner :] if self.inner else [],
        )
        if not merged:
            return 0
        return merged[0][1] if len(merged) == 1 else None

    def widened(self, tensors: Sequence[Tensor], most: int | None = None) -> IterationSpace:
        """The space with as many inner axes in the column, at most `most`, as all operands allow
        with a stride of 0 or 1.
        """
        best = self
        for inner in range(2, (len(self.order) if most is None else most) + 1):
            wider = IterationSpace(self.shape, self.order, inner)
            if any(wider.column_stride(t) not in (0, 1) for t in tensors):
                break
            best = wider
        return best

    def row_steps(self, tensor: Tensor) -> Iterator[tuple[Dim, Dim | None, Dim]]:
        """How rows move along the axes of an operand, innermost first: ((row / below) % size) ·
        stride, without a remainder where size is None.
        """
        outer = len(self.order) - self.inner
        axes = _collapse(self.sizes[:outer], self.strides(tensor)[:outer])
        below: Dim = 1
        for position in range(len(axes) - 1, -1, -1):
            size, stride = axes[position]
            if stride != 0:
                yield below, size if position > 0 else None, stride
            below = below * size


def _collapse(sizes: Sequence[Dim], strides: Sequence[Dim]) -> list[tuple[Dim, Dim]]:
    """(size, stride) with mergeable neighbours merged and axes of one element left out."""
    merged: list[tuple[Dim, Dim]] = []
    for size, stride in zip(sizes, strides):
        if size == 1:
            continue
        if merged and merged[-1][1] == stride * size:
            merged[-1] = (merged[-1][0] * size, stride)
        else:
            merged.append((size, stride))
    return merged
