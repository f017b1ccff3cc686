"""How much arithmetic the operators on images, regions and windows do."""

from __future__ import annotations

from infuse.analysis.arithmetic import Arithmetic, Call, counts
from infuse.ir import dims

_TAPS = {"nearest": 0, "linear": 2, "cubic": 4}


@counts("GridSample")
def _grid_sample(call: Call) -> Arithmetic:
    """Every element blends the elements around its place; the places themselves take four
    operations an axis.
    """
    rank = len(call.shape(0)) - 2
    blended = _TAPS[call.attributes["mode"]] ** rank
    return Arithmetic(call.made * blended, call.size(1) * 4)


@counts("AffineGrid")
def _affine_grid(call: Call) -> Arithmetic:
    """A product with a matrix for every place."""
    return Arithmetic(call.made * len(call.outputs[0][1:-1]), call.made)


@counts("RoiAlign")
def _roi_align(call: Call) -> Arithmetic:
    """Four elements for every point; where their number follows from the regions, it is taken to be
    four a bin.
    """
    points = (call.attributes["sampling_ratio"] or 2) ** 2
    return Arithmetic(call.made * points * 4, call.made)


@counts("MaxRoiPool")
def _max_roi_pool(call: Call) -> Arithmetic:
    """As if every region were the whole image."""
    return Arithmetic(0, call.shape(1)[0] * dims.product(call.shape(0)[1:]))


@counts("Col2Im")
def _col2im(call: Call) -> Arithmetic:
    return Arithmetic(0, call.size(0))


@counts("DeformConv")
def _deform_conv(call: Call) -> Arithmetic:
    """What a convolution does, and the blending of what its taps read."""
    rank = len(call.shape(0)) - 2
    taps = dims.product(call.shape(1)[2:])
    windows = call.outputs[0][0] * dims.product(call.outputs[0][2:])
    blended = windows * taps * call.shape(0)[1]
    bias = call.made if call.has(3) else 0
    return Arithmetic(call.made * dims.product(call.shape(1)[1:]) + blended * 2**rank, bias)


@counts("MaxUnpool", "ImageDecoder")
def _moves(call: Call) -> Arithmetic:
    return Arithmetic()
