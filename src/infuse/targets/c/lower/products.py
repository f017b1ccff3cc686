"""Products of matrices of any strides."""

from __future__ import annotations

from infuse import dtypes
from infuse.ir.graph import Node
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import longs, operand
from infuse.targets.c.lower.rows import (
    finish_whole,
    float_matmul,
    integer_matmul,
    is_float,
    takes_integers,
    whole_result,
)
from infuse.targets.c.table import call, lowers


@lowers("MatMulInteger", has_epilogue=True, accumulates=dtypes.int32, takes=takes_integers)
def matmul_integer(low: Lowering, node: Node, group: Group) -> None:
    f = low.function("matmul_integer", *group.nodes)
    integer_matmul(low, node, group, f)
    f.finish("MatMulInteger")


@lowers("MatMul", has_epilogue=True)
def matmul(low: Lowering, node: Node, group: Group) -> None:
    left, right = operand(node), operand(node, 1)
    if right.const is not None and right.rank == 2 and left.rank > 1 and is_float(node):
        f = low.function("matmul", *group.nodes)
        float_matmul(low, node, group, f)
        f.finish("MatMul")
        return
    a, b = (low.storage.tensor(operand(node, i)) for i in range(2))
    if a.dtype != b.dtype:
        low.unsupported(node, "operands of two types")
    shape = node.output.shape
    lead = shape[: len(shape) - (a.rank > 1) - (b.rank > 1)]
    a, b = a.insert(0) if a.rank == 1 else a, b.insert(1) if b.rank == 1 else b
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    a, b = a.expand((*lead, m, k)), b.expand((*lead, k, n))
    target = whole_result(low, node)
    f = low.function("matmul", *group.nodes)
    lists = {"batch": lead, "a_steps": a.strides[:-2], "b_steps": b.strides[:-2]}
    lists |= {"a_strides": a.strides[-2:], "b_strides": b.strides[-2:]}
    for name, sizes in lists.items():
        longs(f, name, map(f.number, sizes))
    steps = len(lead), "batch", "a_steps", "b_steps", f.numbers(m, n, k), "a_strides", "b_strides"
    pointers = f.read(a), f.read(b), f.write(target)
    call(f, "matmul", a.dtype, *steps, *pointers)
    finish_whole(low, node, group, f, target)
    f.finish("MatMul")
