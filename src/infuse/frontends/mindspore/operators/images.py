"""Resampling of images."""

from __future__ import annotations

from typing import Any, Final

from infuse import dtypes
from infuse.frontends.mindspore.calls import MindCall, primitive
from infuse.ir.graph import Value

_KINDS: Final = {
    "ResizeNearestNeighbor": "nearest", "ResizeNearestNeighborV2": "nearest",
    "ResizeBilinearV2": "linear", "ResizeBilinear": "linear", "ResizeBicubic": "cubic",
    "ResizeLinear1D": "linear",
}  # fmt: skip


@primitive(*_KINDS)
def resize(call: MindCall) -> Value:
    """X with its last axes resampled."""
    g, x, mode = call.g, call.value(0), _KINDS[call.name]
    if len(call.items) == 1:
        sizes = call.listed(call.attribute("size"))
        corners = call.attribute("align_corners", False)
        half = call.attribute("half_pixel_centers", False)
    elif call.name == "ResizeLinear1D":
        sizes, way = call.sizes(1), call.item(2, 1)
        corners, half = way == 1, way == 2
    else:
        sizes = call.sizes(1)
        corners, half = call.item(2, False), call.item(3, False)
    places = "align_corners" if corners else "half_pixel" if half else "asymmetric"
    rounding = "floor"
    if mode == "nearest" and (corners or half):
        rounding = "round_prefer_ceil" if corners else "floor"
        places = "align_corners" if corners else "tf_half_pixel_for_nn"
        if half:
            raise call.unsupported("half_pixel_centers of the nearest elements")
    axes = tuple(range(2, x.rank))
    more: dict[str, Any] = {}
    if mode == "cubic":
        more = {"cubic_coeff_a": -0.5 if half else -0.75, "exclude_outside": int(bool(half))}
    wide = x if x.dtype.is_float or mode == "nearest" else g.cast(x, dtypes.float32)
    return g(
        "Resize", wide, None, None, g.ints(*sizes),
        axes=axes, mode=mode, coordinate_transformation_mode=places, nearest_mode=rounding, **more,
    )  # fmt: skip


_GRIDS: Final[dict[Any, str]] = {
    0: "bilinear",
    1: "nearest",
    "bilinear": "bilinear",
    "nearest": "nearest",
}
_PADS: Final = {0: "zeros", 1: "border", 2: "reflection"}


@primitive("GridSampler2D", "GridSampler3D")
def grid_sample(call: MindCall) -> Value:
    """Elements of x between its places."""
    mode, padding = _GRIDS.get(call.item(2, 0)), call.item(3, 0)
    padding = _PADS.get(padding, padding)
    if mode is None or padding not in _PADS.values():
        raise call.unsupported(f"mode {call.item(2)!r} with padding {padding!r}")
    modes = {"bilinear": "linear"}
    corners = int(bool(call.item(4, False)))
    return call.g(
        "GridSample", call.value(0), call.value(1),
        mode=modes.get(mode, mode), padding_mode=padding, align_corners=corners,
    )  # fmt: skip
