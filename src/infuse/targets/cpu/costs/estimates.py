"""What a convolution or matrix product costs by the fitted cost model, before anything is
lowered.
"""

from __future__ import annotations

from collections.abc import Sequence

from infuse import dtypes
from infuse.ir.types import TensorType
from infuse.lowering.costs import KernelSeconds, SizeOf
from infuse.ops.contraction import MatMul
from infuse.ops.convolution import Conv
from infuse.ops.core.base import Op
from infuse.targets import Machine
from infuse.targets.cpu.costs.cost_model import predict
from infuse.targets.cpu.families.convolution import ConvSizes
from infuse.targets.cpu.families.depthwise import DepthwiseSizes
from infuse.targets.cpu.families.winograd import tiles_of


def kernel_seconds(machine: Machine, threads: int) -> KernelSeconds:
    """A function that gives the seconds of one call of an operator on operands of these types, None
    for an operator that the cost model does not know.
    """

    def seconds(
        op: Op, operands: Sequence[TensorType], result: TensorType, size: SizeOf
    ) -> float | None:
        shapes = [t.shape for t in operands]
        if result.dtype != dtypes.float32 or result.shape is None or None in shapes:
            return None
        shapes_ = [
            [size(d) for d in shape] for shape in (*shapes, result.shape) if shape is not None
        ]
        if isinstance(op, MatMul):
            return _product(shapes_, machine, threads)
        if isinstance(op, Conv) and len(result.shape) == 4:
            return _convolution(op, shapes_, machine, threads)
        return None

    return seconds


def _product(shapes: Sequence[Sequence[int]], machine: Machine, threads: int) -> float | None:
    left, right, made = shapes
    if len(left) < 2 or len(right) < 2:
        return None
    stacks = rows = 1
    for count in made[:-1]:
        rows *= count
    if len(right) > 2:
        stacks, rows = max(rows // max(made[-2], 1), 1), made[-2]
    return stacks * predict("gemm", "fp32", (rows, made[-1], left[-1]), machine, threads)


def _convolution(
    op: Conv, shapes: Sequence[Sequence[int]], machine: Machine, threads: int
) -> float:
    (n, c, h, w), (oc, _, kh, kw), (_, _, oh, ow) = shapes[0], shapes[1], shapes[-1]
    strides, spread = op.steps(2), op.spread(2)
    pads = [int(begin) for begin, _ in op.padding((h, w), (kh, kw)) if isinstance(begin, int)]
    if op.group == c == oc:
        sizes = DepthwiseSizes._make([n, h, w, c, oh, ow, kh, kw, *strides, *spread, *pads])
        return predict("depthwise", "rows", sizes, machine, threads)
    if op.group == kh == kw == 1 and strides == (1, 1) and not any(pads):
        return predict("gemm", "fp32", (n * oh * ow, oc, c), machine, threads)
    fields = ConvSizes._make(
        [n, h, w, c, oh, ow, oc, kh, kw, *strides, *spread, *pads, op.group, c]
    )
    names = ["taps", *(tiles_of(c, oc, kh, kw, *strides, *spread) if op.group == 1 else [])]
    return min(predict("conv", name, fields, machine, threads) for name in names)
