"""Reading and writing by index."""

from __future__ import annotations

from infuse import dtypes
from infuse.codegen.groups import Group
from infuse.codegen.lower.views import operand
from infuse.codegen.lowering import Lowering, lowers
from infuse.codegen.program import size_text
from infuse.codegen.tensors import Tensor, natural
from infuse.ir import dims
from infuse.ir.graph import Node, Value

_JOINS = {"none": "Assign", "add": "Add", "mul": "Multiply", "min": "Smaller", "max": "Larger"}


def row_major(low: Lowering, value: Value) -> Tensor:
    """The value, dense in row-major order."""
    return low.dense(value, natural(value.rank))


@lowers("Gather")
def gather(low: Lowering, node: Node, group: Group) -> None:
    x, index = operand(node, 0), operand(node, 1)
    axis = node.op.attributes()["axis"] % x.rank
    if index.const is not None and index.const.size == 1:
        number, size = int(index.const.reshape(-1)[0]), x.shape[axis]
        start = size + number if number < 0 else number
        if dims.compare("<", start, size) is not False and dims.compare(">=", start, 0) is not False:
            view = low.tensor(x).slice(axis, start, 1)
            view = view.drop(axis)
            for _ in range(index.rank):
                view = view.insert(axis)
            low.tensors[node.output] = view
            return
    source, places = row_major(low, x), row_major(low, index)
    target = low.allocate(node.output)
    f = low.function("gather", node)
    f.include("gather.hpp")
    f.checks = True
    sizes = [dims.product(x.shape[:axis]), x.shape[axis], dims.product(x.shape[axis + 1 :]), dims.product(index.shape)]
    text = ", ".join(map(size_text, sizes))
    pointers = f"{f.read(source)}, {f.read(places)}, {f.write(target)}"
    f.line(f"if (!gather<{x.dtype.bytes}>(c, {text}, {pointers})) return 2;")
    f.finish("Gather")
    low.tensors[node.output] = target


def sizes_array(name: str, value: Value) -> str:
    """The definition of a C array of a value's sizes."""
    return f"const long {name}[] = {{{', '.join(map(size_text, value.shape)) or '1L'}}};"


@lowers("GatherElements")
def gather_elements(low: Lowering, node: Node, group: Group) -> None:
    x, index = operand(node, 0), operand(node, 1)
    axis = node.op.attributes()["axis"] % x.rank
    source, places = row_major(low, x), row_major(low, index)
    target = low.allocate(node.output)
    f = low.function("gather_elements", node)
    f.include("gather.hpp")
    f.checks = True
    f.line(sizes_array("index_sizes", index))
    f.line(sizes_array("sizes", x))
    pointers = f"{f.read(source)}, {f.read(places)}, {f.write(target)}"
    f.line(f"if (!gather_elements<{x.dtype.bytes}>(c, {x.rank}, index_sizes, sizes, {axis}, {pointers})) return 2;")
    f.finish("GatherElements")
    low.tensors[node.output] = target


@lowers("GatherND")
def gather_nd(low: Lowering, node: Node, group: Group) -> None:
    x, index = operand(node, 0), operand(node, 1)
    lead = node.op.attributes()["batch_dims"]
    depth = index.shape[-1]
    if not isinstance(depth, int):
        low.unsupported(node, "index tuples of unknown length")
    assert isinstance(depth, int)
    source, places = row_major(low, x), row_major(low, index)
    target = low.allocate(node.output)
    f = low.function("gather_nd", node)
    f.include("gather.hpp")
    f.checks = True
    selected = x.shape[lead : lead + depth]
    f.line(f"const long sizes[] = {{{', '.join(map(size_text, selected)) or '1L'}}};")
    batch, points = dims.product(index.shape[:lead]), dims.product(index.shape[lead:-1])
    slice_ = dims.product(x.shape[lead + depth :])
    text = f"{size_text(batch)}, {size_text(points)}, {depth}, sizes, {size_text(slice_)}"
    pointers = f"{f.read(source)}, {f.read(places)}, {f.write(target)}"
    f.line(f"if (!gather_nd<{x.dtype.bytes}>(c, {text}, {pointers})) return 2;")
    f.finish("GatherND")
    low.tensors[node.output] = target


@lowers("ScatterND")
def scatter_nd(low: Lowering, node: Node, group: Group) -> None:
    x, index, updates = (operand(node, i) for i in range(3))
    depth = index.shape[-1]
    if not isinstance(depth, int) or not x.dtype.c_name:
        low.unsupported(node, "these operands")
    assert isinstance(depth, int)
    tensors = [row_major(low, v) for v in (x, index, updates)]
    target = low.allocate(node.output)
    f = low.function("scatter_nd", node)
    f.include("gather.hpp")
    f.checks = True
    f.line(f"const long sizes[] = {{{', '.join(map(size_text, x.shape[:depth])) or '1L'}}};")
    points, slice_ = dims.product(index.shape[:-1]), dims.product(x.shape[depth:])
    pointers = ", ".join([*(f.read(t) for t in tensors), f.write(target)])
    join = _JOINS[node.op.attributes()["reduction"]]
    text = f"{size_text(points)}, {depth}, sizes, {size_text(slice_)}, {pointers}"
    f.line(f"if (!scatter_nd<{join}>(c, {text})) return 2;")
    f.finish("ScatterND")
    low.tensors[node.output] = target


@lowers("ScatterElements")
def scatter_elements(low: Lowering, node: Node, group: Group) -> None:
    x, index, updates = (operand(node, i) for i in range(3))
    axis = node.op.attributes()["axis"] % x.rank
    tensors = [row_major(low, v) for v in (x, index, updates)]
    target = low.allocate(node.output)
    f = low.function("scatter_elements", node)
    f.include("gather.hpp")
    f.checks = True
    f.line(sizes_array("index_sizes", index))
    f.line(sizes_array("sizes", x))
    pointers = ", ".join([*(f.read(t) for t in tensors), f.write(target)])
    join = _JOINS[node.op.attributes()["reduction"]]
    text = f"{x.rank}, index_sizes, sizes, {axis}, {pointers}"
    f.line(f"if (!scatter_elements<{join}>(c, {text})) return 2;")
    f.finish("ScatterElements")
    low.tensors[node.output] = target


@lowers("Trilu", reads=(0,))
def trilu(low: Lowering, node: Node, group: Group) -> None:
    x, offset = operand(node), node.input(1)
    shift = 0
    if offset is not None:
        if offset.const is None:
            low.unsupported(node, "a diagonal that is computed")
            return
        shift = int(offset.const.reshape(-1)[0])
    source, target = row_major(low, x), low.allocate(node.output)
    f = low.function("trilu", node)
    read, write = f.read(source), f.write(target)
    rows, columns = x.shape[-2:]
    count = size_text(dims.product(x.shape[:-1]))
    compare = ">=" if node.op.attributes()["upper"] else "<="
    zero = "false" if x.dtype == dtypes.bool_ else f"({x.dtype.c_name})0"
    f.line(f"const long columns = {size_text(columns)};")
    f.line(f"for (long i = 0; i < {count}; ++i)")
    f.line("  for (long j = 0; j < columns; ++j)")
    kept = f"j - i % {size_text(rows)} {compare} {shift}"
    f.line(f"    {write}[i * columns + j] = {kept} ? {read}[i * columns + j] : {zero};")
    f.finish("Trilu")
    low.tensors[node.output] = target
