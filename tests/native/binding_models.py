"""Models of the tests of bindings, with what they compute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import ml_dtypes
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto as T, helper, numpy_helper

Array = NDArray[Any]
Feeds = Mapping[str, Array]
_INPUTS: Final = (
    ("class", T.FLOAT, ["batch", 4]),
    ("input.1", T.INT64, ["batch"]),
    ("mask", T.BOOL, ["batch", '*/ n"']),
    ("half", T.FLOAT16, ["k", 3]),
    ("opt", T.FLOAT16, [3]),
    ("bf", T.BFLOAT16, ["k"]),
    ("i8", T.INT8, ["k", "batch"]),
    ("u64", T.UINT64, ["k"]),
    ("输入", T.DOUBLE, ["k"]),
)
_OUTPUTS: Final = (
    ("*/ x", T.FLOAT, ["batch", 2]),
    ('"', T.INT64, ["batch"]),
    ("func", T.INT64, [2, "found"]),
    ("half\n\\", T.FLOAT16, ["k", 3]),
    ("#{import}", T.BFLOAT16, ["k"]),
    ("return", T.BOOL, ["batch", '*/ n"']),
    ("输出", T.INT8, ["k", "batch"]),
    ("self", T.UINT64, ["k"]),
    ("\\u0022+x", T.DOUBLE, ["k"]),
)
"""Names that are words of languages, no names at all, or would end a comment or a text."""
TABLE: Final = np.arange(8, dtype=np.float32).reshape(4, 2)
DEFAULT: Final = np.array([1, 2, 3], np.float16)
SIZES: Final = ((3, 5), (0, 2), (33, 0))
"""Values of batch, and of the other symbols."""


def every() -> onnx.ModelProto:
    """Two sizes, nine element types, a late output, an optional input."""
    node = helper.make_node
    nodes = [
        node("MatMul", ["class", "table"], ["*/ x"]),
        node("Add", ["input.1", "three"], ['"']),
        node("NonZero", ["mask"], ["func"]),
        node("Add", ["half", "opt"], ["half\n\\"]),
        node("Neg", ["bf"], ["#{import}"]),
        node("Not", ["mask"], ["return"]),
        node("Neg", ["i8"], ["输出"]),
        node("BitShift", ["u64", "one"], ["self"], direction="RIGHT"),
        node("Mul", ["输入", "输入"], ["\\u0022+x"]),
    ]
    info = helper.make_tensor_value_info
    constants: dict[str, Array] = {
        "table": TABLE,
        "three": np.array(3, np.int64),
        "one": np.array(1, np.uint64),
        "opt": DEFAULT,
    }
    graph = helper.make_graph(
        nodes,
        "class */ {",
        [info(*each) for each in _INPUTS],
        [info(*each) for each in _OUTPUTS],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def feeds(batch: int, other: int, *, optional: bool) -> dict[str, Array]:
    """Inputs of `every`, numbers that are not finite among them."""
    rng = np.random.default_rng(batch + 100 * other)
    arrays: dict[str, Array] = {
        "class": rng.standard_normal((batch, 4)).astype(np.float32),
        "input.1": rng.integers(-(2**62), 2**62, batch),
        "mask": rng.random((batch, other)) < 0.5,
        "half": rng.standard_normal((other, 3)).astype(np.float16),
        "bf": rng.standard_normal(other).astype(ml_dtypes.bfloat16),
        "i8": rng.integers(-128, 128, (other, batch)).astype(np.int8),
        "u64": rng.integers(0, 2**64, other, dtype=np.uint64),
        "输入": rng.standard_normal(other),
    }
    arrays["bf"][:1], arrays["输入"][-1:] = np.nan, -np.inf
    if optional:
        arrays["opt"] = np.array([7, np.inf, -0.0], np.float16)
    return {name: arrays[name] for name, *_ in _INPUTS if name in arrays}


def answers(inputs: Feeds) -> list[Array]:
    """What `every` computes, by NumPy."""
    mask = inputs["mask"]
    with np.errstate(over="ignore"):
        return [
            inputs["class"] @ TABLE,
            inputs["input.1"] + 3,
            np.array(np.nonzero(mask)),
            inputs["half"] + inputs.get("opt", DEFAULT),
            -inputs["bf"],
            ~mask,
            -inputs["i8"],
            inputs["u64"] >> np.uint64(1),
            inputs["输入"] * inputs["输入"],
        ]


def symbol_value(symbol: str, batch: int, other: int) -> int:
    """The value of a symbol of `every`: those that nothing ties have own names."""
    return batch if symbol.startswith("batch") else other


def input_number(name: str) -> int:
    """Which input of `every` has this name."""
    return [each for each, *_ in _INPUTS].index(name)


CONDUCT: Final = """<ir_version: 9, opset_import: ["": 18]>
conduct (float[n, 4] x, double["2*n"] y, int64 times, int64[k] places)
  => (float[n, 4] z, double["2*n"] w, float[k] picked)
  <float[3] table = {5, 6, 7}, int64[1] last = {1}> {
  one = Constant<value_float = 1.0>()
  go = Constant<value = bool {1}>()
  z = Loop(times, go, x) <body = repeat (int64 i, bool c, s) => (d, t) {
    d = Identity(c)
    t = Add(s, one)
  }>
  sums = ReduceSum<keepdims = 0>(x, last)
  wide = Cast<to = 11>(sums)
  both = Concat<axis = 0>(wide, wide)
  w = Sub(y, both)
  picked = Gather(table, places)
}"""
"""x + times, in as many steps; y less the sums of the rows of x, twice; elements of a table."""


def conduct() -> onnx.ModelProto:
    """A model whose runs may last, whose inputs depend on each other, and whose data may be bad."""
    text = CONDUCT.replace('"2*n"', "twice")
    model = onnx.parser.parse_model(text)
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == "twice":
                dim.dim_param = "2*n"
    return model
