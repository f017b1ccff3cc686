"""Sizes and places that only the elements of tensors tell: found by a step, from then on known as symbols."""

from __future__ import annotations

from collections.abc import Sequence

from infuse.codegen.groups import Group
from infuse.codegen.lower.indexing import row_major
from infuse.codegen.lower.views import operand
from infuse.codegen.lowering import Lowering, finds_sizes, lowers
from infuse.codegen.program import FunctionWriter, size_text
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value, known_ints
from infuse.ir.types import Shape


def integers(low: Lowering, node: Node, index: int, *, least: int | None = None) -> tuple[Dim, ...] | None:
    """The elements of an input that lists integers, None where it is absent: as symbols where only the run tells them.

    None of them may be below `least`. A symbol is taken to be no negative number by the algebra of sizes: give `least`
    unless the elements go into C++ alone.
    """
    value = node.input(index)
    if value is None:
        return None
    known = known_ints(value)
    if known is not None:
        return known
    names = [new_symbol(low) for _ in range(_length(low, node, value))]
    f = low.function("read_sizes", node)
    pointer = f.read(low.dense(value)) if names else ""
    for i, name in enumerate(names):
        if least is not None:
            f.fail_unless(f"{pointer}[{i}] >= {least}")
        f.line(f"*{f.finds(name)} = (long){pointer}[{i}];")
    if names:
        f.finish(f"{node.kind} {node.name}: sizes")
    return tuple(dims.symbol(name) for name in names)


def new_symbol(low: Lowering) -> str:
    """The name of one more size that a step finds."""
    root = low.root
    root.symbols_made += 1
    return f"_found_{root.symbols_made}"


def define(low: Lowering, node: Node, value: Value, sizes: Sequence[Dim]) -> None:
    """A step that finds the sizes of `value`, which are these."""
    f = low.function("sizes_of", node)
    numbers = f.numbers(*sizes)
    f.line(f"const long sizes[] = {{{numbers or '0L'}}};")
    low.find_sizes(f, node, value.shape, "sizes")
    f.finish(f"{node.kind} {node.name}: sizes")


def array(low: Lowering, f: FunctionWriter, node: Node, name: str, value: Value) -> int:
    """Define the C array `name` of an input's integers in `f`; how many there are."""
    known = known_ints(value)
    if known is not None:
        f.line(f"const long {name}[] = {{{', '.join([*map(size_text, known), '0L'])}}};")
        return len(known)
    count = _length(low, node, value)
    f.line(f"long {name}[{count + 1}];")
    if count:
        f.line(f"for (int i = 0; i < {count}; ++i) {name}[i] = (long){f.read(low.dense(value))}[i];")
    return count


def _length(low: Lowering, node: Node, value: Value) -> int:
    size = value.tensor.size
    if not isinstance(size, int):
        low.unsupported(node, "a list of sizes of unknown length")
    return size


def _sizes(f: FunctionWriter, name: str, shape: Shape) -> None:
    f.line(f"const long {name}[] = {{{', '.join([*map(size_text, shape), '0L'])}}};")


# -- shapes of results -------------------------------------------------------------------------------------------


@finds_sizes("Reshape")
def reshape(low: Lowering, node: Node) -> None:
    x, out = operand(node), node.output
    f = low.function("reshape_sizes", node)
    f.include("sizes.hpp")
    count = array(low, f, node, "wanted", operand(node, 1))
    _sizes(f, "in", x.shape)
    f.line(f"long out[{count + 1}];")
    zeros = "true" if node.op.attributes()["allowzero"] else "false"
    f.fail_unless(f"reshape_sizes(in, {x.rank}, wanted, {count}, {zeros}, out)")
    low.find_sizes(f, node, out.shape, "out")
    f.finish(f"Reshape {node.name}: sizes")


@finds_sizes("Expand")
def expand(low: Lowering, node: Node) -> None:
    x = operand(node)
    f = low.function("expand_sizes", node)
    f.include("sizes.hpp")
    count = array(low, f, node, "wanted", operand(node, 1))
    _sizes(f, "in", x.shape)
    f.line(f"long out[{max(x.rank, count) + 1}];")
    f.fail_unless(f"expand_sizes(in, {x.rank}, wanted, {count}, out)")
    low.find_sizes(f, node, node.output.shape, "out")
    f.finish(f"Expand {node.name}: sizes")


@finds_sizes("ConstantOfShape")
def constant_of_shape(low: Lowering, node: Node) -> None:
    define(low, node, node.output, integers(low, node, 0, least=0) or ())


@finds_sizes("TopK")
def top_k(low: Lowering, node: Node) -> None:
    x = operand(node)
    axis = node.op.attributes()["axis"] % x.rank
    (count,) = integers(low, node, 1, least=0) or (0,)
    f = low.function("sizes_of", node)
    f.fail_unless(f"{f.number(count)} <= {f.number(x.shape[axis])}")
    f.finish(f"TopK {node.name}: sizes")
    for value in node.outputs:
        define(low, node, value, (*x.shape[:axis], count, *x.shape[axis + 1 :]))


@finds_sizes("Split")
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
    f.fail_unless(f"{f.number(total)} == {f.number(x.shape[axis])}")
    f.finish(f"Split {node.name}: sizes")
    for value, size in zip(node.outputs, sizes):
        define(low, node, value, (*x.shape[:axis], size, *x.shape[axis + 1 :]))


@finds_sizes("Squeeze")
def squeeze(low: Lowering, node: Node) -> None:
    x, axes, out = operand(node), node.input(1), node.output
    f = low.function("squeeze_sizes", node)
    f.include("sizes.hpp")
    count = 0 if axes is None else array(low, f, node, "axes", axes)
    _sizes(f, "in", x.shape)
    f.line(f"long out[{out.rank + 1}];")
    text = f"{'axes' if axes is not None else 'nullptr'}, {count}, {'true' if axes is None else 'false'}, {out.rank}"
    f.fail_unless(f"squeeze_sizes(in, {x.rank}, {text}, out)")
    low.find_sizes(f, node, out.shape, "out")
    f.finish(f"Squeeze {node.name}: sizes")


@finds_sizes("Unsqueeze")
def unsqueeze(low: Lowering, node: Node) -> None:
    x, out = operand(node), node.output
    f = low.function("unsqueeze_sizes", node)
    f.include("sizes.hpp")
    count = array(low, f, node, "axes", operand(node, 1))
    _sizes(f, "in", x.shape)
    f.line(f"long out[{out.rank + 1}];")
    f.fail_unless(f"unsqueeze_sizes(in, {x.rank}, axes, {count}, out)")
    low.find_sizes(f, node, out.shape, "out")
    f.finish(f"Unsqueeze {node.name}: sizes")


@finds_sizes("Range")
def range_(low: Lowering, node: Node) -> None:
    f = low.function("range_count", node)
    f.include("sizes.hpp")
    numbers = ", ".join(f"{f.read(low.dense(operand(node, i)))}[0]" for i in range(3))
    f.line(f"const long count = range_count<{node.output.dtype.c_name}>({numbers});")
    f.fail_unless("count >= 0")
    f.line("const long out[] = {count};")
    low.find_sizes(f, node, node.output.shape, "out")
    f.finish(f"Range {node.name}: sizes")


# -- elements that are kept --------------------------------------------------------------------------------------


@finds_sizes("NonZero")
def count_nonzero(low: Lowering, node: Node) -> None:
    x = operand(node)
    f = low.function("count_nonzero", node)
    f.include("sizes.hpp")
    pointer = f.read(row_major(low, x))
    f.line(f"const long out[] = {{{x.rank}, count_nonzero({pointer}, {f.number(dims.product(x.shape))})}};")
    low.find_sizes(f, node, node.output.shape, "out")
    f.finish("NonZero: count")


@lowers("NonZero")
def nonzero(low: Lowering, node: Node, group: Group) -> None:
    x = operand(node)
    source, target = row_major(low, x), low.allocate(node.output)
    f = low.function("nonzero", node)
    f.include("sizes.hpp")
    _sizes(f, "in", x.shape)
    total, count = f.number(dims.product(x.shape)), f.number(node.output.shape[1])
    f.line(f"nonzero({f.read(source)}, in, {x.rank}, {total}, {count}, {f.write(target)});")
    f.finish("NonZero")
    low.tensors[node.output] = target


@finds_sizes("Compress")
def count_compress(low: Lowering, node: Node) -> None:
    x, condition = operand(node), operand(node, 1)
    axis = node.op.attributes()["axis"]
    shape: Shape = (dims.product(x.shape),) if axis is None else x.shape
    axis = 0 if axis is None else axis % x.rank
    f = low.function("count_compress", node)
    f.include("sizes.hpp")
    pointer, given = f.read(low.dense(condition)), f.number(condition.shape[0])
    f.fail_unless(
        f"{given} <= {size_text(shape[axis])} || !count_nonzero({pointer} + {size_text(shape[axis])}, "
        f"{given} - {size_text(shape[axis])})",
        "BAD_INDEX",
    )
    sizes = [f"count_nonzero({pointer}, {given})" if a == axis else size_text(d) for a, d in enumerate(shape)]
    f.line(f"const long out[] = {{{', '.join(sizes)}}};")
    low.find_sizes(f, node, node.output.shape, "out")
    f.finish("Compress: count")


@lowers("Compress")
def compress(low: Lowering, node: Node, group: Group) -> None:
    x, condition = operand(node), operand(node, 1)
    axis = node.op.attributes()["axis"]
    shape: Shape = (dims.product(x.shape),) if axis is None else x.shape
    axis = 0 if axis is None else axis % x.rank
    source, target = row_major(low, x), low.allocate(node.output)
    f = low.function("compress", node)
    f.include("sizes.hpp")
    given = f"{f.read(low.dense(condition))}, {f.number(condition.shape[0])}"
    inner = dims.product(shape[axis + 1 :]) * x.dtype.bytes
    sizes = f.numbers(dims.product(shape[:axis]), shape[axis], inner)
    f.line(f"compress((const char*){f.read(source.bits)}, {given}, {sizes}, (char*){f.write(target.bits)});")
    f.finish("Compress")
    low.tensors[node.output] = target


@finds_sizes("OneHot")
def one_hot_sizes(low: Lowering, node: Node) -> None:
    index = operand(node)
    axis = node.op.attributes()["axis"] % (index.rank + 1)
    (depth,) = integers(low, node, 1, least=0) or (0,)
    define(low, node, node.output, (*index.shape[:axis], depth, *index.shape[axis:]))


@lowers("OneHot", reads=(0, 2))
def one_hot(low: Lowering, node: Node, group: Group) -> None:
    index, values = operand(node), operand(node, 2)
    axis = node.op.attributes()["axis"] % (index.rank + 1)
    places, choices, target = row_major(low, index), low.dense(values), low.allocate(node.output)
    f = low.function("one_hot", node)
    f.include("sizes.hpp")
    sizes = f.numbers(dims.product(index.shape[:axis]), node.output.shape[axis], dims.product(index.shape[axis:]))
    f.line(f"one_hot({f.read(places)}, {sizes}, {f.read(choices.bits)}, {f.write(target.bits)});")
    f.finish("OneHot")
    low.tensors[node.output] = target
