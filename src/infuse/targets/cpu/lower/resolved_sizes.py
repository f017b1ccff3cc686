"""Sizes and places that only the elements of tensors tell: found by a step, from then on known as
symbols.
"""

from __future__ import annotations

from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node
from infuse.ir.types import Shape
from infuse.lowering.expressions import (
    Element,
    Expression,
    Operation,
    PointerTo,
    Size,
    infix,
    invoke,
)
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.writer import FunctionWriter
from infuse.targets.cpu.lower.indexing import row_major
from infuse.targets.cpu.lower.runtime_operands import (
    array,
    define,
    found_by,
    integers,
    longs,
    operand,
)
from infuse.targets.cpu.table import lowers, resolves_sizes

# -- shapes of results -----------------------------------------------------------------------------


@resolves_sizes("Reshape")
def reshape(low: Lowering, node: Node) -> None:
    zeros = "true" if node.op.attributes()["allowzero"] else "false"

    def call(f: FunctionWriter) -> str:
        count = array(low, f, node, "wanted", operand(node, 1))
        return f"reshape_sizes(in, {operand(node).rank}, wanted, {count}, {zeros}, out)"

    found_by(low, node, call)


@resolves_sizes("Expand")
def expand(low: Lowering, node: Node) -> None:
    def call(f: FunctionWriter) -> str:
        return (
            f"expand_sizes(in, {operand(node).rank}, wanted, "
            f"{array(low, f, node, 'wanted', operand(node, 1))}, out)"
        )

    found_by(low, node, call)


@resolves_sizes("ConstantOfShape")
def constant_of_shape(low: Lowering, node: Node) -> None:
    define(low, node, node.output, integers(low, node, 0, least=0) or ())


@resolves_sizes("TopK")
def top_k(low: Lowering, node: Node) -> None:
    x = operand(node)
    axis = node.op.attributes()["axis"] % x.rank
    (count,) = integers(low, node, 1, least=0) or (0,)
    f = low.function("sizes_of", node)
    f.fail_unless(infix(f.number(count), "<=", f.number(x.shape[axis])))
    f.finish(f"TopK {node.name}: sizes")
    for value in node.outputs:
        define(low, node, value, (*x.shape[:axis], count, *x.shape[axis + 1 :]))


@resolves_sizes("Split")
def split(low: Lowering, node: Node) -> None:
    x = operand(node)
    axis = node.op.attributes()["axis"] % x.rank
    sizes = integers(low, node, 1, least=0)
    if sizes is None:
        low.unsupported(node, "parts of unknown size")
    f = low.function("sizes_of", node)
    total: Dim = 0
    for size in sizes:
        total = total + size
    f.fail_unless(infix(f.number(total), "==", f.number(x.shape[axis])))
    f.finish(f"Split {node.name}: sizes")
    for value, size in zip(node.outputs, sizes):
        define(low, node, value, (*x.shape[:axis], size, *x.shape[axis + 1 :]))


@resolves_sizes("Squeeze")
def squeeze(low: Lowering, node: Node) -> None:
    x, axes, rank = operand(node), node.input(1), node.output.rank

    def call(f: FunctionWriter) -> Expression:
        listed = ("nullptr", 0, "true")
        if axes is not None:
            listed = ("axes", array(low, f, node, "axes", axes), "false")
        return invoke("squeeze_sizes", "in", x.rank, *listed, rank, "out")

    found_by(low, node, call)


@resolves_sizes("Unsqueeze")
def unsqueeze(low: Lowering, node: Node) -> None:
    def call(f: FunctionWriter) -> Expression:
        count = array(low, f, node, "axes", operand(node, 1))
        return invoke("unsqueeze_sizes", "in", operand(node).rank, "axes", count, "out")

    found_by(low, node, call)


@resolves_sizes("Range")
def range_(low: Lowering, node: Node) -> None:
    f = low.function("range_count", node)
    f.include("sizes.hpp")
    numbers = [Element(f.read(low.dense(operand(node, i))), 0) for i in range(3)]
    kind = (node.output.dtype.c_name,)
    f.constant("count", invoke("range_count", *numbers, template=kind))
    f.fail_unless(infix("count", ">=", 0))
    f.array("out", "count")
    low.resolve_sizes(f, node, node.output.shape, "out")
    f.finish(f"Range {node.name}: sizes")


# -- elements that are kept ------------------------------------------------------------------------


@resolves_sizes("NonZero")
def count_nonzero(low: Lowering, node: Node) -> None:
    x = operand(node)
    f = low.function("count_nonzero", node)
    f.include("sizes.hpp")
    pointer = f.read(row_major(low, x))
    f.array("out", x.rank, invoke("count_nonzero", pointer, f.number(dims.product(x.shape))))
    low.resolve_sizes(f, node, node.output.shape, "out")
    f.finish("NonZero: count")


@lowers("NonZero")
def nonzero(low: Lowering, node: Node, group: Group) -> None:
    x = operand(node)
    source, target = row_major(low, x), low.allocate(node.output)
    f = low.function("nonzero", node)
    f.include("sizes.hpp")
    longs(f, "in", x.shape)
    total, count = f.number(dims.product(x.shape)), f.number(node.output.shape[1])
    f.call("nonzero", f.read(source), "in", x.rank, total, count, f.write(target), context=False)
    f.finish("NonZero")
    low.tensors[node.output] = target


def _compressed(node: Node) -> tuple[Shape, int]:
    """The shape that Compress works on, flat without an axis, and the axis in it."""
    x, axis = operand(node), node.op.attributes()["axis"]
    return ((dims.product(x.shape),), 0) if axis is None else (x.shape, axis % x.rank)


@resolves_sizes("Compress")
def count_compress(low: Lowering, node: Node) -> None:
    condition = operand(node, 1)
    shape, axis = _compressed(node)
    f = low.function("count_compress", node)
    f.include("sizes.hpp")
    pointer, length = f.read(low.dense(condition)), f.number(condition.shape[0])
    most = Size(shape[axis])
    behind = invoke("count_nonzero", infix(pointer, "+", most), infix(length, "-", most))
    f.fail_unless(infix(infix(length, "<=", most), "||", Operation("!", (behind,))), "BAD_INDEX")
    sizes = [
        invoke("count_nonzero", pointer, length) if a == axis else Size(d)
        for a, d in enumerate(shape)
    ]
    longs(f, "out", sizes)
    low.resolve_sizes(f, node, node.output.shape, "out")
    f.finish("Compress: count")


@lowers("Compress")
def compress(low: Lowering, node: Node, group: Group) -> None:
    x, condition = operand(node), operand(node, 1)
    shape, axis = _compressed(node)
    source, target = row_major(low, x), low.allocate(node.output)
    f = low.function("compress", node)
    f.include("sizes.hpp")
    arguments = f"{f.read(low.dense(condition))}, {f.number(condition.shape[0])}"
    inner = dims.product(shape[axis + 1 :]) * x.dtype.bytes
    sizes = f.numbers(dims.product(shape[:axis]), shape[axis], inner)
    f.call(
        "compress",
        PointerTo(f.read(source.bits)),
        arguments,
        sizes,
        PointerTo(f.write(target.bits), is_written=True),
        context=False,
    )
    f.finish("Compress")
    low.tensors[node.output] = target


@resolves_sizes("OneHot")
def one_hot_sizes(low: Lowering, node: Node) -> None:
    index = operand(node)
    axis = node.op.attributes()["axis"] % (index.rank + 1)
    (depth,) = integers(low, node, 1, least=0) or (0,)
    define(low, node, node.output, (*index.shape[:axis], depth, *index.shape[axis:]))


@lowers("OneHot", runtime_inputs=(0, 2))
def one_hot(low: Lowering, node: Node, group: Group) -> None:
    index, values = operand(node), operand(node, 2)
    axis = node.op.attributes()["axis"] % (index.rank + 1)
    places, choices, target = row_major(low, index), low.dense(values), low.allocate(node.output)
    f = low.function("one_hot", node)
    f.include("sizes.hpp")
    sizes = f.numbers(
        dims.product(index.shape[:axis]), node.output.shape[axis], dims.product(index.shape[axis:])
    )
    f.call(
        "one_hot", f.read(places), sizes, f.read(choices.bits), f.write(target.bits), context=False
    )
    f.finish("OneHot")
    low.tensors[node.output] = target
