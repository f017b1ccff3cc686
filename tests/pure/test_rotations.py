"""Channels that are turned: where they can, that the graph computes the same, and that rotations
are kept only where layers err less.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

from infuse.compression.bases import Basis, find_bases
from infuse.compression.equalization import mark_layers
from infuse.compression.layers import find_layers
from infuse.compression.orthogonal import hadamard, rotation
from infuse.compression.rotations import rotate
from infuse.compression.scratch import ScratchArrays
from infuse.compression.setting import MethodOptions, Plan, Setting
from infuse.compression.turning import turned
from infuse.frontends.onnx import load
from infuse.ir.graph import Graph, constant
from infuse.ir.parser import parse
from infuse.ir.scales import rotated_values
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate
from infuse.options import Int4, Int8, Int8Dynamic, Sparse
from tests.compression_networks import weights

pytestmark = [pytest.mark.row("Z1")]
Array = np.ndarray[Any, Any]

TOKENS = "%x: int64[2, 5]"
ROWS = "%x: float32[2, 5, 24]"
IMAGES = "%x: float32[2, 3, 8, 8]"


def graph_of(rng: np.random.Generator, body: str, inputs: str, results: str = "y = %y") -> Graph:
    """A graph in which `W(a, b)` are random constants of these shapes."""
    first, *parts = body.split("W(")
    for part in parts:
        shape, rest = part.split(")", 1)
        first += weights(rng, *map(int, shape.split(","))) + rest
    return parse(f'graph "g" ({inputs}) {{ {first} return {results} }}')


def feeds(graph: Graph, rng: np.random.Generator) -> dict[str, Array]:
    (value,) = graph.inputs
    shape = [int(str(size)) for size in value.shape]
    if value.dtype.is_integer:
        return {value.name: rng.integers(0, 30, shape)}
    return {value.name: rng.standard_normal(shape).astype(np.float32)}


# -- orthogonal matrices ---------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 4, 12, 20, 28, 36, 64, 384, 768])
def test_hadamard_matrices_have_rows_of_signs_that_are_orthogonal(size: int) -> None:
    matrix = hadamard(size)
    assert matrix is not None
    assert set(np.unique(matrix)) <= {-1.0, 1.0}
    np.testing.assert_array_equal(matrix @ matrix.T, size * np.eye(size))


@pytest.mark.parametrize("size", [0, 3, 6, 22, 50, 52, 92])
def test_sizes_without_a_hadamard_matrix(size: int) -> None:
    """None of 6, 22 and 50 exists; those of 52 and 92 are beyond the constructions."""
    assert hadamard(size) is None


@pytest.mark.parametrize("size", [8, 30, 52, 64, 96, 384])
def test_rotations_leave_ones_and_spread_single_channels(
    size: int, rng: np.random.Generator
) -> None:
    matrix = rotation(size, rng)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(size), atol=1e-12)
    np.testing.assert_allclose(matrix.sum(0), 1, atol=1e-12)
    # a normal distribution of so many has none beyond 6 deviations
    assert np.abs(matrix).max() < 6 / np.sqrt(size)


# -- what is turned --------------------------------------------------------------------------------

TRANSFORMER = """%e = Gather(W(30, 24), %x, axis=0) %h = Add(%e, W(5, 24))
  %n = LayerNormalization(%h, W(24), W(24), axis=-1)
  %p = MatMul(%n, W(24, 72)) %q = Add(%p, W(72))
  %u, %k, %v = Split(%q, axis=-1, num_outputs=3)
  %a = Attention(%u, %k, %v, q_num_heads=3, kv_num_heads=3)
  %f = Reshape(%a, int64[2]{10, 24}) %o = Gemm(%f, W(24, 24), W(24))
  %s = Reshape(%o, int64[3]{2, 5, 24}) %r = Add(%s, %h)
  %m = LayerNormalization(%r, W(24), W(24), axis=-1)
  %g = MatMul(%m, W(24, 48)) %t = Gelu(%g) %d = MatMul(%t, W(48, 24))
  %z = Add(%r, %d) %w = LayerNormalization(%z, W(24), W(24), axis=-1)
  %y = MatMul(%w, W(24, 30))"""
HEADS = """%u = MatMul(%x, W(24, 24)) %v = Add(%u, W(24))
  %s = Reshape(%v, int64[4]{2, 5, 3, 8}) %t = Transpose(%s, perm=(0, 2, 1, 3))
  %m = MatMul(%x, W(24, 5)) %p = Softmax(%m, axis=-1) %r = Reshape(%p, int64[4]{2, 1, 5, 5})
  %o = MatMul(%r, %t) %b = Transpose(%o, perm=(0, 2, 1, 3)) %c = Reshape(%b, int64[3]{2, 5, 24})
  %y = MatMul(%c, W(24, 16))"""
# A graph, and of each space that is turned how many channels it has, its normalizations, and the
# layers that read it.
TURNED = {
    "transformer": (TOKENS, TRANSFORMER, [(24, 3, 3), (8, 0, 1)]),
    "values of heads": (ROWS, HEADS, [(8, 0, 1)]),
    "fewer heads of values": (
        ROWS,
        """%q = MatMul(%x, W(24, 32)) %k = MatMul(%x, W(24, 16)) %v = MatMul(%x, W(24, 16))
        %a = Attention(%q, %k, %v, q_num_heads=4, kv_num_heads=2) %y = MatMul(%a, W(32, 8))""",
        [(8, 0, 1)],
    ),
    "heads apart": (
        ROWS,
        """%v = MatMul(%x, W(24, 24)) %s = Reshape(%v, int64[4]{2, 5, 3, 8})
        %t = Transpose(%s, perm=(0, 2, 1, 3)) %m = Relu(%x)
        %r = Reshape(%m, int64[4]{2, 5, 3, 8}) %k = Transpose(%r, perm=(0, 2, 1, 3))
        %a = Attention(%k, %k, %t)
        %b = Transpose(%a, perm=(0, 2, 1, 3)) %c = Reshape(%b, int64[3]{2, 5, 24})
        %y = MatMul(%c, W(24, 8))""",
        [(8, 0, 1)],
    ),
    "pair of layers": (
        ROWS,
        "%a = MatMul(%x, W(24, 16)) %b = Mul(%a, float32[]{0.5}) %y = MatMul(%b, W(16, 8))",
        [(16, 0, 1)],
    ),
    "no Hadamard matrix of 22": (
        ROWS,
        "%a = MatMul(%x, W(24, 22)) %y = MatMul(%a, W(22, 8))",
        [(22, 0, 1)],
    ),
    "root mean square, bias of a Gemm": (
        "%x: float32[7, 24]",
        """%h = Gemm(%x, W(16, 24), W(16), transB=1) %n = RMSNormalization(%h, W(16), axis=-1)
        %p = Gemm(%n, W(16, 8), W(8)) %q = MatMul(%n, W(16, 8)) %y = Add(%p, %q)""",
        [(16, 1, 2)],
    ),
    "normalization, products without a bias": (
        ROWS,
        """%h = MatMul(%x, W(24, 16)) %n = LayerNormalization(%h, W(16), W(16), axis=-1)
        %p = MatMul(%n, W(16, 8)) %q = MatMul(%n, W(16, 8)) %s = Sigmoid(%p) %y = Mul(%s, %q)""",
        [(16, 1, 2)],
    ),
    "normalization, Gemm with and without a bias": (
        "%x: float32[7, 24]",
        """%h = MatMul(%x, W(24, 16)) %n = LayerNormalization(%h, W(16), W(16), axis=-1)
        %p = Gemm(%n, W(16, 8)) %q = Gemm(%n, W(8, 16), W(8), transB=1) %y = Add(%p, %q)""",
        [(16, 1, 2)],
    ),
    "linear bottlenecks": (
        IMAGES,
        """%a = Conv(%x, W(8, 3, 3, 3), W(8), pads=(1, 1, 1, 1))
        %b = Conv(%a, W(16, 8, 3, 3), W(16), pads=(1, 1, 1, 1))
        %c = Relu(%b) %d = Conv(%c, W(8, 16, 1, 1)) %e = Add(%d, %a)
        %f = Conv(%e, W(8, 8, 1, 1), W(8)) %y = Relu(%f)""",
        [(8, 0, 2)],
    ),
    "patches": (
        IMAGES,
        """%a = Conv(%x, W(16, 3, 4, 4), W(16), strides=(4, 4)) %b = Reshape(%a, int64[3]{2, 16, 4})
        %c = Transpose(%b, perm=(0, 2, 1)) %d = Expand(W(1, 1, 16), int64[3]{2, 1, 16})
        %e = Concat(%d, %c, axis=1) %n = LayerNormalization(%e, W(16), W(16), axis=-1)
        %g = Gather(%n, int64[]{0}, axis=1) %y = MatMul(%g, W(16, 8))""",
        [(16, 1, 1)],
    ),
    "means of rows": (
        ROWS,
        """%a = MatMul(%x, W(24, 16)) %n = LayerNormalization(%a, W(16), W(16), axis=-1)
        %m = ReduceMean(%n, int64[1]{1}, keepdims=0) %y = MatMul(%m, W(16, 8))""",
        [(16, 1, 1)],
    ),
}


def turned_at_random(graph: Graph, rng: np.random.Generator) -> tuple[list[Basis], Graph]:
    bases, _ = find_bases(graph, find_layers(graph))
    turns = [(basis, rotation(basis.block, rng)) for basis in bases]
    return bases, turned(graph, turns, ScratchArrays())


@pytest.mark.parametrize("name", TURNED)
def test_a_turned_graph_computes_the_same(name: str, rng: np.random.Generator) -> None:
    inputs, body, expected = TURNED[name]
    graph = graph_of(rng, body, inputs)
    bases, result = turned_at_random(graph, rng)
    assert [(b.block, len(b.norms), len(b.readers)) for b in bases] == expected
    verify(result)
    given = feeds(graph, rng)
    right, same = (evaluate(each, given)["y"] for each in (graph, result))
    # constants are rounded once more, and sums of up to 48 products are other ones
    np.testing.assert_allclose(same, right, rtol=2e-5, atol=2e-5 * float(np.abs(right).max()))
    copies = {layer.node.serial: layer for layer in find_layers(result)}
    for layer in (layer for basis in bases for layer in basis.layers):
        assert not np.allclose(copies[layer.node.serial].weights, layer.weights)


@pytest.mark.parametrize("name", TURNED)
def test_a_turned_graph_says_which_values_are(name: str, rng: np.random.Generator) -> None:
    inputs, body, _ = TURNED[name]
    graph = graph_of(rng, body, inputs)
    _, result = turned_at_random(graph, rng)
    given, rotated = feeds(graph, rng), rotated_values(result)
    assert rotated
    values = [value.name for node in graph.nodes for value in node.outputs]
    right, same = (evaluate(each, given, fetch=values) for each in (graph, result))
    for value in values:
        bound = 2e-5 * float(np.abs(right[value]).max())
        is_same = np.allclose(same[value], right[value], rtol=2e-5, atol=bound)
        assert is_same or value in rotated, value
    assert sum(not np.allclose(same[v], right[v], rtol=1e-3) for v in rotated & {*values})


def test_weights_that_an_embedding_shares_become_two(rng: np.random.Generator) -> None:
    graph = graph_of(
        rng,
        """%e = Gather(W(300, 16), %x, axis=0)
        %n = LayerNormalization(%e, W(16), W(16), axis=-1) %r = Reshape(%n, int64[2]{10, 16})
        %y = Gemm(%r, W(300, 16), transB=1)""",
        TOKENS,
    )
    (gather, gemm) = (next(n for n in graph.nodes if n.kind == k) for k in ("Gather", "Gemm"))
    gemm.set_operand(1, gather.inputs[0])
    _, result = turned_at_random(graph, rng)
    given = feeds(graph, rng)
    right, same = (evaluate(each, given)["y"] for each in (graph, result))
    np.testing.assert_allclose(same, right, rtol=2e-5, atol=2e-5 * float(np.abs(right).max()))


NORMALIZED = "%h = MatMul(%x, W(24, 16)) %n = LayerNormalization(%h, W(16), W(16), axis=-1) "
REFUSED = {
    "an activation function": (ROWS, NORMALIZED + "%y = Relu(%n)", "y = %y"),
    "a sum behind the normalization": (
        ROWS,
        NORMALIZED + "%a = MatMul(%n, W(16, 16)) %b = Add(%a, %n) %y = MatMul(%b, W(16, 4))",
        "y = %y",
    ),
    "an output": (ROWS, NORMALIZED + "%y = MatMul(%n, W(16, 4))", "y = %y, h = %h"),
    "an input": (
        "%x: float32[7, 16]",
        "%n = LayerNormalization(%x, W(16), W(16), axis=-1) %y = MatMul(%n, W(16, 4))",
        "y = %y",
    ),
    "some of the channels": (
        ROWS,
        """%h = MatMul(%x, W(24, 16)) %s = Slice(%h, int64[1]{0}, int64[1]{9}, int64[1]{2})
        %y = MatMul(%s, W(9, 4))""",
        "y = %y",
    ),
    "another order of channels": (
        ROWS,
        """%h = MatMul(%x, W(24, 16))
        %s = Slice(%h, int64[1]{-1}, int64[1]{-99}, int64[1]{2}, int64[1]{-1})
        %y = MatMul(%s, W(16, 4))""",
        "y = %y",
    ),
    "a factor of each channel": (
        ROWS,
        "%h = MatMul(%x, W(24, 16)) %s = Mul(%h, W(16)) %y = MatMul(%s, W(16, 4))",
        "y = %y",
    ),
    "a product of two": (
        ROWS,
        "%h = MatMul(%x, W(24, 16)) %s = Mul(%h, %h) %y = MatMul(%s, W(16, 4))",
        "y = %y",
    ),
    "few channels": (ROWS, "%h = MatMul(%x, W(24, 4)) %y = MatMul(%h, W(4, 4))", "y = %y"),
    "small parts": (
        ROWS,
        """%h = MatMul(%x, W(24, 16)) %s = Reshape(%h, int64[4]{2, 5, 4, 4})
        %t = Transpose(%s, perm=(0, 1, 3, 2)) %r = Reshape(%t, int64[3]{2, 5, 16})
        %y = MatMul(%r, W(16, 4))""",
        "y = %y",
    ),
    "groups": (
        IMAGES,
        "%a = Conv(%x, W(16, 3, 1, 1)) %y = Conv(%a, W(16, 1, 3, 3), group=16)",
        "y = %y",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_channels_that_cannot_be_turned_stay(name: str, rng: np.random.Generator) -> None:
    inputs, body, results = REFUSED[name]
    graph = graph_of(rng, body, inputs, results)
    bases, refused = find_bases(graph, find_layers(graph))
    assert bases == []
    assert len(refused) == sum(node.kind == "LayerNormalization" for node in graph.nodes)
    assert all(refused.values())


def test_channels_that_a_body_reads_stay(rng: np.random.Generator) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]>
        m (bool c, float[3, 24] x, float[24, 16] a, float[16, 4] b) => (y, r) {
          h = MatMul(x, a)
          y = MatMul(h, b)
          r = If (c) <then_branch = t () => (u) { u = Neg(h) },
                      else_branch = e () => (v) { v = Abs(h) }>
        }"""
    )
    for name, shape in (("a", (24, 16)), ("b", (16, 4))):
        array = rng.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    del model.graph.input[2:]
    graph = load(model)
    assert len(find_layers(graph)) == 2
    assert find_bases(graph, find_layers(graph))[0] == []


# -- what is kept ----------------------------------------------------------------------------------


def setting_of(graph: Graph, runs: list[dict[str, Array]] | None) -> Setting:
    return Setting(graph, find_layers(graph), [], [], runs, MethodOptions(), 1, 0, None)


def test_rotations_need_data_and_methods_that_round(rng: np.random.Generator) -> None:
    inputs, body, _ = TURNED["pair of layers"]
    graph = graph_of(rng, body, inputs)
    for setting, methods in (
        (setting_of(graph, None), [Int8()]),
        (setting_of(graph, [feeds(graph, rng)]), [Int4()]),
        (setting_of(graph, [feeds(graph, rng)]), [Int8(), Sparse()]),
    ):
        made, rotations = rotate(setting, methods)
        assert made is setting
        assert not rotations.serials
        assert not rotations.notes


def test_rows_with_a_large_channel_are_rotated_and_weights_with_zeros_stay(
    rng: np.random.Generator,
) -> None:
    graph = graph_of(rng, "%a = MatMul(%x, W(24, 32)) %y = MatMul(%a, W(32, 8))", ROWS)
    first, second = find_layers(graph)
    scale = np.where(np.arange(32) == 5, 30, 1).astype(np.float32)
    first.node.set_operand(1, constant(first.weights * scale))
    second.node.set_operand(1, constant(second.weights / scale[:, None]))
    runs = [{"x": rng.standard_normal((2, 5, 24)).astype(np.float32)} for _ in range(40)]
    made, rotations = rotate(setting_of(graph, runs), [Int8()])
    assert rotations.serials == {first.node.serial, second.node.serial}
    (note,) = rotations.notes
    assert note.startswith("rotated: 32 channels that 1 layers read, 0.")
    right, same = (evaluate(each, runs[0])["y"] for each in (graph, made.graph))
    np.testing.assert_allclose(same, right, rtol=2e-5, atol=2e-5 * float(np.abs(right).max()))
    zeros = second.weights * (np.arange(8) < 3)
    second.node.set_operand(1, constant(zeros))
    made, rotations = rotate(setting_of(graph, runs), [Int8()])
    assert made.graph is graph
    assert rotations.notes == ("rotations that do not help: 1",)


def test_a_normalization_with_a_large_channel_is_rotated(rng: np.random.Generator) -> None:
    """A product whose operand it is, and one with a bias."""
    body = """%h = MatMul(%x, W(24, 32)) %n = LayerNormalization(%h, W(32), W(32), axis=-1)
    %p = MatMul(%n, W(32, 8)) %q = MatMul(%n, W(32, 8)) %b = Add(%q, W(8)) %y = Add(%p, %b)"""
    graph = graph_of(rng, body, ROWS)
    norm = next(node for node in graph.nodes if node.kind == "LayerNormalization")
    scale = np.where(np.arange(32) == 5, 40, 1).astype(np.float32)
    for operand in (1, 2):
        value = norm.inputs[operand]
        assert value is not None
        assert value.const is not None
        norm.set_operand(operand, constant(value.const * scale))
    _, *readers = find_layers(graph)
    for layer in readers:
        layer.node.set_operand(1, constant(layer.weights / scale[:, None]))
    runs = [{"x": rng.standard_normal((2, 5, 24)).astype(np.float32)} for _ in range(40)]
    made, rotations = rotate(setting_of(graph, runs), [Int8Dynamic()])
    assert len(rotations.serials) == 3
    assert rotations.notes[0].startswith("rotated: 32 channels that 2 layers read, 0.")
    right, same = (evaluate(each, runs[0])["y"] for each in (graph, made.graph))
    np.testing.assert_allclose(same, right, rtol=2e-5, atol=2e-5 * float(np.abs(right).max()))


def test_plans_tell_of_rotations(rng: np.random.Generator) -> None:
    inputs, body, _ = TURNED["pair of layers"]
    first, second = find_layers(graph_of(rng, body, inputs))
    form: Any = None
    plan = Plan({first: form, second: form}, calibrators={first: "mse"})
    mark_layers([plan], {first.node.serial}, "rotated")
    assert plan.calibrators == {first: "mse, rotated"}
