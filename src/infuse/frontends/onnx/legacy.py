"""Lifts of operator forms before opset 7, when broadcasting was an attribute and shapes were no
inputs.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from onnx import TensorProto

from infuse.frontends.onnx.forms import Form, lift
from infuse.tracing.calls import words

_IN_PLACE: Final = words("""Abs Add BatchNormalization Ceil Clip Div Dropout Elu Exp Floor
    HardSigmoid InstanceNormalization LeakyRelu Log Max Mean Min Mul Neg PRelu Reciprocal
    Relu Reshape Selu Sigmoid Sqrt Sub Sum Tanh""")
_BINARY: Final = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")


@lift(2, "Pad")
def paddings_to_pads(form: Form) -> None:
    """`pads` was called `paddings`."""
    form.attributes["pads"] = form.attributes.pop("paddings", ())


@lift(2, "Split")
def split_from_input(form: Form) -> None:
    """The sizes of the parts could come as an input."""
    sizes = form.input(1)
    if sizes is not None:
        form.attributes.pop("split", None)
        if sizes.const is None:
            raise form.refuse("its sizes are computed")
        form.attributes["split"] = tuple(int(size) for size in sizes.const)
        del form.inputs[1:]


@lift(2, "LpPool", "GlobalLpPool")
def power_is_whole(form: Form) -> None:
    """The power was a float."""
    power = form.attributes.get("p", 2.0)
    if power != int(power):
        raise form.refuse(f"the power {power} is not a whole number")
    form.attributes["p"] = int(power)


@lift(4, "Concat")
def concat_axis_is_given(form: Form) -> None:
    """The axis had a default."""
    form.attributes.setdefault("axis", 1)


@lift(5, "Reshape")
def shape_to_input(form: Form) -> None:
    """The shape became an input."""
    form.attribute_to_input("shape", 1)


@lift(6, *_IN_PLACE)
def outputs_are_new(form: Form) -> None:
    """Operators could claim to work in place."""
    form.attributes.pop("consumed_inputs", None)


@lift(6, "Selu")
def selu_constants(form: Form) -> None:
    """The constants were rounded."""
    form.attributes.setdefault("alpha", 1.6732)
    form.attributes.setdefault("gamma", 1.0507)


@lift(6, "Cast")
def cast_by_number(form: Form) -> None:
    """Element types were named."""
    name = str(form.attributes.get("to", "")).upper()
    if name not in TensorProto.DataType.keys():  # noqa: SIM118
        raise form.refuse(f"there is no element type {name!r}")
    form.attributes["to"] = TensorProto.DataType.Value(name)


@lift(6, "Tile")
def tile_every_axis(form: Form) -> None:
    """Tile worked along one axis."""
    _, tiles, axis = form.inputs
    rank = form.rank(0)
    if rank is None or axis is None or axis.const is None or tiles is None:
        raise form.refuse("its axis or the rank of its input is not known")
    repeats = np.ones(rank, np.int64)
    index = int(axis.const.reshape(-1)[0])
    if tiles.const is None or not -rank <= index < rank:
        raise form.refuse("its number of tiles is computed, or its axis lies outside")
    repeats[index] = int(tiles.const.reshape(-1)[0])
    form.inputs[1:] = [form.constant(repeats, "repeats")]


@lift(7, *_BINARY)
def broadcast_by_alignment(form: Form) -> None:
    """With `broadcast`, the second operand's axes begin at `axis` of the first, or end where they
    end.
    """
    broadcast, axis = form.attributes.pop("broadcast", 0), form.attributes.pop("axis", None)
    if not broadcast or axis is None:
        return
    rank, other = form.rank(0), form.rank(1)
    if rank is None or other is None:
        raise form.refuse("the ranks of its inputs are not known")
    missing = rank - (axis % rank if rank else 0) - other
    if missing > 0:
        axes = form.constant(list(range(other, other + missing)), "axes")
        form.inputs[1] = form.emit("Unsqueeze", form.inputs[1], axes)


@lift(7, "PRelu")
def slope_per_channel(form: Form) -> None:
    """Before 7, a list of slopes belongs to axis 1."""
    rank, slopes = form.rank(0), form.shape(1)
    if rank is not None and rank > 2 and slopes is not None and len(slopes) == 1 and slopes[0] != 1:
        axes = form.constant(list(range(1, rank - 1)), "axes")
        form.inputs[1] = form.emit("Unsqueeze", form.inputs[1], axes)


@lift(7, "Gemm")
def gemm_always_broadcasts(form: Form) -> None:
    """Broadcasting had to be asked for."""
    form.attributes.pop("broadcast", None)


@lift(7, "BatchNormalization", "Dropout")
def inference_only(form: Form) -> None:
    """Inference had to be asked for."""
    form.attributes.pop("is_test", None)


@lift(7, "GRU", "LSTM", "RNN")
def all_outputs(form: Form) -> None:
    """An attribute said which outputs are made."""
    form.attributes.pop("output_sequence", None)


@lift(7, "Upsample")
def scales_of_all_axes(form: Form) -> None:
    """Only height and width could be scaled."""
    height, width = (form.attributes.pop(f"{name}_scale") for name in ("height", "width"))
    form.attributes["scales"] = (1.0, 1.0, height, width)
