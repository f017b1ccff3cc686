"""Operators in training mode: functions of simpler operators that are read in their place."""

from __future__ import annotations

from typing import Final

from onnx import FunctionProto, parser

from infuse.frontends.onnx.forms import Form

_DROPOUT: Final = """
    <opset_import: ["" : 21], domain: "">
    Dropout (x, ratio, training) => (y, mask) {
        drawn = RandomUniformLike <dtype = 11 SEED> (x)
        least = Cast <to = 11> (ratio)
        kept = GreaterOrEqual (drawn, least)
        one = Constant <value = double {1.0}> ()
        share = Sub (one, least)
        factor = Reciprocal (share)
        gain = CastLike (factor, x)
        scaled = Mul (x, gain)
        zero = Constant <value_float = 0.0> ()
        nothing = CastLike (zero, x)
        dropped = Where (kept, scaled, nothing)
        y = Where (training, dropped, x)
        still = Not (training)
        mask = Or (kept, still)
    }
"""
_NORMALIZATION: Final = """
    <opset_import: ["" : 21], domain: "">
    BatchNormalization (x, scale, bias, mean, variance) => (y, next_mean, next_variance) {
        axes = Constant <value_ints = [AXES]> ()
        center = ReduceMean (x, axes)
        moved = Sub (x, center)
        squares = Mul (moved, moved)
        spread = ReduceMean (squares, axes)
        little = Constant <value_float = EPSILON> ()
        epsilon = CastLike (little, x)
        safe = Add (spread, epsilon)
        deviation = Sqrt (safe)
        normal = Div (moved, deviation)
        column = Constant <value_ints = [SHAPE]> ()
        gain = Reshape (scale, column)
        gain_like = CastLike (gain, x)
        shift = Reshape (bias, column)
        shift_like = CastLike (shift, x)
        scaled = Mul (normal, gain_like)
        y = Add (scaled, shift_like)
        old = Constant <value_float = MOMENTUM> ()
        old_share = CastLike (old, mean)
        one = Constant <value_float = 1.0> ()
        unit = CastLike (one, mean)
        new_share = Sub (unit, old_share)
        center_row = Squeeze (center, axes)
        center_like = CastLike (center_row, mean)
        spread_row = Squeeze (spread, axes)
        spread_like = CastLike (spread_row, variance)
        old_mean = Mul (mean, old_share)
        new_mean = Mul (center_like, new_share)
        next_mean = Add (old_mean, new_mean)
        old_variance = Mul (variance, old_share)
        new_variance = Mul (spread_like, new_share)
        next_variance = Add (old_variance, new_variance)
    }
"""


def training_body(form: Form, opset: int) -> FunctionProto | None:
    """What a call in training mode stands for; None where it is none."""
    if form.kind == "Dropout":
        return _dropout(form, opset)
    if form.kind == "BatchNormalization":
        return _batch_normalization(form, opset)
    return None


def _dropout(form: Form, opset: int) -> FunctionProto | None:
    mode = form.input(2)
    if opset < 12 or mode is None or (mode.const is not None and not mode.const.any()):
        return None
    seed = form.attributes.get("seed")
    text = _DROPOUT.replace("SEED", "" if seed is None else f", seed = {float(seed)}")
    if form.input(1) is None:
        text = text.replace("{", "{ ratio = Constant <value_float = 0.5> ()", 1).replace(
            "(x, ratio,", "(x, unused,"
        )
    return parser.parse_function(text)


def _batch_normalization(form: Form, opset: int) -> FunctionProto | None:
    asked = (
        form.attributes.get("training_mode", 0)
        if opset >= 14
        else any(form.used[1:3]) and not any(form.used[3:])
    )
    if not asked or not form.attributes.get("spatial", 1):
        return None
    rank = form.rank(0)
    if rank is None or rank < 2:
        raise form.refuse("it is in training mode, and the rank of its input is not known")
    words = {
        "AXES": ", ".join(str(a) for a in range(rank) if a != 1),
        "SHAPE": ", ".join("-1" if a == 1 else "1" for a in range(rank)),
        "EPSILON": f"{form.attributes.get('epsilon', 1e-5):.9f}",
        "MOMENTUM": f"{form.attributes.get('momentum', 0.9):.9f}",
    }
    text = _NORMALIZATION
    for name, word in words.items():
        text = text.replace(name, word)
    return parser.parse_function(text)
