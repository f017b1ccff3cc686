"""Sampling of images at given places, and what detectors do with regions of them."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node
from infuse.lowering.expressions import Aggregate, elements, enumerator, infix, invoke
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import define, integers, operand, row_major
from infuse.lowering.tensors import channels_last, natural
from infuse.lowering.writer import FunctionWriter
from infuse.ops.regions import MaxRoiPool, RoiAlign
from infuse.ops.vision import GridSample
from infuse.targets.cpu.lower.convolution import image
from infuse.targets.cpu.table import lowers, resolves_sizes
from infuse.targets.text.literals import literal

MOST_SAMPLE_AXES = 6
_MODES = ("nearest", "linear", "cubic")
_PADDINGS = ("zeros", "border", "reflection")
"""As kernels/sample.hpp numbers them."""


@lowers("GridSample")
def grid_sample(low: Lowering, node: Node, group: Group) -> None:
    x, grid, op = operand(node), operand(node, 1), node.op
    assert isinstance(op, GridSample)
    rank = x.rank - 2
    if rank > MOST_SAMPLE_AXES:
        low.unsupported(node, f"{rank}-dimensional images")
    # Nothing is computed where pixels are only picked: halves move as the bits they are.
    moves = op.mode == "nearest"
    source, places = image(low, node), row_major(low, grid)
    target = low.storage.allocate(node.output, channels_last(x.rank))
    f = low.function("grid_sample", node)
    f.include("sample.hpp")
    f.struct(
        "SampleShape",
        "shape",
        n=f.number(x.shape[0]),
        c=f.number(x.shape[1]),
        points=f.number(dims.product(grid.shape[1:-1])),
        rank=rank,
        **{"in": elements(*map(f.number, x.shape[2:]))},
        mode=enumerator("SampleMode", _MODES, op.mode),
        padding=enumerator("SamplePadding", _PADDINGS, op.padding_mode),
        align_corners="true" if op.align_corners else "false",
    )
    read, write = (
        (f.read(source.bits), f.write(target.bits)) if moves else (f.read(source), f.write(target))
    )
    f.call("grid_sample", "shape", read, f.read(places), write)
    f.finish("GridSample")
    low.storage.tensors[node.output] = target


@resolves_sizes("AffineGrid")
def affine_grid_sizes(low: Lowering, node: Node) -> None:
    sizes = integers(low, node, 1, least=0) or ()
    _check_equal(low, node, sizes[0], operand(node).shape[0])
    define(low, node, node.output, (operand(node).shape[0], *sizes[2:], node.output.rank - 2))


def _check_equal(low: Lowering, node: Node, a: Dim, b: Dim) -> None:
    """A step that fails where two sizes differ."""
    f = low.function("check", node)
    left, right = f.number(a), f.number(b)
    f.fail_unless(infix(left, "==", right), "DIFFERENT_SIZES")
    f.finish(f"{node.kind} {node.name}: sizes")


@lowers("AffineGrid", runtime_inputs=(0,))
def affine_grid(low: Lowering, node: Node, group: Group) -> None:
    theta, shape = operand(node), node.output.shape
    source, target = row_major(low, theta), low.storage.allocate(node.output)
    f = low.function("affine_grid", node)
    f.include("sample.hpp")
    f.array("size", f.numbers(*shape[1:-1]))
    aligned = "true" if node.op.attributes()["align_corners"] else "false"
    count, read = f.number(shape[0]), f.read(source)
    f.call("affine_grid", count, len(shape) - 2, "size", aligned, read, f.write(target))
    f.finish("AffineGrid")
    low.storage.tensors[node.output] = target


def _regions(f: FunctionWriter, node: Node) -> Aggregate:
    """The RegionShape."""
    x, out = operand(node), node.output.shape
    n, c, h, w = x.shape
    f.include("regions.hpp")
    regions, _, rows, columns = out
    sizes = f.fields(n=n, h=h, w=w, c=c, regions=regions, rows=rows, columns=columns)
    return Aggregate(sizes.items, "RegionShape")


@lowers("RoiAlign")
def roi_align(low: Lowering, node: Node, group: Group) -> None:
    op = node.op
    assert isinstance(op, RoiAlign)
    if operand(node, 2).dtype != dtypes.int64:
        low.unsupported(node, f"numbers of images as {operand(node, 2).dtype}")
    rois, indices = (row_major(low, operand(node, i)) for i in (1, 2))
    source, target = image(low, node), low.storage.allocate(node.output, channels_last(4))
    f = low.function("roi_align", node)
    shape, scale = _regions(f, node), literal(op.spatial_scale, source.dtype)
    largest, half = (("false", "true")[flag] for flag in (op.mode == "max", _shifted(op)))
    pointers = f"{f.read(source)}, {f.read(rois)}, {f.read(indices)}, {f.write(target)}"
    ratio = f.number(max(op.sampling_ratio, 0))
    f.call(
        "roi_align", shape, scale, ratio, half, pointers, template=(largest,), failure="BAD_INDEX"
    )
    f.include("failure.h")
    f.finish("RoiAlign")
    low.storage.tensors[node.output] = target


def _shifted(op: RoiAlign) -> bool:
    return op.coordinate_transformation_mode == "half_pixel"


@lowers("MaxRoiPool")
def max_roi_pool(low: Lowering, node: Node, group: Group) -> None:
    op = node.op
    assert isinstance(op, MaxRoiPool)
    rois = row_major(low, operand(node, 1))
    source, target = image(low, node), low.storage.allocate(node.output, channels_last(4))
    f = low.function("max_roi_pool", node)
    shape, scale = _regions(f, node), literal(op.spatial_scale, source.dtype)
    pointers = f"{f.read(source)}, {f.read(rois)}, {f.write(target)}"
    f.call("max_roi_pool", shape, scale, pointers, failure="BAD_INDEX")
    f.include("failure.h")
    f.finish("MaxRoiPool")
    low.storage.tensors[node.output] = target


@lowers("NonMaxSuppression")
def non_max_suppression(low: Lowering, node: Node, group: Group) -> None:
    boxes, scores = operand(node), operand(node, 1)
    if boxes.dtype != dtypes.float32 or scores.dtype != dtypes.float32:
        low.unsupported(node, f"boxes of {boxes.dtype}")
    images, classes, count = scores.shape
    units = images * classes
    corners = low.storage.scratch_tensor(boxes.dtype, (images, 5, count), natural(3))
    f = low.function("box_corners", node)
    f.include("suppress.hpp")
    centers = "true" if node.op.attributes()["center_point_box"] else "false"
    sizes = f.numbers(images, count)
    f.call("box_corners", sizes, centers, f.read(row_major(low, boxes)), f.write(corners))
    f.finish("NonMaxSuppression: corners")
    selected = low.storage.scratch_tensor(dtypes.int32, (units, count), natural(2))
    counts = low.storage.scratch_tensor(dtypes.int32, (units,), natural(1))
    f = low.function("suppress", node)
    f.include("suppress.hpp")
    f.scratch("suppress_scratch", "suppress.hpp", count)
    counts_of = {"images": images, "classes": classes, "boxes": count}
    numbers = {name: f.number(size) for name, size in counts_of.items()}
    limits = ((2, dtypes.int64), (3, dtypes.float32), (4, dtypes.float32))
    most, overlap, least = (_number(low, f, node, i, dtype) for i, dtype in limits)
    score = node.input(4)
    has_score = "false" if score is None or score.tensor.size == 0 else "true"
    f.struct(
        "Suppression",
        "shape",
        **numbers,
        most=f"isize({most})",
        overlap=f"float({overlap})",
        has_least=has_score,
        least=f"float({least})",
    )
    f.constant("limit", f.number(count))
    pointers = f"{f.read(corners)}, {f.read(row_major(low, scores))}, {f.write(selected)}"
    f.call("suppress", "shape", "limit", pointers, f.write(counts))
    f.array("out", invoke("suppressed_total", f.write(counts), f.number(units)), "3")
    low.resolve_sizes(f, node, node.output.shape, "out")
    f.finish("NonMaxSuppression")
    target = low.storage.allocate(node.output)
    f = low.function("list_kept", node)
    f.include("suppress.hpp")
    sizes = f.numbers(units, classes, count)
    f.call("list_kept", sizes, f.read(selected), f.read(counts), f.write(target), context=False)
    f.finish("NonMaxSuppression: rows")
    low.storage.tensors[node.output] = target


def _number(low: Lowering, f: FunctionWriter, node: Node, index: int, dtype: DType) -> str:
    """The single number of an optional input as C++, zero where it is left out. Constants lie in
    memory as those of a run do, of this type, so that functions do not differ by them.
    """
    value = node.input(index)
    if value is None or value.tensor.size == 0:
        tensor = low.program.weight(np.zeros(1, dtype.numpy))
    elif value.const is not None:
        tensor = low.program.weight(value.const.reshape(-1)[:1].astype(dtype.numpy))
    else:
        tensor = low.storage.dense(value)
    return f"{f.read(tensor)}[0]"
