"""Convolutions by Winograd's tiles (kernels/winograd.hpp)."""

from __future__ import annotations

from typing import Final

from infuse import dtypes
from infuse.ir.graph import Array, Node
from infuse.lowering.fp16_weights import weight_type
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand
from infuse.lowering.tensors import Tensor
from infuse.lowering.writer import FunctionWriter
from infuse.targets import DotType
from infuse.targets.cpu.families.convolution import ConvSizes
from infuse.targets.cpu.families.gemm import SUFFIXES
from infuse.targets.cpu.families.winograd import (
    Line,
    depths,
    growth,
    lines,
    winograd_weights,
)

_KINDS: Final = {
    dtypes.float32: "",
    dtypes.bfloat16: ", WinogradPairs",
    dtypes.float16: ", WinogradHalves",
}
"""What weights and tiles are made of, by the type of the weights."""


def call_winograd(
    low: Lowering, node: Node, f: FunctionWriter, form: str, sizes: ConvSizes, x: Tensor, store: str
) -> None:
    """Write the call of a form by tiles."""
    tile, pairs = int(form.removeprefix("winograd")[0]), form.endswith("_bf16")
    pair = lines(
        tile, [int(str(size)) for size in sizes[7:9]], [int(str(step)) for step in sizes[9:11]]
    )
    assert pair is not None
    weights = _packed(low, node, tile, pair, pairs)
    kind = f"{pair[0]}, {pair[1]}{_KINDS[weights.dtype]}"
    cast = "(const int32_t*)" if pairs else ""
    header = f"winograd{SUFFIXES[weights.dtype]}.hpp"
    f.include(header)
    if weights.dtype == dtypes.float32:
        f.share(header, "INFUSE_SHARED_WINOGRAD", *pair[0], *pair[1])
    f.scratch("winograd_scratch", header, sizes, template=(kind,))
    f.call(
        "winograd", f.sizes(sizes), f.read(x), f"{cast}{f.read(weights)}", store, template=(kind,)
    )


def _packed(low: Lowering, node: Node, tile: int, pair: tuple[Line, Line], pairs: bool) -> Tensor:
    w = operand(node, 1)
    assert w.const is not None
    out, channels = w.const.shape[:2]
    panel, lanes = 2 * low.lanes, low.lanes
    steps = (pair[0].step, pair[1].step)
    dtype = dtypes.bfloat16 if pairs else weight_type(low, w, growth=growth(*pair))
    tiled = pairs and DotType.BF16 in low.machine.tiled
    return low.program.packed(
        w.const,
        ("winograd", tile, steps, lanes, dtype.name, tiled),
        -(-out // panel) * panel * depths(*pair, channels, lanes, pairs, tiled),
        lambda a: winograd_weights(planar(a), tile, lanes, pairs, dtype.numpy, steps, tiled),
        dtype,
    )


def planar(weights: Array) -> Array:
    """Weights with two axes for the window: a line has a height of one, a volume a single line of
    planes.
    """
    kernel = (1, *weights.shape[2:]) if weights.ndim == 3 else (weights.shape[2], -1)
    return weights.reshape(*weights.shape[:2], *kernel)
