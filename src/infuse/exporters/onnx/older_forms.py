"""Steps from the newest form of an operator to the forms of older opsets."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.exporters.onnx.schemas import (
    NEWEST,
)
from infuse.exporters.onnx.spelling import NotExpressible, Spelling, before
from infuse.ir.dims import Dim
from infuse.ir.graph import Value, constant
from infuse.ir.types import UNKNOWN
from infuse.ops.reduction import REDUCTIONS


@before(NEWEST + 1, "ConstantOfShape")
def value_is_a_tensor(spelling: Spelling) -> None:
    """Value and type are one tensor of one element."""
    value = spelling.attributes.pop("value", 0.0)
    dtype = dtypes.by_onnx(spelling.attributes.pop("dtype", dtypes.float32.onnx))
    spelling.attributes["value"] = np.array([value]).astype(dtype.numpy)


@before(NEWEST + 1, "DequantizeLinear")
def scales_have_the_type_of_the_result(spelling: Spelling) -> None:
    """Scales of float16 are written as the float32 that they give: of others, ONNX Runtime (1.31,
    1.32, from level `extended` on) makes a product whose types it then refuses.
    """
    scale = spelling.inputs[1]
    wide = spelling.attributes.get("output_dtype") == dtypes.float32.onnx
    if wide and scale is not None and scale.const is not None and scale.dtype == dtypes.float16:
        del spelling.attributes["output_dtype"]
        spelling.inputs[1] = constant(scale.const.astype(np.float32), scale.name)


@before(18, *REDUCTIONS)
def axes_are_an_attribute(spelling: Spelling) -> None:
    """Axes must be known; none mean all."""
    axes = spelling.need_ints(1, "axes") if spelling.input(1) is not None else ()
    if spelling.attributes.pop("noop_with_empty_axes", 0) and not axes:
        raise NotExpressible("no axes mean all axes there")
    del spelling.inputs[1:]
    if axes:
        spelling.attributes["axes"] = axes


@before(18, "Split")
def outputs_are_not_counted(spelling: Spelling) -> None:
    """Without sizes, there are as many equal parts as outputs."""
    count, shape = spelling.attributes.pop("num_outputs", None), spelling.shape(0)
    if count is None:
        return
    spelling.outputs += [Value(UNKNOWN) for _ in range(count - len(spelling.outputs))]
    if shape is None:
        return
    size = shape[spelling.attributes.get("axis", 0)]
    if isinstance(size, int) and size % count:
        part = -(-size // count)
        spelling.set_input(1, [part] * (count - 1) + [size - part * (count - 1)], "split")


@before(18, "Pad")
def pads_of_all_axes(spelling: Spelling) -> None:
    """The padding of every axis must be listed."""
    if spelling.input(3) is not None:
        pads, axes = spelling.need_ints(1, "pads"), spelling.need_ints(3, "axes")
        rank = len(_need_shape(spelling))
        full = [0] * (2 * rank)
        for place, axis in enumerate(axes):
            full[axis % rank], full[axis % rank + rank] = pads[place], pads[place + len(axes)]
        spelling.set_input(1, full, "pads")
    del spelling.inputs[3:]


@before(19, "Pad")
def no_wrapping(spelling: Spelling) -> None:
    """Padding cannot wrap around."""
    if spelling.attributes.get("mode") == "wrap":
        raise NotExpressible("it cannot wrap around")


@before(19, "Resize")
def no_symmetric_coordinates(spelling: Spelling) -> None:
    """One way to find coordinates came later."""
    if spelling.attributes.get("coordinate_transformation_mode") == "half_pixel_symmetric":
        raise NotExpressible("it has no half_pixel_symmetric coordinates")


@before(18, "Resize")
def resize_all_axes(spelling: Spelling) -> None:
    """Scales or sizes of every axis must be listed."""
    spelling.drop("antialias", 0)
    spelling.drop("keep_aspect_ratio_policy", "stretch")
    axes = spelling.attributes.pop("axes", ())
    if not axes:
        return
    shape = _need_shape(spelling)
    if (
        spelling.input(1) is not None
        and spelling.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    ):
        raise NotExpressible("its region names some axes only")
    if spelling.input(3) is not None:
        sizes: list[Any] = list(shape)
        for axis, size in zip(axes, spelling.need_ints(3, "sizes")):
            sizes[axis] = size
        if not all(isinstance(size, int) for size in sizes):
            raise NotExpressible("its sizes depend on symbolic sizes")
        spelling.set_input(3, sizes, "sizes")
    else:
        factors = spelling.inputs[2]
        if factors is None or factors.const is None:
            raise NotExpressible("its scales are computed at run time")
        scales = np.ones(len(shape), np.float32)
        scales[list(axes)] = factors.const
        spelling.inputs[2] = constant(scales, "scales")


def _need_shape(spelling: Spelling) -> tuple[Dim, ...]:
    shape = spelling.shape(0)
    if shape is None:
        raise NotExpressible("the rank of its input is not known")
    return shape


@before(14, "Reshape")
def zero_copies(spelling: Spelling) -> None:
    """A zero in the shape always copies a size; symbolic sizes are taken to be larger."""
    result = spelling.outputs[0].tensor.shape
    if spelling.attributes.pop("allowzero", 0) and (result is None or 0 in result):
        raise NotExpressible("a zero in its shape would copy a size")


@before(16, "RoiAlign")
def unshifted_coordinates(spelling: Spelling) -> None:
    """Coordinates are not shifted by half a pixel."""
    mode = spelling.attributes.pop("coordinate_transformation_mode", "half_pixel")
    if mode != "output_half_pixel":
        raise NotExpressible("it has no half_pixel coordinates")


@before(18, "ScatterElements", "ScatterND")
def only_sums_and_products(spelling: Spelling) -> None:
    """Two ways to reduce came later."""
    if spelling.attributes.get("reduction") in ("max", "min"):
        raise NotExpressible(f"it cannot reduce by {spelling.attributes['reduction']}")


@before(24, "Cast")
def numbers_saturate(spelling: Spelling) -> None:
    """How small floats are rounded only matters for those."""
    small = dtypes.by_onnx(spelling.attributes["to"]).bits <= 8
    for name, default in (("saturate", 1), ("round_mode", "up")):
        if not small or spelling.attributes.get(name) == default:
            spelling.attributes.pop(name, None)


@before(28, "Mod")
def remainders_of_integers(spelling: Spelling) -> None:
    """Floating remainders have the sign of the dividend."""
    first = spelling.inputs[0]
    if first is not None and first.dtype.is_float and not spelling.attributes.get("fmod"):
        raise NotExpressible("floating remainders have the sign of the dividend there")


@before(20, "GridSample")
def modes_of_images(spelling: Spelling) -> None:
    """The modes are named for two dimensions."""
    mode = spelling.attributes.get("mode", "linear")
    spelling.attributes["mode"] = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)


@before(20, "DFT")
def axis_is_an_attribute(spelling: Spelling) -> None:
    """The axis must be known."""
    axis = spelling.need_ints(2, "axis")[0] if spelling.input(2) is not None else -2
    del spelling.inputs[2:]
    spelling.attributes["axis"] = axis


@before(21, "QuantizeLinear")
def zero_point_has_the_type(spelling: Spelling) -> None:
    """The element type is that of the zero point."""
    code, scale = spelling.attributes.pop("output_dtype", None), spelling.inputs[1]
    if code and spelling.input(2) is None:
        shape = spelling.shape(1)
        if shape is None or scale is None or not all(isinstance(d, int) for d in shape):
            raise NotExpressible("the shape of its scale is not known")
        zeros = np.zeros([int(d) for d in shape if isinstance(d, int)], dtypes.by_onnx(code).numpy)
        spelling.inputs[2:] = [constant(zeros, "zero_point", dtypes.by_onnx(code))]
