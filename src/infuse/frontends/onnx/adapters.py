"""Lifts from old operator forms to the newest: one short function per change, in the order of
opsets.
"""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.errors import ShapeError
from infuse.frontends.onnx.forms import Form, lift
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN
from infuse.ops.reduction import REDUCTIONS

# -- attributes that became inputs -----------------------------------------------------------------


@lift(13, "Squeeze", "Unsqueeze", "ReduceSum")
@lift(18, *REDUCTIONS)
def axes_to_input(form: Form) -> None:
    """The axes became an input; an empty list means the same as none."""
    if form.attributes.get("axes") == ():
        del form.attributes["axes"]
    form.attribute_to_input("axes", 1)


@lift(13, "Split")
def split_to_input(form: Form) -> None:
    """The sizes of the parts became an input."""
    form.attribute_to_input("split", 1)


@lift(18, "Split")
def split_counts_outputs(form: Form) -> None:
    """Equal parts are counted by an attribute."""
    if form.input(1) is None:
        form.attributes["num_outputs"] = len(form.used)


def check_parts(form: Form) -> None:
    """ShapeError where a Split, in its newest form, makes more parts than it has outputs."""
    split = form.input(1)
    shape = None if split is None else split.tensor.shape
    parts = form.attributes.get("num_outputs") if split is None else shape[0] if shape else None
    if isinstance(parts, int) and parts > len(form.used):
        raise ShapeError(f"Split makes {parts} parts and has {len(form.used)} outputs")


@lift(10, "Slice")
def slice_to_inputs(form: Form) -> None:
    """Starts, ends and axes became inputs."""
    for index, name in enumerate(("starts", "ends", "axes"), 1):
        form.attribute_to_input(name, index)


@lift(10, "TopK")
def topk_to_input(form: Form) -> None:
    """The count became an input."""
    form.set_input(1, form.constant([form.attributes.pop("k")], "k"))


@lift(11, "Pad")
def pad_to_inputs(form: Form) -> None:
    """Sizes and value became inputs; the value 0 is the default."""
    form.attribute_to_input("pads", 1)
    value = form.attributes.pop("value", 0.0)
    if value:
        form.set_input(2, form.number_like(value, 0, "value"))


@lift(11, "Clip")
def clip_to_inputs(form: Form) -> None:
    """Bounds became inputs; the largest floats stand for none."""
    largest = float(np.finfo(np.float32).max)
    for index, (name, absent) in enumerate((("min", -largest), ("max", largest)), 1):
        value = form.attributes.pop(name, absent)
        if abs(value) < largest:
            form.set_input(index, form.number_like(value, 0, name))


@lift(9, "Upsample")
def upsample_to_input(form: Form) -> None:
    """The scales became an input."""
    scales = np.array(form.attributes.pop("scales"), np.float32)
    form.set_input(1, form.constant(scales, "scales"))


@lift(20, "DFT")
def dft_to_input(form: Form) -> None:
    """The axis became an input."""
    form.set_input(2, form.constant(form.attributes.pop("axis", 1), "axis"))


# -- operators that changed their name -------------------------------------------------------------


@lift(11, "Scatter")
def scatter_elements(form: Form) -> None:
    """Scatter got a clearer name."""
    form.kind = "ScatterElements"


@lift(10, "Upsample")
def upsample_resizes(form: Form) -> None:
    """Upsample is Resize."""
    form.kind = "Resize"


@lift(11, "Resize")
def resize_chooses_coordinates(form: Form) -> None:
    """Before 11, coordinates are asymmetric; nearest rounds up where it shrinks, else down."""
    x, scales = form.inputs[0], form.input(1)
    mode = form.attributes.get("mode", "nearest")
    mode = "linear" if mode == "bilinear" else mode
    up, down = scales, None
    if (
        mode == "nearest"
        and scales is not None
        and scales.const is not None
        and (scales.const < 1).any()
    ):
        up = (
            form.constant(np.maximum(scales.const, 1), "upward")
            if (scales.const > 1).any()
            else None
        )
        down = form.constant(np.minimum(scales.const, 1), "downward")
    options = {"mode": mode, "coordinate_transformation_mode": "asymmetric"}
    if up is not None and down is not None:
        x = form.emit("Resize", x, None, up, nearest_mode="floor", **options)
    rounding = "floor" if down is None else "ceil"
    form.become("Resize", x, None, up if down is None else down, nearest_mode=rounding, **options)


@lift(13, "Resize")
def resize_for_tensorflow(form: Form) -> None:
    """`tf_half_pixel_for_nn` went; rounding half up of the half-pixel coordinate is the same as its
    floor.
    """
    if form.attributes.get("coordinate_transformation_mode") != "tf_half_pixel_for_nn":
        return
    if (
        form.attributes.get("mode", "nearest") != "nearest"
        or form.attributes.get("nearest_mode") != "floor"
    ):
        raise form.refuse("tf_half_pixel_for_nn is only known for nearest with floor")
    form.attributes.update(
        coordinate_transformation_mode="half_pixel", nearest_mode="round_prefer_ceil"
    )


@lift(20, "GridSample")
def grid_sample_modes(form: Form) -> None:
    """The modes are named for any rank."""
    mode = form.attributes.get("mode", "bilinear")
    form.attributes["mode"] = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)


# -- changed meaning -------------------------------------------------------------------------------


@lift(13, "Softmax", "LogSoftmax", "Hardmax")
def softmax_over_trailing_axes(form: Form) -> None:
    """Before 13, all axes from `axis` on are one."""
    axis, rank, x = form.attributes.get("axis", 1), form.rank(0), form.inputs[0]
    if axis == -1 or (rank is not None and axis in (rank - 1, -1)):
        form.attributes["axis"] = -1
        return
    result = form.emit(form.kind, form.emit("Flatten", x, axis=axis), axis=-1)
    form.become("Reshape", result, form.emit("Shape", x))


@lift(16, "RoiAlign")
def roi_align_coordinates(form: Form) -> None:
    """Before 16, coordinates are not shifted by half a pixel."""
    form.attributes["coordinate_transformation_mode"] = "output_half_pixel"


@lift(21, "GroupNormalization")
def group_normalization_per_channel(form: Form) -> None:
    """Before 21, scale and bias have one element per group."""
    groups, channels = int(form.attributes["num_groups"]), form.dim(0, 1)
    if not isinstance(channels, int) or groups < 1 or channels % groups:
        raise form.refuse(f"{channels} channels do not form {groups} groups")
    repeats = form.constant([groups, channels // groups], "repeats")
    for index in (1, 2):
        column = form.emit("Unsqueeze", form.inputs[index], form.constant([1], "axes"))
        wide = form.emit("Expand", column, repeats)
        form.inputs[index] = form.emit("Reshape", wide, form.constant([channels], "channels"))


@lift(9, "BatchNormalization")
def batch_normalization_per_activation(form: Form) -> None:
    """Before 9, `spatial` = 0 gives every activation its own statistics."""
    if form.attributes.pop("spatial", 1):
        return
    x, scale, bias, mean, variance = form.inputs
    epsilon = form.number_like(form.attributes.get("epsilon", 1e-5), 4, "epsilon")
    deviation = form.emit("Sqrt", form.emit("Add", variance, epsilon))
    normalized = form.emit("Div", form.emit("Sub", x, mean), deviation)
    form.become("Add", form.emit("Mul", normalized, scale), bias)


@lift(14, "BatchNormalization")
def batch_normalization_training(form: Form) -> None:
    """Before 14, asking for more than the first output asks for training."""
    if any(form.used[3:]):
        raise form.refuse("its saved statistics are read")
    if any(form.used[1:]):
        form.attributes["training_mode"] = 1
    del form.used[3 if any(form.used[1:]) else 1 :]


@lift(10, "Dropout")
def dropout_mask_of_floats(form: Form) -> None:
    """Before 10, the mask has the type of the data."""
    if any(form.used[1:]):
        raise form.refuse("its mask is read")
    del form.used[1:]


@lift(12, "Dropout")
def dropout_to_input(form: Form) -> None:
    """Before 12, the ratio is an attribute; without a training mode it has no effect."""
    form.attributes.pop("ratio", None)


@lift(2, "LabelEncoder")
def labels_by_place(form: Form) -> None:
    """Before 2 of ai.onnx.ml, strings and their places in one list stand for each other."""
    texts = form.attributes.pop("classes_strings", ())
    places = tuple(range(len(texts)))
    is_text = form.dtype(0) == dtypes.string
    form.attributes.update(
        {"keys_strings": texts, "values_int64s": places}
        if is_text
        else {"keys_int64s": places, "values_strings": texts}
    )


@lift(9, "Scan")
def scan_over_batches(form: Form) -> None:
    """Before 9, it runs over batches: a scan of the scan."""
    if form.inputs[0] is not None:
        raise form.refuse("its sequences have lengths of their own")
    body, scanned = form.attributes["body"], form.attributes["num_scan_inputs"]
    batch = Graph("batch")
    inputs = [batch.add_input(f"{form.name}/{value.name}", UNKNOWN) for value in body.inputs]
    outputs = [Value(UNKNOWN, f"{form.name}/{name}") for name in body.output_names]
    options = {
        "num_scan_inputs": scanned,
        "scan_input_directions": form.attributes.get("directions"),
    }
    scan = Node(
        make_operator("", "Scan", options),
        inputs,
        outputs,
        name=form.name,
        subgraphs={"body": body},
    )
    batch.add_node(scan)
    for value in outputs:
        batch.add_output(value)
    form.become("Scan", *form.inputs[1:], num_scan_inputs=len(inputs), body=batch)
