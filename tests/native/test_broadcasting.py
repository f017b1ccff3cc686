"""Operands whose sizes are independent symbols are combined as ONNX says: equal, or one of them 1.
The witness is ONNX Runtime, on the file as it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import infuse
from infuse.errors import InfuseError
from infuse.exporters.onnx import to_model
from infuse.ir.broadcasting import open_broadcasts

Sizes = Mapping[str, int]
_PAIRS = [{"a": a, "b": b} for a, b in [(3, 3), (1, 3), (3, 1), (1, 1), (0, 1), (1, 0), (0, 0)]]
_TRIPLES = [{"a": a, "b": b, "c": c} for a, b, c in [(4, 4, 4), (1, 4, 1), (1, 1, 4), (4, 1, 4)]]
_FIVE = [{"a": 5}, {"a": 1}]
MODELS: dict[str, tuple[str, str, Sequence[Sizes]]] = {
    "vectors": ("float[a] x, float[b] y", "z = Add (x, y)", _PAIRS),
    "an outer axis": ("float[a, 7] x, float[b, 7] y", "z = Mul (x, y)", _PAIRS),
    "an axis in the middle": ("float[2, a, 7] x, float[2, b, 7] y", "z = Sub (x, y)", _PAIRS),
    "two axes": ("float[a, b] x, float[b, a] y", "z = Div (x, y)", _PAIRS[:1] + _PAIRS[3:4]),
    "ranks": ("float[a, 2, b] x, float[b] y", "z = Max (x, y)", _PAIRS),
    "a constant": (
        "float[2, a] x",
        "w = Constant <value_floats = [1.0, 2.0, 3.0, 4.0, 5.0]> () z = Mul (x, w)",
        _FIVE,
    ),
    "three operands": ("float[a] x, float[b] y, float[c] v", "z = Sum (x, y, v)", _TRIPLES),
    "choice": (
        "bool[a] x, float[b] y, float[2, c] v",
        "z = Where (x, y, v)",
        _TRIPLES,
    ),
    "predicates": ("int64[a] x, int64[b] y", "z = Less (x, y)", _PAIRS),
    "a chain": (
        "float[a, 6] x, float[b, 6] y, float[c, 1] v",
        "s = Add (x, y) t = Relu (s) z = Mul (t, v)",
        _TRIPLES,
    ),
    "stacks of matrices": (
        "float[a, 4, 5] x, float[b, 5, 3] y",
        "z = MatMul (x, y)",
        _PAIRS[:4],
    ),
    "two stacked axes": (
        "float[a, 2, 4, 5] x, float[b, c, 5, 3] y",
        "z = MatMul (x, y)",
        [{"a": 3, "b": 3, "c": 2}, {"a": 1, "b": 3, "c": 1}, {"a": 3, "b": 1, "c": 2}],
    ),
    "a stack of ranks": ("float[4, 5] x, float[b, 5, 3] y", "z = MatMul (x, y)", [{"b": 2}]),
    "transposed": (
        "float[a, 6] x, float[6, b] y",
        "t = Transpose <perm = [1, 0]> (x) z = Add (t, y)",
        _PAIRS,
    ),
    "a slice of the sum": (
        "float[2, a] x",
        """w = Constant <value_floats = [1.0, 2.0, 3.0, 4.0, 5.0]> ()
           from = Constant <value_ints = [3]> () to = Constant <value_ints = [5]> ()
           axis = Constant <value_ints = [1]> ()
           s = Add (x, w) z = Slice (s, from, to, axis)""",
        _FIVE,
    ),
    "parts of the sum": (
        "float[2, a] x",
        """w = Constant <value_floats = [1.0, 2.0, 3.0, 4.0, 5.0]> ()
           parts = Constant <value_ints = [2, 3]> ()
           s = Add (x, w) p, q = Split <axis = 1> (s, parts) u = Neg (p)
           z = Concat <axis = 1> (q, u)""",
        _FIVE,
    ),
    "the sum in another shape": (
        "float[2, a, 3] x, float[b, 3] y",
        """flat = Constant <value_ints = [2, -1]> ()
           s = Add (x, y) r = Reshape (s, flat) z = Tanh (r)""",
        _PAIRS[:4],
    ),
    "elements of the sum": (
        "float[2, a] x",
        """w = Constant <value_floats = [1.0, 2.0, 3.0, 4.0, 5.0]> ()
           at = Constant <value_ints = [4, 0]> ()
           s = Add (x, w) z = Gather <axis = 1> (s, at)""",
        _FIVE,
    ),
    "the mean of the sum": (
        "float[a, 4] x, float[b, 4] y",
        """axis = Constant <value_ints = [0]> ()
           s = Add (x, y) z = ReduceMean (s, axis)""",
        _PAIRS[:4],
    ),
    "expanded to the shape of another": (
        "float[a, 1] x, float[b, c] y",
        "s = Shape (y) z = Expand (x, s)",
        _TRIPLES,
    ),
    "expanded to numbers": (
        "float[a, 1] x",
        "s = Constant <value_ints = [5, 4]> () z = Expand (x, s)",
        _FIVE,
    ),
    "expanded to numbers, with an axis more": (
        "float[a, 1, a] x",
        "s = Constant <value_ints = [2, 5, 3, 5]> () z = Expand (x, s)",
        _FIVE,
    ),
    "sizes that the run finds": (
        "float[a] x, float[b] y",
        """n = NonZero (x) i = Squeeze (n) g = Gather (x, i) z = Add (g, y)""",
        [{"a": 3, "b": 3}, {"a": 3, "b": 1}, {"a": 1, "b": 4}],
    ),
    "in a branch": (
        "bool[] go, float[a] x, float[b] y",
        """z = If (go) <
             then_branch = one () => (float[n] p) { p = Add (x, y) },
             else_branch = two () => (float[m] q) { q = Mul (y, x) }>""",
        _PAIRS[:4],
    ),
    "a table of limited length": (
        "float[1, 9, 4] x, float[2, a, 4] y",
        """shape = Shape (y) n = Gather <axis = 0> (shape, one) axis = Identity (one)
           s = Slice (x, zero, n, axis) z = Add (s, y)""",
        [{"a": 9}, {"a": 5}, {"a": 1}],
    ),
    "halves": ("float16[a, 8] x, float16[b, 8] y", "z = Add (x, y)", _PAIRS),
    "remainders": ("int32[a] x, int32[b] y", "o = Abs (y) p = Add (o, o) z = Sub (x, p)", _PAIRS),
}


def make(name: str) -> onnx.ModelProto:
    inputs, body, _ = MODELS[name]
    result = {"predicates": "bool", "halves": "float16", "remainders": "int32"}.get(name, "float")
    lists = "zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> ()"
    text = f"""<ir_version: 8, opset_import: ["" : 18]>
        graph ({inputs}) => ({result} z) {{ {lists} {body} }}"""
    return onnx.parser.parse_model(text)


def feeds(model: onnx.ModelProto, sizes: Sizes) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    result = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [sizes[d.dim_param] if d.dim_param else d.dim_value for d in tensor.shape.dim]
        x = rng.standard_normal(shape) * 4 + 8
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        result[value.name] = np.asarray(x > 8 if dtype.kind == "b" else x).astype(dtype)
    return result


@pytest.mark.parametrize("level", ["none", "all"])
@pytest.mark.parametrize("name", MODELS)
def test_as_onnx_runtime(name: str, level: str) -> None:
    model = make(name)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    if name == "in a branch":  # the text form states no shape, which is read as that of a number
        model.graph.output[0].type.tensor_type.ClearField("shape")
    graph = infuse.load(model)
    if level == "all":
        graph = infuse.optimize(graph, "all")
    compiled = infuse.compile(graph, infuse.CompileOptions(threads=2))
    for sizes in MODELS[name][2]:
        inputs = feeds(model, sizes)
        (expected,) = session.run(None, inputs)
        (result,) = compiled.run(inputs).values()
        assert result.shape == expected.shape, sizes
        assert result.dtype == expected.dtype
        tolerance = 1e-3 if result.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(
            result.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("name", ["vectors", "an outer axis", "stacks of matrices", "a chain"])
def test_other_sizes_are_refused(name: str) -> None:
    model = make(name)
    compiled = infuse.compile(infuse.load(model), infuse.CompileOptions(threads=1))
    with pytest.raises(InfuseError, match=r"needs a = b or a = 1 or b = 1"):
        compiled.run(feeds(model, {"a": 2, "b": 3, "c": 1}))


@pytest.mark.parametrize("name", MODELS)
def test_what_is_saved_means_the_same(name: str) -> None:
    model = make(name)
    better = infuse.optimize(infuse.load(model), "extended")
    saved = to_model(better)
    first, second = (onnxruntime.InferenceSession(m.SerializeToString()) for m in (model, saved))
    for sizes in MODELS[name][2]:
        inputs = feeds(model, sizes)
        (expected,), (result,) = first.run(None, inputs), second.run(None, inputs)
        assert result.shape == expected.shape, sizes
        np.testing.assert_allclose(result, expected, rtol=1e-3)


def test_a_part_up_to_a_limit_is_no_open_size() -> None:
    """The positions of a transformer: cut to the length of the text, and added to it."""
    graph = infuse.optimize(infuse.load(make("a table of limited length")))
    (total,) = (node for node in graph.nodes if node.kind == "Add")
    assert not open_broadcasts(total)
    with pytest.raises(InfuseError, match=r"a <= 9"):
        infuse.compile(graph).run({"x": np.zeros((1, 9, 4), "f"), "y": np.zeros((2, 10, 4), "f")})
