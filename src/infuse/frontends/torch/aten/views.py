"""Operators that only move elements or say how they are seen."""

from __future__ import annotations

from typing import Any

from infuse.frontends.torch.calls import TorchImporter, aten, axes_of
from infuse.ir.graph import Value


@aten("flatten")
def flatten(g: TorchImporter, x: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    """Neighbouring axes as one."""
    if x.rank == 0:
        return g("Reshape", x, g.ints(1))
    first, last = axes_of([start_dim, end_dim], x.rank)
    sizes: list[Any] = [g.size_of(x, axis) for axis in range(x.rank)]
    return g("Reshape", x, g.ints(*sizes[:first], -1, *sizes[last + 1 :]))


@aten("adaptive_avg_pool2d")
def adaptive_avg_pool2d(g: TorchImporter, x: Value, output_size: list[int]) -> Value:
    """Means over as many windows as there are results."""
    if [*output_size] == [1, 1]:
        return g("ReduceMean", x, g.ints(-2, -1), keepdims=1)
    raise g.unsupported(f"adaptive pooling to {output_size}")


@aten("sym_size.int")
def sym_size(g: TorchImporter, x: Value, dim: int) -> int | Value:
    """One size of a tensor."""
    return g.size_of(x, dim)


@aten("view", "reshape", "_unsafe_view")
def view(g: TorchImporter, x: Value, size: list[Any]) -> Value:
    """The elements in another shape."""
    return g("Reshape", x, g.ints(*size), allowzero=1)
