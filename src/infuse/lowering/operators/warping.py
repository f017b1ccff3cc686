"""The cheapest path through a table of costs, whose length the run finds out."""

from __future__ import annotations

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.graph import Node
from infuse.lowering.expressions import Pointed
from infuse.lowering.groups import Group
from infuse.lowering.kernel_table import COMMON
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import new_symbol, operand, row_major
from infuse.lowering.tensors import natural


@COMMON.lowers("DynamicTimeWarping", domain="com.microsoft")
def dynamic_time_warping(low: Lowering, node: Node, group: Group) -> None:
    x = operand(node)
    if x.dtype != dtypes.float32:
        low.unsupported(node, f"costs of {x.dtype}")
    rows, columns = x.shape[-2:]
    limit = rows + columns
    sums = low.storage.scratch_tensor(dtypes.float32, (columns + 1,), natural(1))
    steps = low.storage.scratch_tensor(dtypes.uint8, (rows, columns), natural(2))
    path = low.storage.scratch_tensor(dtypes.int32, (2, limit), natural(2))
    source, name = row_major(low, x), new_symbol(low)
    f = low.function("warping_path", node)
    f.include("warping.h")
    numbers = f.number(rows), f.number(columns)
    operands = f.read(source), f.write(sums), f.write(steps), f.number(limit), f.write(path)
    f.call("warping_path", *numbers, *operands, context=False, result="count")
    f.assign(Pointed(f.resolves(name)), "count")
    f.array("sizes", 2, "count")
    low.resolve_sizes(f, node, node.output.shape, "sizes")
    f.finish("DynamicTimeWarping")
    target = low.storage.allocate(node.output)
    low.storage.copy(path.slice(1, 0, dims.symbol(name)), target, "path", node)
    low.storage.tensors[node.output] = target
