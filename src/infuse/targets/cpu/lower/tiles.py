"""Convolutions by Winograd's tiles (kernels/winograd.hpp)."""

from __future__ import annotations

from typing import Final

from infuse import dtypes
from infuse.ir.graph import Array, Node
from infuse.lowering.fp16_weights import usual_type, weight_type
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand
from infuse.lowering.tensors import Tensor
from infuse.lowering.writer import FunctionWriter
from infuse.targets.cpu.families.convolution import ConvSizes
from infuse.targets.cpu.families.gemm import SUFFIXES
from infuse.targets.cpu.families.winograd import (
    Line,
    Results,
    depths,
    growth,
    lines,
    results_of,
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
    tile, pair, pairs = _tiles(form, sizes)
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


def tile_bytes(low: Lowering, node: Node, form: str, sizes: ConvSizes) -> int:
    """Bytes of the transformed filters of a form by tiles."""
    _, pair, pairs = _tiles(form, sizes)
    dtype = dtypes.bfloat16 if pairs else usual_type(low, operand(node, 1))
    return dtype.bytes * _count(low, node, pair, pairs)


def _tiles(form: str, sizes: ConvSizes) -> tuple[Results, tuple[Line, Line], bool]:
    """Results of a tile, its lines, and whether it is of pairs of bfloat16."""
    tile = results_of(form)
    pair = lines(
        tile, [int(str(size)) for size in sizes[7:9]], [int(str(step)) for step in sizes[9:11]]
    )
    assert pair is not None
    return tile, pair, form.endswith("_bf16")


def _count(low: Lowering, node: Node, pair: tuple[Line, Line], pairs: bool) -> int:
    """Numbers of the transformed filters."""
    filters = operand(node, 1).const
    assert filters is not None
    out, channels = map(int, filters.shape[:2])
    panel, tiled = 2 * low.lanes, pairs and low.machine.has_bf16_tiles
    return -(-out // panel) * panel * depths(*pair, channels, low.lanes, pairs, tiled)


def _packed(
    low: Lowering, node: Node, tile: Results, pair: tuple[Line, Line], pairs: bool
) -> Tensor:
    w = operand(node, 1)
    assert w.const is not None
    lanes, steps = low.lanes, (pair[0].step, pair[1].step)
    dtype = dtypes.bfloat16 if pairs else weight_type(low, w, growth=growth(*pair))
    tiled = pairs and low.machine.has_bf16_tiles
    return low.program.packed(
        w.const,
        ("winograd", tile, steps, lanes, dtype.name, tiled),
        _count(low, node, pair, pairs),
        lambda a: winograd_weights(planar(a), tile, lanes, pairs, dtype.numpy, steps, tiled),
        dtype,
    )


def planar(weights: Array) -> Array:
    """Weights with two axes for the window: a line has a height of one, a volume a single line of
    planes.
    """
    kernel = (1, *weights.shape[2:]) if weights.ndim == 3 else (weights.shape[2], -1)
    return weights.reshape(*weights.shape[:2], *kernel)
