"""What steps that find sizes and places are made of: lists of integers, new symbols, and the checks
around them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value
from infuse.lowering.expressions import AsSize, Element, Estimate, Expression, Pointed, infix, sized
from infuse.lowering.lowering import Lowering
from infuse.lowering.tensors import Tensor, natural
from infuse.lowering.writer import FunctionWriter


def operand(node: Node, index: int = 0) -> Value:
    """An input that has to be there."""
    value = node.input(index)
    assert value is not None
    return value


def row_major(low: Lowering, value: Value) -> Tensor:
    """The value, dense in row-major order."""
    return low.storage.dense(value, natural(value.rank))


def integers(
    low: Lowering, node: Node, index: int, *, least: int | None = None
) -> tuple[Dim, ...] | None:
    """The elements of an input that lists integers, None where it is absent: as symbols where only
    the run tells them.

    None of them may be below `least`. A symbol is taken to be no negative number by the algebra of
    sizes: give `least` unless the elements go into C++ alone.
    """
    value = node.input(index)
    if value is None:
        return None
    numbers = known_ints(value)
    if numbers is not None:
        return numbers
    names = [new_symbol(low) for _ in range(_length(low, node, value))]
    f = low.function("read_sizes", node)
    pointer = f.read(low.storage.dense(value)) if names else ""
    for i, name in enumerate(names):
        if least is not None:
            f.fail_unless(infix(Element(pointer, i), ">=", least))
        f.assign(Pointed(f.resolves(name)), AsSize(Element(pointer, i)))
    if names:
        f.finish(f"{node.kind} {node.name}: sizes")
    return tuple(dims.symbol(name) for name in names)


def new_symbol(low: Lowering) -> str:
    """The name of one more size that a step finds."""
    root = low.root
    root.symbols_made += 1
    return f"_found_{root.symbols_made}"


def refuse_large(low: Lowering, node: Node, *sizes: Dim) -> None:
    """A step that fails where sizes, of which only the run tells, are too large to be computed
    with.
    """
    large = [size for size in sizes if isinstance(size, dims.Expr)]
    if not large:
        return
    f = low.function("limits_of", node)
    for size in large:
        below = infix(Estimate(size), "<", "TOO_LARGE")
        f.fail_unless(infix(below, "&&", infix(Estimate(size), ">", "-TOO_LARGE")))
    f.finish(f"{node.kind} {node.name}: sizes")


def define(low: Lowering, node: Node, value: Value, sizes: Sequence[Dim]) -> None:
    """A step that finds the sizes of `value`, which are these."""
    f = low.function("sizes_of", node)
    f.array("sizes", f.numbers(*sizes) or "0L")
    low.resolve_sizes(f, node, value.shape, "sizes")
    f.finish(f"{node.kind} {node.name}: sizes")


def array(low: Lowering, f: FunctionWriter, node: Node, name: str, value: Value) -> int:
    """Define the list `name` of an input's integers in `f`; how many there are."""
    numbers = known_ints(value)
    if numbers is not None:
        longs(f, name, numbers)
        return len(numbers)
    count = _length(low, node, value)
    f.room({name: count + 1})
    if count:
        with f.repeat(infix("i", "<", count), type="int"):
            f.assign(Element(name, "i"), AsSize(Element(f.read(low.storage.dense(value)), "i")))
    return count


def _length(low: Lowering, node: Node, value: Value) -> int:
    size = value.tensor.size
    if not isinstance(size, int):
        low.unsupported(node, "a list of sizes of unknown length")
    return size


def longs(f: FunctionWriter, name: str, numbers: Iterable[Dim | Expression]) -> None:
    """Define the list `name` of sizes or expressions in `f`; it may be empty."""
    f.array(name, *map(sized, numbers), "0L")


def found_by(low: Lowering, node: Node, call: Callable[[FunctionWriter], Expression]) -> None:
    """A step that finds the sizes of a node's result from those of its operand.

    `call` gives the condition, a call of a function of sizes, that reads the array `in` and fills
    `out`.
    """
    f = low.function(f"{node.kind.lower()}_sizes", node)
    shape, rank = operand(node).shape, node.output.rank
    longs(f, "in", shape)
    condition = call(f)
    f.room({"out": rank + 1})
    f.fail_unless(condition)
    low.resolve_sizes(f, node, node.output.shape, "out")
    f.finish(f"{node.kind} {node.name}: sizes")
