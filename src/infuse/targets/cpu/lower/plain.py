"""Matrix products of any strides, of other elements than float32."""

from __future__ import annotations

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node
from infuse.lowering.expressions import Expression, invoke
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand
from infuse.lowering.statements import Result
from infuse.lowering.tensors import Tensor
from infuse.lowering.writer import FunctionWriter


def plain_matmul(low: Lowering, node: Node) -> None:
    """MatMul of other elements than float32; integers wrap."""
    a, b = (low.storage.tensor(operand(node, i)) for i in range(2))
    a, b = a.insert(0) if a.rank == 1 else a, b.insert(1) if b.rank == 1 else b
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    shape = node.output.shape
    lead = shape[: len(shape) - (operand(node, 0).rank > 1) - (operand(node, 1).rank > 1)]
    a, b = a.expand((*lead, m, k)), b.expand((*lead, k, n))
    target = low.storage.allocate(node.output)
    kernel = "double_matmul" if node.output.dtype == dtypes.float64 else "plain_matmul"
    f = low.function(kernel, node)
    f.include("lines.hpp")
    if kernel == "double_matmul":
        f.include("matmul_double.hpp")
        f.scratch("double_matmul_scratch", "matmul_double.hpp")
    strides = zip(("a_row", "a_col", "b_row", "b_col"), (*a.strides[-2:], *b.strides[-2:]))
    sizes = f.fields(batch=dims.product(lead), m=m, n=n, k=k, **dict(strides))
    f.struct("PlainProduct", "shape", **dict(sizes.items))
    for side, tensor in (("a", a), ("b", b)):
        define_offset(f, side, tensor, len(lead))
    f.call(kernel, "shape", f.read(a), "a_at", f.read(b), "b_at", f.write(target))
    f.finish("MatMul")
    low.storage.tensors[node.output] = target


def define_offset(f: FunctionWriter, side: str, tensor: Tensor, lead: int) -> None:
    """Define the function `side`_at, which gives the offset of matrix `i`."""
    offset = batch_offset(f, side, tensor, lead)
    with f.define(f"{side}_at", "isize i", device=False):
        f.add(Result(offset))


def batch_offset(f: FunctionWriter, side: str, tensor: Tensor, lead: int) -> Expression:
    """The offset of matrix `i`, the first `lead` axes counting matrices; defines the list
    `side`_axes.
    """
    axes: list[Dim] = []
    below: Dim = 1
    for axis in range(lead - 1, -1, -1):
        if tensor.shape[axis] == 1:
            continue
        if tensor.strides[axis] != 0:
            axes += (below, tensor.shape[axis], tensor.strides[axis])
        below = below * tensor.shape[axis]
    axes = axes or [1, 1, 0]
    f.include("offsets.hpp")
    f.array(f"{side}_axes", f.numbers(*axes))
    return invoke("matrix_offset", "i", f"{side}_axes", len(axes) // 3)
