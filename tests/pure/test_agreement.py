"""Agreement of tensors added up over runs, against NumPy; pairs of inputs, outputs and inner
values.
"""

import json
import math
from typing import Any

import numpy as np
import pytest

from infuse.data.metrics import cosine, metric, signal_to_noise
from infuse.ir.graph import Graph
from infuse.ir.parser import parse
from infuse.profiling import Agreement
from infuse.profiling.inner import as_read, inner_pairs

pytestmark = pytest.mark.row("A2")


def agreement(*pairs: tuple[Any, Any], **options: Any) -> Agreement:
    result = Agreement()
    for a, b in pairs:
        result.add(a, b, **options)
    return result


def test_sums_over_runs_are_those_of_all_elements(rng: np.random.Generator) -> None:
    a = rng.standard_normal((40, 10)).astype(np.float32)
    b = (a + 0.01 * rng.standard_normal(a.shape)).astype(np.float32)
    result = agreement(*((a[i : i + 7], b[i : i + 7]) for i in range(0, 40, 7)), has_scores=True)
    assert result.sqnr == pytest.approx(signal_to_noise(b, a), rel=1e-9)
    assert result.cosine == pytest.approx(cosine(b, a), rel=1e-9)
    wide = a.astype(np.float64)
    assert result.relative_error == pytest.approx(np.abs(b - wide).max() / np.abs(wide).max())
    assert result.top1 == pytest.approx(metric("agreement")([{"y": b}], [{"y": a}]))
    assert result.elements == 400
    assert result.not_finite == 0


def test_worked_out_by_hand() -> None:
    result = agreement((np.float32([3, 4]), np.float32([3, 4.5])))
    assert result.sqnr == pytest.approx(10 * math.log10(25 / 0.25))
    assert result.cosine == pytest.approx((9 + 18) / (5 * math.hypot(3, 4.5)))
    assert result.relative_error == pytest.approx(0.5 / 4)
    assert (result.equal, result.elements, result.is_equal, result.top1) == (1, 2, False, None)


@pytest.mark.parametrize(
    ("a", "b", "sqnr", "error"),
    [
        (np.float32([1, 2]), np.float32([1, 2]), math.inf, 0.0),
        (np.float32([0, 0]), np.float32([0, 1]), -math.inf, math.inf),
        (np.float32([]), np.float32([]), math.inf, 0.0),
        (np.int64([1, 2]), np.int64([1, 4]), 10 * math.log10(5 / 4), 1.0),
        (np.array([True, True]), np.array([True, False]), 10 * math.log10(2), 1.0),
    ],
)
def test_equal_values_noise_alone_and_integers(a: Any, b: Any, sqnr: float, error: float) -> None:
    result = agreement((a, b))
    assert result.sqnr == pytest.approx(sqnr)
    assert result.relative_error == pytest.approx(error)
    json.dumps(result.to_dict(), allow_nan=False)


def test_elements_that_are_not_finite_are_counted_apart() -> None:
    a = np.float32([np.nan, np.inf, 1, 2, np.inf])
    result = agreement((a, np.float32([np.nan, np.inf, 1, np.nan, -np.inf])))
    assert result.not_finite == 2
    assert result.equal == 3
    assert result.sqnr == math.inf
    assert not result.is_equal
    assert result.to_dict()["sqnr_db"] is None


def test_complex_numbers_and_texts() -> None:
    result = agreement((np.complex64([3 + 4j]), np.complex64([3 + 4.5j])))
    assert result.sqnr == pytest.approx(20)
    texts = agreement((np.array(["a", "b"], object), np.array(["a", "c"], object)))
    assert (texts.equal, texts.elements) == (1, 2)


# -- inner values ----------------------------------------------------------------------------------

A = parse("""graph "g" (%x: float32[2, 3]) {
  %h = Exp(%x)
  %r = Relu(%h)
  %n = ReduceSum(%r, int64[1]{1}, keepdims=0)
  %y = Neg(%n)
  return y = %y
}""")


def named(text: str) -> Graph:
    """A graph whose nodes are called after their operators."""
    graph = parse(text)
    for node in graph.nodes:
        node.name = node.kind
    return graph


def test_inner_values_are_paired_by_name_and_rank() -> None:
    other = parse("""graph "g" (%x: float32[2, 3]) {
      %r = Exp(%x)
      %h = ReduceSum(%r, int64[1]{1}, keepdims=0)
      %s = Shape(%x)
      %y = Neg(%h)
      return y = %y
    }""")
    assert [(a.name, b.name) for a, b in inner_pairs(A, other)] == [("r", "r")]
    assert [a.name for a, _ in inner_pairs(A, A)] == ["h", "r", "n"]


def test_values_of_nodes_of_one_name_belong_together() -> None:
    text = """graph "g" (%x: float32[2, 3]) {
      %FIRST = Exp(%x)
      %SECOND = Relu(%FIRST)
      %y = Neg(%SECOND)
      return y = %y
    }"""
    a = named(text.replace("FIRST", "h").replace("SECOND", "r"))
    b = named(text.replace("FIRST", "u").replace("SECOND", "v"))
    assert [(x.name, y.name) for x, y in inner_pairs(a, b)] == [("h", "u"), ("r", "v")]


def test_a_value_with_a_name_of_its_own_is_paired_with_that_only() -> None:
    """A quantizer drops Relu and gives the product its name: it is no product without Relu."""
    a = named("""graph "g" (%x: float32[2, 3]) {
      %h = Exp(%x)
      %r = Relu(%h)
      %y = Neg(%r)
      return y = %y
    }""")
    b = named("""graph "g" (%x: float32[2, 3]) {
      %r = Exp(%x)
      %y = Neg(%r)
      return y = %y
    }""")
    assert [(x.name, y.name) for x, y in inner_pairs(a, b)] == [("r", "r")]


def test_a_rounded_value_is_what_its_readers_see() -> None:
    graph = parse("""graph "g" (%x: float32[2, 3]) {
      %h = Exp(%x)
      %q = QuantizeLinear(%h, float32[]{0.5}, uint8[]{0})
      %d = DequantizeLinear(%q, float32[]{0.5}, uint8[]{0})
      %e = Exp(%d)
      %f = QuantizeLinear(%e, float32[]{0.5}, uint8[]{0})
      %y = Neg(%e)
      return y = %y, f = %f
    }""")
    values = {value.name: value for node in graph.nodes for value in node.outputs}
    assert as_read(values["h"]) is values["d"]
    assert as_read(values["e"]) is values["e"]
    assert [a.name for a, _ in inner_pairs(graph, graph)] == ["h", "e"]


def test_limits_of_integers_stand_for_an_activation() -> None:
    """A quantizer drops Relu, as no byte stands for a negative number: what is read belongs to what
    Relu gives.
    """
    a = named("""graph "g" (%x: float32[2, 3]) {
      %h = Exp(%x)
      %r = Relu(%h)
      %y = Neg(%r)
      return y = %y
    }""")
    b = named("""graph "g" (%x: float32[2, 3]) {
      %h = Exp(%x)
      %q = QuantizeLinear(%h, float32[]{0.5}, uint8[]{0})
      %d = DequantizeLinear(%q, float32[]{0.5}, uint8[]{0})
      %y = Neg(%d)
      return y = %y
    }""")
    assert [(x.name, y.name) for x, y in inner_pairs(a, b)] == [("r", "h")]
