"""Models of one operator on scaled integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.models.tflite_cases import CASES, I32, Case, case, floats, rng, whole
from tests.models.tflite_tools import Net, Quant

_ZEROS = {"int8": -3, "uint8": 121, "int16": 0}


def scaled_input(dtype: str, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return rng().integers(info.min, info.max + 1, shape).astype(dtype)


def quant(dtype: str, reach: float = 4.0) -> Quant:
    """The scale with which a type reaches from -reach to reach."""
    return Quant(2 * reach / (1 << 8 * np.dtype(dtype).itemsize), _ZEROS[dtype])


def scaled(name: str, dtype: str, shapes: list[tuple[int, ...]], build: Callable[..., Any],
           result: Quant | None = None, same: bool = False) -> None:  # fmt: skip
    """`build(net, result, *inputs)` of inputs whose scales differ unless they are the `same`."""

    def make() -> Case:
        net, feeds, inputs = Net(), [], []
        for number, shape in enumerate(shapes):
            feed = scaled_input(dtype, *shape)
            feeds.append(feed)
            reach = 4.0 if same else 4.0 / (number + 1)
            inputs.append(net.input(dtype, shape, quant(dtype, reach)))
        made = build(net, (dtype, result or quant(dtype)), *inputs)
        return net.outputs(*(made if isinstance(made, list) else [made])), feeds

    full = f"{dtype}-{name}"
    assert full not in CASES, full
    CASES[full] = make


def plain(kind: str, dtype: str, *shapes: tuple[int, ...], result: Quant | None = None,
          same: bool = False, tag: str = "", **options: Any) -> None:  # fmt: skip
    version = options.pop("version", 2)
    scaled(kind + tag, dtype, list(shapes),
           lambda n, r, *xs: n.op(kind, xs, r, version=version, **options), result,
           same)  # fmt: skip


BASE = (2, 3, 4)
NONE: Any = {"fusedActivationFunction": "none"}
for dtype in ("int8", "uint8", "int16"):
    for kind in ("ADD", "SUB", "MUL"):
        more = {"potScaleInt16": False} if kind != "MUL" else {}
        plain(kind, dtype, BASE, (4,), result=quant(dtype, 8), **NONE, **more)
    plain("ADD", dtype, BASE, BASE, tag="-relu", potScaleInt16=False,
          fusedActivationFunction="relu")  # fmt: skip
    plain(
        "TANH",
        dtype,
        BASE,
        result=Quant(1 / 32768 if dtype == "int16" else 1 / 128, 128 if dtype == "uint8" else 0),
    )
    plain("LOGISTIC", dtype, BASE, result=Quant(
        1 / 32768 if dtype == "int16" else 1 / 256,
        {"int8": -128, "uint8": 0, "int16": 0}[dtype]))  # fmt: skip
    if dtype != "int16":
        plain("SOFTMAX", dtype, BASE, result=Quant(1 / 256, -128 if dtype == "int8" else 0),
              beta=1.0)  # fmt: skip
        plain("LOG_SOFTMAX", dtype, BASE, result=Quant(16 / 256, 127 if dtype == "int8" else 255))
        plain("RELU6", dtype, BASE, result=quant(dtype, 3))
        plain("HARD_SWISH", dtype, BASE, version=1)
        plain("PRELU", dtype, BASE, (4,), version=1)
        plain("SQUARED_DIFFERENCE", dtype if dtype == "int8" else "int8", BASE, (4,),
              tag="" if dtype == "int8" else "-again", result=quant("int8", 30))  # fmt: skip
        plain("L2_NORMALIZATION", dtype, BASE, table="L2NormOptions",
              result=Quant(1 / 128, 0 if dtype == "int8" else 128), **NONE)  # fmt: skip
    plain("RELU", dtype, BASE, result=quant(dtype, 3))
    plain("LEAKY_RELU", dtype, BASE, table="LeakyReluOptions", alpha=0.3)
    plain("MAXIMUM", dtype, BASE, (4,), same=True)
    for kind in ("LESS", "EQUAL"):
        if dtype != "int16":
            scaled(kind, dtype, [BASE, (4,)],
                   lambda n, r, x, y, k=kind: n.op(k, [x, y], "bool", version=2))  # fmt: skip
    plain("CONCATENATION", dtype, BASE, BASE, same=True, axis=-1, **NONE)
    scaled("RESHAPE", dtype, [BASE], lambda n, r, x: n.op("RESHAPE", [x, n.ints(6, 4)], r))
    scaled("TRANSPOSE", dtype, [BASE],
           lambda n, r, x: n.op("TRANSPOSE", [x, n.ints(2, 0, 1)], r, version=4))  # fmt: skip
    scaled("PAD", dtype, [BASE], lambda n, r, x: n.op(
        "PAD", [x, n.const(np.array([[1, 0], [0, 2], [1, 1]], I32))], r, version=2))  # fmt: skip
    scaled("REDUCE_MAX", dtype, [BASE], lambda n, r, x: n.op(
        "REDUCE_MAX", [x, n.ints(1)], r, version=2, table="ReducerOptions"))  # fmt: skip
    for kind in ("MEAN", "SUM"):
        scaled(kind, dtype, [BASE], lambda n, r, x, k=kind: n.op(
            k, [x, n.ints(1, 2)], r, version=2, table="ReducerOptions"), quant(dtype, 30)
        )  # fmt: skip
    for kind in ("MAX_POOL_2D", "AVERAGE_POOL_2D"):
        plain(kind, dtype, (1, 7, 6, 3), table="Pool2DOptions", padding=0, strideH=2, strideW=2,
              filterHeight=3, filterWidth=2, **NONE)  # fmt: skip
    if dtype != "int16":  # LiteRT has weights of ten bits there, and is off by several units
        scaled("RESIZE_BILINEAR", dtype, [(1, 5, 6, 3)], lambda n, r, x: n.op(
            "RESIZE_BILINEAR", [x, n.ints(9, 8)], r, version=3, halfPixelCenters=True)
        )  # fmt: skip
    scaled("RESIZE_NEAREST_NEIGHBOR", dtype, [(1, 5, 6, 3)], lambda n, r, x: n.op(
        "RESIZE_NEAREST_NEIGHBOR", [x, n.ints(9, 8)], r, version=3))  # fmt: skip
    scaled("STRIDED_SLICE", dtype, [BASE], lambda n, r, x: n.op("STRIDED_SLICE", [
        x, n.ints(0, 1, 0), n.ints(2, 3, 4), n.ints(1, 1, 2)], r, version=2))  # fmt: skip
    scaled("DEQUANTIZE", dtype, [BASE],
           lambda n, r, x: n.op("DEQUANTIZE", [x], "float32", version=3))  # fmt: skip
    plain("QUANTIZE", dtype, BASE, result=quant(dtype, 6))
    case(f"QUANTIZE-{dtype}", [floats(*BASE, low=-5, high=5)],
         lambda n, x, d=dtype: n.op("QUANTIZE", [x], (d, quant(d)), version=2))  # fmt: skip
    scaled("GATHER", dtype, [BASE], lambda n, r, x: n.op(
        "GATHER", [x, n.ints(1, 0)], r, version=2, axis=1))  # fmt: skip
    scaled("SPLIT", dtype, [BASE], lambda n, r, x: n.op(
        "SPLIT", [n.ints(2), x], r, r, version=2, numSplits=2))  # fmt: skip
plain("DIV", "uint8", BASE, (4,), result=Quant(0.1, 100), **NONE)
plain("ELU", "int8", BASE, version=1)
plain("GELU", "int8", BASE, approximate=False)
plain("EXP", "int8", BASE, result=Quant(0.25, -128), version=2)
plain("ABS", "int8", BASE, version=2, result=Quant(4 / 128, -128))


def weights(dtype: str, *shape: int) -> np.ndarray:
    low, high = (0, 256) if dtype == "uint8" else (-127, 128)
    return rng().integers(low, high, shape).astype(dtype)


def products(dtype: str, channels: bool) -> None:
    """Products with weights of one scale, or of one for each channel of the result."""
    kind = "uint8" if dtype == "uint8" else "int8"
    wide = np.int64 if dtype == "int16" else np.int32
    shift = 100 if dtype == "uint8" else 0
    tag = "-channels" if channels else ""
    x_scale = quant(dtype).scale

    def parameters(net: Net, shape: tuple[int, ...], axis: int, outputs: int) -> list[int]:
        scale = np.linspace(0.01, 0.03, outputs) if channels else np.array([0.02])
        w = net.const(weights(kind, *shape), Quant(scale, shift, axis if channels else 0))
        b = net.const(whole(outputs, low=-300, high=300, dtype=wide), Quant(x_scale * scale))
        return [w, b]

    reach = 60.0
    options: Any = {"strideH": 1, "strideW": 2, "dilationHFactor": 1, "dilationWFactor": 1,
                    "fusedActivationFunction": "relu6", "padding": 0}  # fmt: skip
    scaled(f"CONV_2D{tag}", dtype, [(2, 6, 7, 4)], lambda n, r, x: n.op(
        "CONV_2D", [x, *parameters(n, (5, 3, 2, 4), 0, 5)], r, version=3, table="Conv2DOptions",
        **options), quant(dtype, reach))  # fmt: skip
    scaled(f"DEPTHWISE_CONV_2D{tag}", dtype, [(2, 6, 7, 4)], lambda n, r, x: n.op(
        "DEPTHWISE_CONV_2D", [x, *parameters(n, (1, 3, 2, 8), 3, 8)], r, version=3,
        table="DepthwiseConv2DOptions", depthMultiplier=2, **{**options, "strideH": 2}),
        quant(dtype, reach))  # fmt: skip
    scaled(f"FULLY_CONNECTED{tag}", dtype, [(3, 8)], lambda n, r, x: n.op(
        "FULLY_CONNECTED", [x, *parameters(n, (6, 8), 0, 6)], r, version=4, **NONE),
        quant(dtype, reach))  # fmt: skip
    scaled(f"TRANSPOSE_CONV{tag}", dtype, [(1, 4, 5, 3)], lambda n, r, x: n.op(
        "TRANSPOSE_CONV", [n.ints(1, 8, 10, 4), parameters(n, (4, 3, 3, 3), 0, 4)[0], x], r,
        version=2, padding=0, strideH=2, strideW=2, **NONE), quant(dtype, reach))  # fmt: skip


for dtype in ("int8", "uint8", "int16"):
    for channels in (False, True):
        if not (dtype == "uint8" and channels):
            products(dtype, channels)
scaled("FULLY_CONNECTED-int4", "int8", [(3, 8)], lambda n, r, x: n.op("FULLY_CONNECTED", [
    x, n.const(whole(6, 8, low=-7, high=8, dtype=np.int8), Quant(0.1), "int4"), -1], r, version=10,
    **NONE), quant("int8", 20))  # fmt: skip
for dtype in ("int8", "int16"):
    plain("BATCH_MATMUL", dtype, (2, 3, 4), (2, 4, 5), result=quant(dtype, 60),
          table="BatchMatMulOptions", version=2)  # fmt: skip
case("float16-weights", [floats(1, 5, 5, 3)], lambda n, x: n.op("CONV_2D", [
    x, n.op("DEQUANTIZE", [n.const(floats(4, 2, 2, 3).astype(np.float16))], "float32", version=3),
    n.const(floats(4))], "float32", table="Conv2DOptions", padding=0, strideH=1, strideW=1,
    **NONE))  # fmt: skip
