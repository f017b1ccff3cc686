"""Products with matrices of few bits, decoded where they are multiplied."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.codegen.groups import Group
from infuse.codegen.kernel_table import lowers
from infuse.codegen.lower.linear import label
from infuse.codegen.lower.runtime_operands import operand
from infuse.codegen.lowering import Lowering
from infuse.codegen.tensors import natural
from infuse.ir import dims
from infuse.ir.graph import Node
from infuse.ops.domains.microsoft import DOMAIN
from infuse.ops.domains.microsoft_bits import MatMulNBits
from infuse.targets.cpu.emit.sizes import sizes_text
from infuse.targets.cpu.families.nbits import NBitsSizes


def decodes(node: Node) -> bool:
    """Whether the kernel takes a MatMulNBits: known weights of 4 or 8 bits, in blocks that fill
    vectors, in float32.
    """
    op, held = node.op, [node.input(i) for i in (1, 2, 3)]
    assert isinstance(op, MatMulNBits)
    plain = op.bits in (4, 8) and op.block_size % 32 == 0 and node.input(4) is None
    return (
        plain
        and node.output.dtype == dtypes.float32
        and all(v is None or v.const is not None for v in held)
    )


@lowers("MatMulNBits", domain=DOMAIN, has_epilogue=True)
def matmul_n_bits(low: Lowering, node: Node, group: Group) -> None:
    a, b, op, bias = operand(node), operand(node, 1), node.op, node.input(5)
    assert isinstance(op, MatMulNBits)
    assert b.const is not None
    left = low.dense(a, natural(a.rank))
    scales, shifts = op.steps(
        *(None if v is None else v.const for v in (node.input(2), node.input(3)))
    )
    f = low.function("matmul_n_bits", *group.nodes)
    f.include("nbits.hpp")
    sink = low.sink(
        f, group, natural(node.output.rank), bias=None if bias is None else low.tensor(bias)
    )
    sizes = NBitsSizes(dims.product(a.shape[:-1]), op.N, op.K, op.block_size, op.K)
    held = [low.program.weight(np.ascontiguousarray(array)) for array in (b.const, scales, shifts)]
    f.scratch(f"nbits_scratch({sizes_text(sizes)})", "nbits.hpp")
    pointers = ", ".join(f.read(tensor) for tensor in (left, *held))
    f.call("nbits_matmul", f.sizes(sizes), pointers, sink, template=(op.bits,))
    f.finish(label(group))
