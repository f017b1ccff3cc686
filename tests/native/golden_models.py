"""Small models whose generated code is kept, one for each part of code generation."""

import numpy as np
import onnx.parser

import infuse
from infuse import dtypes
from infuse.ir.graph import Graph, constant
from tests.native.builder import Builder
from tests.native.test_quantized import quantized_network


def images() -> Graph:
    """Convolutions of all kinds, pooling, and a product at the end."""
    b = Builder("images")
    x = b.input(1, 3, 32, 32, name="image")
    x = b(
        "Relu", b("Conv", x, b.weight(16, 3, 3, 3), b.weight(16), strides=(2, 2), pads=(1, 1, 1, 1))
    )
    x = b(
        "Clip",
        b("Conv", x, b.weight(16, 1, 3, 3), b.weight(16), group=16, pads=(1, 1, 1, 1)),
        0.0,
        6.0,
    )
    y = b("Conv", x, b.weight(16, 16, 1, 1), b.weight(16))
    x = b(
        "Relu",
        b(
            "Add",
            x,
            b("Conv", b("Relu", y), b.weight(16, 16, 3, 3), b.weight(16), pads=(1, 1, 1, 1)),
        ),
    )
    x = b("GlobalAveragePool", b("MaxPool", x, kernel_shape=(2, 2), strides=(2, 2)))
    b.output(b("Softmax", b("Gemm", b("Flatten", x), b.weight(10, 16), b.weight(10), transB=1)))
    return b.graph


def attention() -> Graph:
    """A layer of a transformer, with free batch and length."""
    b = Builder("attention")
    x = b.input("batch", "length", 32, name="tokens")

    def heads(perm: tuple[int, ...]) -> infuse.ir.graph.Value:
        flat = b("Add", b("MatMul", x, b.weight(32, 32)), b.weight(32))
        return b("Transpose", b("Reshape", flat, [0, 0, 4, 8]), perm=perm)

    q, k, v = heads((0, 2, 1, 3)), heads((0, 2, 3, 1)), heads((0, 2, 1, 3))
    shares = b("Softmax", b("Mul", b("MatMul", q, k), 8**-0.5), axis=-1)
    mixed = b("Reshape", b("Transpose", b("MatMul", shares, v), perm=(0, 2, 1, 3)), [0, 0, 32])
    x = b(
        "LayerNormalization",
        b("Add", x, b("MatMul", mixed, b.weight(32, 32))),
        b.weight(32),
        b.weight(32),
    )
    wide = b("Gelu", b("MatMul", x, b.weight(32, 64)))
    b.output(b("Add", x, b("MatMul", wide, b.weight(64, 32))))
    return b.graph


def quantized() -> Graph:
    """Convolutions and products between integers."""
    return quantized_network(dtypes.uint8).graph


def recurrent() -> Graph:
    """Both directions of an LSTM over a free batch."""
    b = Builder("recurrent")
    weights = b.weight(2, 32, 5), b.weight(2, 32, 8), b.weight(2, 64)
    b.output(
        *b.several(
            3,
            "LSTM",
            b.input(7, "batch", 5, name="x"),
            *weights,
            hidden_size=8,
            direction="bidirectional",
        )
    )
    return b.graph


def dependent() -> Graph:
    """Sizes that depend on elements, indices from the caller, and updates at places."""
    b = Builder("dependent")
    x, places = b.input("n", 4, name="x"), b.input("m", name="places", dtype=dtypes.int64)
    rows = b("Gather", x, places, axis=0)
    chosen = b("Compress", rows, b("Greater", b("ReduceSum", rows, [1], keepdims=0), 0.0), axis=0)
    updated = b("ScatterND", x, b("Unsqueeze", places, [1]), b("Neg", rows))
    b.output(chosen, *b.several(2, "TopK", updated, constant(np.array([2])), axis=1))
    return b.graph


def control() -> Graph:
    """A loop that may end early, with a choice inside."""
    text = """<ir_version: 8, opset_import: ["" : 18]>
    control (int64 n, float[3] x) => (float[3] y) {
      go = Constant <value_int: int = 1> ()
      start = Cast <to = 9> (go)
      y = Loop (n, start, x) <body = step
          (int64 i, bool go_on, float[3] a) => (bool more, float[3] b) {
        sum = ReduceSum <keepdims = 0> (a)
        limit = Constant <value_float: float = 100.0> ()
        more = Less (sum, limit)
        b = If (more) <
          then_branch = grow () => (float[3] c) { c = Add (a, a) },
          else_branch = shrink () => (float[3] d) { d = Tanh (a) }
        >
      }>
    }"""
    return infuse.load(onnx.parser.parse_model(text))


def elementwise() -> Graph:
    """Chains over broadcast operands, in several types, with reductions behind them."""
    b = Builder("elementwise")
    x, y = b.input("batch", 3, 8, name="x"), b.input("batch", 1, 8, name="y")
    z = b("Tanh", b("Mul", b("Add", x, y), b.weight(8)))
    b.output(
        z,
        b("ReduceMax", b("Exp", b("Neg", z)), [2]),
        b("Cast", b("Where", b("Less", x, y), x, z), to=dtypes.int32),
    )
    return b.graph
