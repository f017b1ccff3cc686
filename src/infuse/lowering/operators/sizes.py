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
    Nothing,
    Operation,
    Size,
    infix,
    invoke,
)
from infuse.lowering.kernel_table import COMMON
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import (
    array,
    define,
    found_by,
    integers,
    longs,
    operand,
    row_major,
)
from infuse.lowering.writer import FunctionWriter

# -- shapes of results -----------------------------------------------------------------------------


@COMMON.resolves_sizes("Reshape")
def reshape(low: Lowering, node: Node) -> None:
    zeros = "true" if node.op.attributes()["allowzero"] else "false"

    def call(f: FunctionWriter) -> Expression:
        count = array(low, f, node, "wanted", operand(node, 1))
        return invoke("reshape_sizes", "in", operand(node).rank, "wanted", count, zeros, "out")

    found_by(low, node, call)


@COMMON.resolves_sizes("Expand")
def expand(low: Lowering, node: Node) -> None:
    def call(f: FunctionWriter) -> Expression:
        count = array(low, f, node, "wanted", operand(node, 1))
        return invoke("expand_sizes", "in", operand(node).rank, "wanted", count, "out")

    found_by(low, node, call)


@COMMON.resolves_sizes("ConstantOfShape")
def constant_of_shape(low: Lowering, node: Node) -> None:
    define(low, node, node.output, integers(low, node, 0, least=0) or ())


@COMMON.resolves_sizes("TopK")
def top_k(low: Lowering, node: Node) -> None:
    x = operand(node)
    axis = node.op.attributes()["axis"] % x.rank
    (count,) = integers(low, node, 1, least=0) or (0,)
    f = low.function("sizes_of", node)
    f.fail_unless(infix(f.number(count), "<=", f.number(x.shape[axis])))
    f.finish(f"TopK {node.name}: sizes")
    for value in node.outputs:
        define(low, node, value, (*x.shape[:axis], count, *x.shape[axis + 1 :]))


@COMMON.resolves_sizes("Split")
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


@COMMON.resolves_sizes("Squeeze")
def squeeze(low: Lowering, node: Node) -> None:
    x, axes, rank = operand(node), node.input(1), node.output.rank

    def call(f: FunctionWriter) -> Expression:
        listed: tuple[object, ...] = (Nothing(), 0, "true")
        if axes is not None:
            listed = ("axes", array(low, f, node, "axes", axes), "false")
        return invoke("squeeze_sizes", "in", x.rank, *listed, rank, "out")

    found_by(low, node, call)


@COMMON.resolves_sizes("Unsqueeze")
def unsqueeze(low: Lowering, node: Node) -> None:
    def call(f: FunctionWriter) -> Expression:
        count = array(low, f, node, "axes", operand(node, 1))
        return invoke("unsqueeze_sizes", "in", operand(node).rank, "axes", count, "out")

    found_by(low, node, call)


@COMMON.resolves_sizes("CenterCropPad")
def center_crop_pad(low: Lowering, node: Node) -> None:
    data, axes = operand(node), node.op.attributes()["axes"]
    targets = integers(low, node, 1, least=0) or ()
    sizes = list(data.shape)
    for axis, size in zip(range(data.rank) if axes is None else axes, targets):
        sizes[axis] = size
    define(low, node, node.output, sizes)


@COMMON.resolves_sizes("Range")
def range_(low: Lowering, node: Node) -> None:
    f = low.function("range_count", node)
    numbers = [Element(f.read(low.storage.dense(operand(node, i))), 0) for i in range(3)]
    kind = (node.output.dtype.c_name,)
    f.constant("count", invoke("range_count", *numbers, template=kind))
    f.fail_unless(infix("count", ">=", 0))
    f.array("out", "count")
    low.resolve_sizes(f, node, node.output.shape, "out")
    f.finish(f"Range {node.name}: sizes")


# -- elements that are kept ------------------------------------------------------------------------


@COMMON.resolves_sizes("NonZero")
def count_nonzero(low: Lowering, node: Node) -> None:
    x = operand(node)
    f = low.function("count_nonzero", node)
    pointer = f.read(row_major(low, x))
    kind = (x.dtype.c_name,)
    count = invoke("count_nonzero", pointer, f.number(dims.product(x.shape)), template=kind)
    f.array("out", x.rank, count)
    low.resolve_sizes(f, node, node.output.shape, "out")
    f.finish("NonZero: count")


def compressed_shape(node: Node) -> tuple[Shape, int]:
    """The shape that Compress works on, flat without an axis, and the axis in it."""
    x, axis = operand(node), node.op.attributes()["axis"]
    return ((dims.product(x.shape),), 0) if axis is None else (x.shape, axis % x.rank)


@COMMON.resolves_sizes("Compress")
def count_compress(low: Lowering, node: Node) -> None:
    condition = operand(node, 1)
    shape, axis = compressed_shape(node)
    f = low.function("count_compress", node)
    pointer, length = f.read(low.storage.dense(condition)), f.number(condition.shape[0])
    most = Size(shape[axis])
    kind = (condition.dtype.c_name,)
    rest = infix(pointer, "+", most), infix(length, "-", most)
    behind = invoke("count_nonzero", *rest, template=kind)
    f.fail_unless(infix(infix(length, "<=", most), "||", Operation("!", (behind,))), "BAD_INDEX")
    sizes = [
        invoke("count_nonzero", pointer, length, template=kind) if a == axis else Size(d)
        for a, d in enumerate(shape)
    ]
    longs(f, "out", sizes)
    low.resolve_sizes(f, node, node.output.shape, "out")
    f.finish("Compress: count")


@COMMON.resolves_sizes("OneHot")
def one_hot_sizes(low: Lowering, node: Node) -> None:
    index = operand(node)
    axis = node.op.attributes()["axis"] % (index.rank + 1)
    (depth,) = integers(low, node, 1, least=0) or (0,)
    define(low, node, node.output, (*index.shape[:axis], depth, *index.shape[axis:]))
