"""Models of one operator each, with feeds: `CASES[name]()` gives a model and its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.models.tflite_tools import Net

Case = tuple[Net, list[np.ndarray]]
CASES: dict[str, Callable[[], Case]] = {}
I32 = np.int32


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def floats(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return rng().uniform(low, high, shape).astype(np.float32)


def whole(*shape: int, low: int = -9, high: int = 9, dtype: Any = np.int32) -> np.ndarray:
    return rng().integers(low, high, shape).astype(dtype)


def case(name: str, feeds: list[np.ndarray], build: Callable[..., Any]) -> None:
    """`build(net, *inputs)` gives one result, or a list of them."""

    def make() -> Case:
        net = Net()
        inputs = [net.input(feed.dtype.name, feed.shape) for feed in feeds]
        made = build(net, *inputs)
        return net.outputs(*(made if isinstance(made, list) else [made])), feeds

    assert name not in CASES, name
    CASES[name] = make


def simple(kind: str, *feeds: np.ndarray, result: str = "float32", tag: str = "", **options: Any
           ) -> None:  # fmt: skip
    name = f"{kind}-{tag}" if tag else kind
    case(name, list(feeds), lambda net, *xs: net.op(kind, xs, result, **options))


# -- every element by itself -----------------------------------------------------------------------

X = floats(2, 3, 4)
for kind in ("COS", "EXP", "FLOOR", "CEIL", "LOGISTIC", "NEG", "RELU", "RELU6", "RELU_N1_TO_1",
             "RELU_0_TO_1", "SIN", "TANH", "ELU", "HARD_SWISH", "SQUARE", "ABS", "ROUND", "SIGN",
             "ZEROS_LIKE"):  # fmt: skip
    simple(kind, X * 3)
simple("ROUND", np.array([0.5, 1.5, -0.5, -2.5, 2.4999], np.float32), tag="ties")
for kind in ("LOG", "SQRT", "RSQRT"):
    simple(kind, floats(3, 4, low=0.1, high=5))
simple("ABS", whole(5), result="int32", tag="int32")
simple("NEG", whole(5), result="int32", tag="int32")
simple("NEG", whole(5, dtype=np.int64), result="int64", tag="int64")
simple("SIGN", whole(9), result="int32", tag="int32")
simple("GELU", X, approximate=False)
simple("GELU", X, approximate=True, tag="tanh")
simple("LEAKY_RELU", X, table="LeakyReluOptions", alpha=0.3)
case("PRELU", [X], lambda n, x: n.op("PRELU", [x, n.const(floats(1, 1, 4))], "float32"))
case("PRELU-whole", [X], lambda n, x: n.op("PRELU", [x, n.const(floats(3, 4))], "float32"))
simple("LOGICAL_NOT", whole(5) > 0, result="bool")
for kind in ("LOGICAL_AND", "LOGICAL_OR"):
    simple(kind, whole(8) > 0, floats(8) > 0, result="bool")
for kind in ("ADD", "SUB", "MUL", "DIV"):
    for activation in ("none", "relu", "relu6", "relu_n1_to_1"):
        simple(kind, X, floats(4, low=0.5), tag=activation, fusedActivationFunction=activation)
    feeds = whole(3, 4), np.array([[1], [-2], [3]], I32)
    simple(kind, *feeds, result="int32", tag="int32", fusedActivationFunction="none")
for kind in ("ADD", "SUB", "MUL"):
    feeds = whole(3, 4, dtype=np.int64), whole(4, dtype=np.int64)
    simple(kind, *feeds, result="int64", tag="int64", fusedActivationFunction="none")
for kind in ("MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE"):
    simple(kind, X, floats(3, 1))
    simple(kind, whole(3, 4), whole(4), result="int32", tag="int32")
for kind in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
    simple(kind, np.round(X), np.round(floats(3, 4)), result="bool")
    simple(kind, whole(20), whole(20)[::-1].copy(), result="bool", tag="int32")
simple("EQUAL", whole(9) > 0, floats(9) > 0, result="bool", tag="bool")
simple("POW", floats(3, 4, low=0.1), X)
simple("POW", whole(5), np.array([0, 1, 2, 3, 2], I32), result="int32", tag="int32")
for kind in ("FLOOR_DIV", "FLOOR_MOD"):
    y = np.array([[0.7], [-1.3], [2.5]], np.float32)
    simple(kind, X, y)
    simple(kind, np.array([4, -4, 5, -5], np.float32), np.array([2, 2, -2, -2], np.float32),
           tag="signs")  # fmt: skip
    simple(kind, whole(3, 4), np.array([[2], [-3], [4]], I32), result="int32", tag="int32")
edges = np.array([0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf], np.float32)
points = np.meshgrid(edges, edges)
simple("ATAN2", points[0].copy(), points[1].copy())
case("ADD_N", [X, X * 2, X * 3], lambda n, *xs: n.op("ADD_N", xs, "float32"))
for dtype in ("int8", "int16", "int32", "uint8", "uint32"):
    feeds = [whole(8, low=0, high=99, dtype=dtype), whole(8, low=0, high=5, dtype=dtype)]
    if dtype.startswith("i"):
        feeds[0] = feeds[0] - np.array(50, dtype)
    simple("BITWISE_XOR", *feeds, result=dtype, tag=dtype)
    simple("RIGHT_SHIFT", *feeds, result=dtype, tag=dtype)
for source, target in (("float32", "int32"), ("int32", "float32"), ("bool", "float32"),
                       ("float32", "bool"), ("int64", "int32"), ("float32", "uint8")):  # fmt: skip
    simple("CAST", np.abs(X).astype(source), result=target, tag=f"{source}-{target}")
simple("BITCAST", X, result="int32")
simple("SOFTMAX", X, beta=1.0)
simple("SOFTMAX", X, beta=0.5, tag="beta")
simple("LOG_SOFTMAX", X)
simple(
    "L2_NORMALIZATION", floats(2, 3, 4, 5), table="L2NormOptions", fusedActivationFunction="none"
)
simple("L2_NORMALIZATION", np.zeros((2, 3), np.float32), tag="zeros", table="L2NormOptions",
       fusedActivationFunction="none")  # fmt: skip
simple("LOCAL_RESPONSE_NORMALIZATION", floats(1, 2, 3, 8), radius=2, bias=1.5, alpha=0.3, beta=0.75)
simple("FAKE_QUANT", X * 3, min=-2.0, max=3.0, numBits=8, narrowRange=False)
simple("FAKE_QUANT", X * 3, min=-1.0, max=3.0, numBits=4, narrowRange=False, tag="four bits")
simple("BUCKETIZE", X, result="int32", boundaries=[-1.0, 0.0, 0.5])

# -- products, convolutions, windows ---------------------------------------------------------------

IMAGE = floats(2, 9, 8, 4)
SAME, VALID = 0, 1


def conv(
    padding: int, stride: int, dilation: int, activation: str = "none", inputs: int = 4
) -> Any:
    def build(net: Net, x: int) -> int:
        w, b = net.const(floats(6, 3, 2, inputs)), net.const(floats(6))
        return net.op("CONV_2D", [x, w, b], "float32", table="Conv2DOptions", padding=padding,
                      strideH=stride, strideW=1, dilationHFactor=dilation, dilationWFactor=1,
                      fusedActivationFunction=activation)  # fmt: skip

    return build


def depthwise(multiplier: int, padding: int, dilation: int) -> Any:
    def build(net: Net, x: int) -> int:
        w, b = net.const(floats(1, 3, 3, 4 * multiplier)), net.const(floats(4 * multiplier))
        return net.op("DEPTHWISE_CONV_2D", [x, w, b], "float32", table="DepthwiseConv2DOptions",
                      padding=padding, strideH=1, strideW=1, depthMultiplier=multiplier,
                      dilationHFactor=dilation, dilationWFactor=dilation,
                      fusedActivationFunction="relu6")  # fmt: skip

    return build


for padding in (SAME, VALID):
    for stride, dilation in ((1, 1), (2, 1), (3, 1), (1, 2)):
        case(f"CONV_2D-{padding}-{stride}-{dilation}", [IMAGE], conv(padding, stride, dilation))
    case(f"DEPTHWISE_CONV_2D-{padding}", [IMAGE], depthwise(1, padding, 1))
    case(f"DEPTHWISE_CONV_2D-{padding}-multiplied", [IMAGE], depthwise(3, padding, 2))
    for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"):
        simple(kind, IMAGE, table="Pool2DOptions", padding=padding, strideH=2, strideW=3,
               filterHeight=3, filterWidth=2, fusedActivationFunction="relu",
               tag=str(padding))  # fmt: skip
case("CONV_2D-relu", [IMAGE], conv(SAME, 2, 1, "relu"))
case("CONV_2D-tanh", [IMAGE], conv(SAME, 1, 1, "none"))
case("CONV_2D-groups", [IMAGE], conv(SAME, 1, 1, inputs=2))
for padding, shape in ((SAME, (2, 18, 8, 6)), (VALID, (2, 19, 9, 6)), (SAME, (2, 17, 8, 6)),
                       (VALID, (2, 20, 9, 6))):  # fmt: skip
    case(f"TRANSPOSE_CONV-{padding}-{shape[1]}", [IMAGE], lambda n, x, p=padding, s=shape: n.op(
        "TRANSPOSE_CONV", [n.ints(*s), n.const(floats(6, 3, 2, 4)), x, n.const(floats(6))],
        "float32", padding=p, strideH=2, strideW=1, fusedActivationFunction="none"))  # fmt: skip
VOLUME = floats(1, 5, 6, 4, 3)
for padding in (SAME, VALID):
    case(f"CONV_3D-{padding}", [VOLUME], lambda n, x, p=padding: n.op(
        "CONV_3D", [x, n.const(floats(3, 2, 2, 3, 5)), n.const(floats(5))], "float32",
        table="Conv3DOptions", padding=p, strideD=2, strideH=1, strideW=1, dilationDFactor=1,
        dilationHFactor=1, dilationWFactor=1, fusedActivationFunction="none"))  # fmt: skip
case("CONV_3D_TRANSPOSE", [VOLUME], lambda n, x: n.op(
    "CONV_3D_TRANSPOSE", [n.ints(1, 10, 6, 4, 5), n.const(floats(3, 2, 2, 5, 3)), x], "float32",
    table="Conv3DOptions", padding=SAME, strideD=2, strideH=1, strideW=1, dilationDFactor=1,
    dilationHFactor=1, dilationWFactor=1, fusedActivationFunction="none"))  # fmt: skip


def connected(keep: bool, bias: bool = True) -> Any:
    def build(net: Net, x: int) -> int:
        inputs = [x, net.const(floats(5, 4)), net.const(floats(5)) if bias else -1]
        return net.op("FULLY_CONNECTED", inputs, "float32", keepNumDims=keep,
                      fusedActivationFunction="relu", weightsFormat=0)  # fmt: skip

    return build


case("FULLY_CONNECTED", [floats(3, 4)], connected(False))
case("FULLY_CONNECTED-flat", [X], connected(False))
case("FULLY_CONNECTED-kept", [X], connected(True))
case("FULLY_CONNECTED-plain", [floats(3, 4)], connected(False, bias=False))
simple("FULLY_CONNECTED", floats(3, 4), floats(5, 4), tag="computed", table="FullyConnectedOptions",
       fusedActivationFunction="none")  # fmt: skip
simple("BATCH_MATMUL", floats(2, 3, 4), floats(2, 4, 5), table="BatchMatMulOptions")
simple("BATCH_MATMUL", floats(2, 4, 3), floats(1, 5, 4), tag="adjoint", table="BatchMatMulOptions",
       adjX=True, adjY=True)  # fmt: skip
for kind in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
    table = "ResizeBilinearOptions" if "B" in kind[7:8] else "ResizeNearestNeighborOptions"
    for aligned, half in ((False, False), (True, False), (False, True)):
        for size in ((17, 5), (4, 16)):
            case(f"{kind}-{aligned}-{half}-{size[0]}", [IMAGE],
                 lambda n, x, k=kind, t=table, a=aligned, h=half, s=size: n.op(
                     k, [x, n.ints(*s)], "float32", table=t, alignCorners=a,
                     halfPixelCenters=h))  # fmt: skip
simple("SPACE_TO_DEPTH", floats(2, 4, 6, 3), blockSize=2)
simple("DEPTH_TO_SPACE", floats(2, 2, 3, 12), blockSize=2)
case("SPACE_TO_BATCH_ND", [floats(2, 4, 5, 3)], lambda n, x: n.op("SPACE_TO_BATCH_ND", [
    x, n.ints(2, 3), n.const(np.array([[1, 1], [0, 1]], I32))], "float32"))  # fmt: skip
case("BATCH_TO_SPACE_ND", [floats(12, 2, 3, 2)], lambda n, x: n.op("BATCH_TO_SPACE_ND", [
    x, n.ints(2, 3), n.const(np.array([[1, 0], [2, 1]], I32))], "float32"))  # fmt: skip
# Edges that only a run knows, as dilated convolutions over images of any size have them.
case(
    "SPACE_TO_BATCH_ND-computed",
    [floats(2, 4, 5, 3), np.array([[1, 1], [0, 1]], I32)],
    lambda n, x, e: n.op("SPACE_TO_BATCH_ND", [x, n.ints(2, 3), e], "float32"),
)
case(
    "BATCH_TO_SPACE_ND-computed",
    [floats(12, 2, 3, 2), np.array([[1, 0], [2, 1]], I32)],
    lambda n, x, e: n.op("BATCH_TO_SPACE_ND", [x, n.ints(2, 3), e], "float32"),
)
