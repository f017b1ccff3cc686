"""Layers under a roof, against numbers worked out by hand."""

import numpy as np
import pytest

from infuse import dtypes, ops
from infuse.analysis.cost import totals
from infuse.analysis.layers import layers_of
from infuse.errors import OptionError
from infuse.ir.graph import Graph
from infuse.ir.parser import parse
from infuse.profiling import Inspection, Roof, inspect_graph
from infuse.testing.patterns import graph_of
from tests.pure.costs import X

pytestmark = pytest.mark.row("A1")
ROOF = Roof("native", 1, {"fp32": 1000.0, "int8": 4000.0}, 200.0)


def inspected(text: str, **sizes: int) -> Inspection:
    return inspect_graph(parse(text), ROOF, sizes)


def test_a_convolution_worked_out_by_hand() -> None:
    weight = np.zeros((16, 3, 3, 3), np.float32)
    result = inspect_graph(graph_of(ops.relu(ops.conv(X, weight)), x=(2, 3, 8, 8)), ROOF)
    conv, relu = result.layers
    assert conv.macs == 2 * 16 * 6 * 6 * 27
    assert conv.flops == 2 * conv.macs
    assert (conv.parameters, conv.weight_bytes) == (432, 4 * 432)
    assert (conv.read, conv.written) == (4 * (2 * 3 * 64 + 432), 4 * 2 * 16 * 36)
    assert conv.intensity == pytest.approx(conv.flops / (conv.read + conv.written))
    assert conv.seconds == pytest.approx(conv.flops / 1000)
    assert (conv.bound_by, conv.number) == ("arithmetic", "fp32")
    assert relu.seconds == pytest.approx(2 * conv.written / 200)
    assert (relu.flops, relu.bound_by) == (2 * 16 * 36, "memory")
    total = result.total
    assert total.seconds == pytest.approx(conv.seconds + relu.seconds)
    assert (total.layers, total.flops) == (2, conv.flops + relu.flops)
    assert [row.label for row in result.kinds] == ["Conv", "Relu"]


PRODUCT = """graph "g" (%x: float32[batch, 8], %w: float32[8, 4]) {
  %y = MatMul(%x, %w)
  return y = %y
}"""


def test_symbolic_sizes_have_the_chosen_or_a_usual_one() -> None:
    assert inspected(PRODUCT, batch=5).total.macs == 5 * 32
    usual = inspected(PRODUCT)
    assert (usual.total.macs, usual.sizes) == (32, {"batch": 1})
    assert usual.layers[0].output == "float32[batch, 4]"
    with pytest.raises(OptionError, match="no dynamic axis 'bath'"):
        inspected(PRODUCT, bath=2)
    with pytest.raises(OptionError, match="no size is less than zero: batch = -1"):
        inspected(PRODUCT, batch=-1)


def quantized(kind: str) -> Graph:
    """A product with weights of this element type, dequantized by columns."""
    dtype = dtypes.by_name(kind)
    weights = np.zeros((64, 32), dtype.numpy)
    scales, zeros = np.ones(32, np.float32), np.zeros(32, dtype.numpy)
    stored = ops.dequantize_linear(weights, scales, zeros, axis=1)
    return graph_of(X @ stored, x=(2, 64))


@pytest.mark.parametrize(("kind", "weight_bytes"), [("int8", 2048), ("int4", 1024)])
def test_quantized_weights_count_as_they_are_stored(kind: str, weight_bytes: int) -> None:
    stored = weight_bytes + 4 * 32 + 32 * weight_bytes // 2048
    result = inspect_graph(quantized(kind), ROOF)
    dequantize, product = result.layers
    assert (dequantize.flops, dequantize.bytes, dequantize.bound_by) == (0, 0, "nothing")
    assert product.weight_bytes == result.total.weight_bytes == stored
    assert product.parameters == 64 * 32 + 32
    assert product.read == 4 * 2 * 64 + stored
    assert product.written == 4 * 2 * 32
    assert product.number == "fp32"


def test_weights_in_blocks_of_few_bits_count_packed() -> None:
    packed, scales = np.zeros((8, 2, 16), np.uint8), np.ones(16, np.float32)
    product = ops.mat_mul_n_bits(X, packed, scales, K=64, N=8, block_size=32)
    (row,) = inspect_graph(graph_of(product, x=(1, 64)), ROOF).layers
    assert row.parameters == 64 * 8 + 16
    assert row.weight_bytes == 64 * 8 // 2 + 64
    assert row.read == 4 * 64 + row.weight_bytes
    assert (row.macs, row.number) == (64 * 8, "fp32")


def test_products_of_bytes_have_their_own_peak() -> None:
    weights, x = np.zeros((64, 32), np.int8), {"x": (2, 64)}
    q = ops.quantize_linear(X, np.float32(0.5), np.int8(0))
    d = ops.dequantize_linear(q, np.float32(0.5), np.int8(0))
    result = inspect_graph(graph_of(d @ ops.dequantize_linear(weights, np.float32(1)), **x), ROOF)
    product = result.layers[-1]
    assert (product.kind, product.number) == ("MatMul", "int8")
    assert product.seconds == max(product.flops / 4000, product.bytes / 200)
    plain = Roof("plain", 1, {"fp32": 1000.0}, 100.0)
    assert any("no instruction for products of int8" in note for note in notes_of(plain, d))


def notes_of(roof: Roof, d: object) -> list[str]:
    weights = ops.dequantize_linear(np.zeros((64, 32), np.int8), np.float32(1))
    return inspect_graph(graph_of(d @ weights, x=(2, 64)), roof).notes  # type: ignore[operator]


def test_a_table_from_which_rows_are_taken_is_not_read_whole() -> None:
    table = ops.dequantize_linear(np.zeros((1000, 8), np.int8), np.float32(0.5))
    places = ops.cast(X, to=dtypes.int64)
    gather = inspect_graph(graph_of(ops.gather(table, places), x=(3,)), ROOF).layers[-1]
    stored = 1000 * 8 + 4
    assert gather.read == 3 * 8 * 4 * stored // (1000 * 8 * 4) + 3 * 8
    assert gather.written == 3 * 8 * 4


def test_shared_weights_count_at_the_first_reader() -> None:
    weights = np.ones((4, 4), np.float32)
    result = inspect_graph(graph_of((X @ weights) @ weights, x=(2, 4)), ROOF)
    assert [row.parameters for row in result.layers] == [16, 0]
    assert result.total.parameters == 16


BRANCHES = """graph "g" (%x: float32[5], %go: bool[]) {
  %y = Loop(int64[]{3}, _, %x) {
    body = graph "body" (%i: int64[], %on: bool[], %s: float32[5]) {
      %t = Exp(%s)
      return on = %on, s = %t
    }
  }
  %z = If(%go) {
    then_branch = graph "t" () {
      %a = Neg(%y)
      return a = %a
    }
    else_branch = graph "e" () {
      %b = Exp(%y)
      %c = Exp(%b)
      return c = %c
    }
  }
  return z = %z
}"""


def test_bodies_count_as_often_as_they_run() -> None:
    result = inspected(BRANCHES)
    runs = {(row.kind, row.runs, row.flops) for row in result.layers if row.kind in ("Exp", "Neg")}
    assert runs == {("Exp", 3, 15), ("Neg", 0, 0), ("Exp", 1, 5)}
    assert any("else_branch" in row.label for row in result.layers)
    assert result.total.flops == totals(parse(BRANCHES)).cost.flops == 25


def test_what_is_not_known_is_told() -> None:
    result = inspected("""graph "g" (%x: float32[5]) {
      %y: float32[5] = my.domain::Mystery(%x)
      return y = %y
    }""")
    assert result.notes == ["1 × Mystery: its cost is not known and not counted"]
    (row,) = result.layers
    assert row.to_dict()["flops"] is None
    assert result.to_dict()["total"]["flops"] is None
    assert row.bytes == 40
    places = inspected("""graph "g" (%x: float32[9]) {
      %places = NonZero(%x)
      return y = %places
    }""")
    assert any("only a run finds out" in note for note in places.notes)


def test_sums_of_layers_are_those_of_the_graph() -> None:
    graph = parse(BRANCHES)
    rows, whole = layers_of(graph).rows, totals(graph)
    assert sum(row.cost.flops for row in rows) == whole.cost.flops
    assert sum(row.cost.bytes for row in rows) == whole.cost.bytes
    assert len(rows) == whole.nodes


def test_another_grouping_is_refused() -> None:
    with pytest.raises(OptionError, match="grouped by 'colour'"):
        inspected(PRODUCT).table("colour")


def test_a_graph_without_nodes_has_empty_sums() -> None:
    result = inspected('graph "g" (%x: float32[5]) {\n  return y = %x\n}')
    assert (result.total.seconds, result.total.intensity, result.kinds) == (0, None, [])
