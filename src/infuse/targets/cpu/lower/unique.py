"""Different elements and slices, whose number the run finds out."""

from __future__ import annotations

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node
from infuse.lowering.expressions import Pointed, PointerTo, Size
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import new_symbol, operand, row_major
from infuse.lowering.tensors import Tensor, natural
from infuse.targets.cpu.table import lowers


@lowers("Unique")
def unique(low: Lowering, node: Node, group: Group) -> None:
    x, attributes = operand(node), node.op.attributes()
    axis = None if attributes["axis"] is None else attributes["axis"] % x.rank
    outer, n, inner = _lines(x.shape, axis)
    source = row_major(low, x)
    first, counts, inverse = (_numbers(low, n) for _ in range(3))
    if len(node.outputs) > 2:
        inverse = low.storage.tensors[node.outputs[2]] = low.storage.allocate(node.outputs[2])
    name = new_symbol(low)
    f = low.function("unique", node)
    f.include("unique.hpp", "half.hpp")
    order = "true" if attributes["sorted"] else "false"
    text = (
        f"{order}, {f.write(_numbers(low, 4 * n))}, "
        f"{', '.join(f.write(t) for t in (first, inverse, counts))}"
    )
    kernel = "unique_elements" if axis is None else "unique_slices"
    sizes = f.number(n) if axis is None else f.numbers(outer, n, inner)
    f.call(kernel, f.read(source), sizes, text, context=False, result="count")
    f.assign(Pointed(f.resolves(name)), "count")
    shape = (
        ["count"]
        if axis is None
        else ["count" if a == axis else Size(d) for a, d in enumerate(x.shape)]
    )
    f.array("sizes", *shape)
    low.resolve_sizes(f, node, node.output.shape, "sizes")
    f.finish(f"Unique {node.name}")
    count = dims.symbol(name)
    _take(low, node, source, (outer, n, inner * x.dtype.bytes), first, count)
    for place, array in ((1, first), (3, counts)):
        if len(node.outputs) > place:
            target = low.storage.allocate(node.outputs[place])
            low.storage.copy(array.slice(0, 0, count), target, "unique", node)
            low.storage.tensors[node.outputs[place]] = target


def _lines(shape: tuple[Dim, ...], axis: int | None) -> tuple[Dim, Dim, Dim]:
    if axis is None:
        return 1, dims.product(shape), 1
    return dims.product(shape[:axis]), shape[axis], dims.product(shape[axis + 1 :])


def _numbers(low: Lowering, n: Dim) -> Tensor:
    return low.storage.scratch_tensor(dtypes.int64, (n,), natural(1))


def _take(
    low: Lowering,
    node: Node,
    source: Tensor,
    lines: tuple[Dim, Dim, Dim],
    places: Tensor,
    count: Dim,
) -> None:
    """A step that brings the elements or slices at the places to the first output."""
    target = low.storage.allocate(node.output)
    f = low.function("take_slices", node)
    f.include("unique.hpp")
    operands = PointerTo(f.read(source.bits)), f.numbers(*lines), f.read(places), f.number(count)
    f.call("take_slices", *operands, PointerTo(f.write(target.bits), is_written=True))
    f.finish("Unique")
    low.storage.tensors[node.output] = target
