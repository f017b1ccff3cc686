"""Gradients of whole graphs, and what has none."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from infuse.errors import (
    InputError,
    ShapeError,
    TypeMismatchError,
    UnsupportedOperatorError,
)
from infuse.ir.parser import parse
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate
from infuse.training import differentiate

pytestmark = pytest.mark.row("Z5")

NETWORK = """graph "net" (%x: float32[n, 1, 8, 8], %w: float32[4, 1, 3, 3], %v: float32[36, 3],
    %labels: int64[n]) {
  %c = Conv(%x, %w, pads=(1, 1, 1, 1))
  %r = Relu(%c)
  %p = MaxPool(%r, kernel_shape=(3, 3), strides=(2, 2))
  %f = Flatten(%p)
  %s = MatMul(%f, %v)
  %loss = SoftmaxCrossEntropyLoss(%s, %labels)
  return loss = %loss, s = %s
}"""


def test_a_network_with_a_batch_of_any_size_has_the_gradients_of_torch() -> None:
    graph = parse(NETWORK)
    better = differentiate(graph, "loss", ["w", "v", "x"])
    verify(better)
    assert "gradient.w" not in graph.output_names
    for batch in (1, 3):
        rng = np.random.default_rng(batch)
        feeds = {
            "x": rng.standard_normal((batch, 1, 8, 8), np.float32),
            "w": rng.standard_normal((4, 1, 3, 3), np.float32),
            "v": rng.standard_normal((36, 3), np.float32),
            "labels": rng.integers(0, 3, batch),
        }
        found = evaluate(better, feeds)
        x, w, v = (torch.tensor(feeds[n], requires_grad=True) for n in ("x", "w", "v"))
        hidden = torch.relu(torch.conv2d(x, w, padding=1))
        pooled = torch.max_pool2d(hidden, 3, 2).flatten(1)
        loss = torch.nn.functional.cross_entropy(pooled @ v, torch.tensor(feeds["labels"]))
        loss.backward()
        for name, tensor in (("x", x), ("w", w), ("v", v)):
            assert tensor.grad is not None
            # Sums of float32 in another order.
            np.testing.assert_allclose(
                found[f"gradient.{name}"], tensor.grad.numpy(), rtol=1e-4, atol=1e-5
            )


def test_a_value_that_is_read_twice_gets_the_sum() -> None:
    graph = parse(
        """graph "twice" (%x: float32[3]) {
          %a = Mul(%x, %x)
          %b = Exp(%x)
          %c = Sin(%x)
          %d = Sum(%a, %b, %c)
          %loss = ReduceSum(%d, keepdims=0)
          return loss = %loss
        }"""
    )
    x = np.array([0.5, -1, 2], np.float32)
    found = evaluate(differentiate(graph, "loss", ["x"]), {"x": x})["gradient.x"]
    np.testing.assert_allclose(found, 2 * x + np.exp(x) + np.cos(x), rtol=1e-6)


def test_only_what_lies_between_is_looked_at() -> None:
    graph = parse(
        """graph "between" (%x: float32[3], %y: float32[3]) {
          %hidden = CumProd(%x, int64[]{0})
          %z = Mul(%hidden, %y)
          %loss = ReduceSum(%z, keepdims=0)
          return loss = %loss
        }"""
    )
    feeds = {"x": np.array([1, 2, 3], np.float32), "y": np.ones(3, np.float32)}
    found = evaluate(differentiate(graph, "loss", ["y", "hidden"]), feeds)
    np.testing.assert_array_equal(found["gradient.y"], [1, 2, 6])
    np.testing.assert_array_equal(found["gradient.hidden"], [1, 1, 1])
    with pytest.raises(UnsupportedOperatorError, match="CumProd"):
        differentiate(graph, "loss", ["x"])


def test_a_value_without_influence_has_zeros() -> None:
    graph = parse(
        """graph "unread" (%x: float32[2], %y: float32[n]) {
          %floor = Floor(%y)
          %both = Concat(%x, %floor, axis=0)
          %loss = ReduceSum(%both, keepdims=0)
          return loss = %loss
        }"""
    )
    feeds = {"x": np.ones(2, np.float32), "y": np.array([1.5, 2, 3], np.float32)}
    found = evaluate(differentiate(graph, "loss", ["x", "y"]), feeds)
    np.testing.assert_array_equal(found["gradient.x"], [1, 1])
    np.testing.assert_array_equal(found["gradient.y"], [0, 0, 0])


def test_all_operators_without_a_gradient_are_named_at_once() -> None:
    graph = parse(
        """graph "missing" (%x: float32[3, 3]) {
          %a = Det(%x)
          %b: float32[3, 3] = other::Strange(%x)
          %c = Det(%b)
          %d = Add(%a, %c)
          return loss = %d
        }"""
    )
    with pytest.raises(UnsupportedOperatorError, match="Strange") as error:
        differentiate(graph, "loss", ["x"])
    assert error.value.what.count("Det") == 2


@pytest.mark.parametrize(
    ("loss", "values", "kind", "what"),
    [
        ("nothing", ["x"], InputError, "no output 'nothing'"),
        ("y", ["z"], InputError, "no values 'z'"),
        ("y", ["x"], ShapeError, "must be one number"),
        ("count", ["x"], TypeMismatchError, "must be a float"),
        ("total", ["i"], TypeMismatchError, "only floats"),
    ],
)
def test_what_cannot_be_differentiated_is_refused(
    loss: str, values: list[str], kind: type[Exception], what: str
) -> None:
    graph = parse(
        """graph "bad" (%x: float32[3], %i: int64[3]) {
          %y = Exp(%x)
          %count = Size(%x)
          %total = ReduceSum(%x, keepdims=0)
          return y = %y, count = %count, total = %total
        }"""
    )
    with pytest.raises(kind, match=what):
        differentiate(graph, loss, values)


SCAN = """graph "scan" (%h: float64[2], %xs: float64[3, 4, 2], %w: float64[2, 2]) {
  %last, %all = Scan(%h, %xs, num_scan_inputs=1, scan_input_axes=(1,), scan_output_axes=(-1,),
      scan_input_directions=(1,), scan_output_directions=(1,)) {
      body = graph "step" (%s: float64[2], %x: float64[3, 2]) {
        %p = MatMul(%x, %w)
        %m = ReduceSum(%p, int64[1]{0}, keepdims=0)
        %t = Add(%m, %s)
        %n = Tanh(%t)
        %row = Mul(%n, %n)
        return n = %n, row = %row
      }
  }
  %a = ReduceSum(%last, keepdims=0)
  %b = ReduceSumSquare(%all, keepdims=0)
  %loss = Add(%a, %b)
  return loss = %loss
}"""
LOOP = """graph "loop" (%h: float64[2], %w: float64[2, 2]) {
  %last, %all = Loop(int64[]{5}, bool[]{True}, %h) {
      body = graph "turn" (%i: int64[], %go: bool[], %s: float64[2]) {
        %p = MatMul(%s, %w)
        %n = Sin(%p)
        return go = %go, n = %n, row = %n
      }
  }
  %a = ReduceSum(%last, keepdims=0)
  %b = ReduceSumSquare(%all, keepdims=0)
  %loss = Add(%a, %b)
  return loss = %loss
}"""


@pytest.mark.parametrize("text", [SCAN, LOOP], ids=["scan", "loop"])
def test_gradients_flow_through_loops_and_what_they_capture(text: str) -> None:
    graph = parse(text)
    rng = np.random.default_rng(4)
    feeds = {v.name: rng.standard_normal([int(str(n)) for n in v.shape]) for v in graph.inputs}
    names = list(feeds)
    better = differentiate(graph, "loss", names)
    verify(better)
    found = evaluate(better, feeds)
    assert found["loss"] == pytest.approx(evaluate(graph, feeds)["loss"], rel=1e-6)
    for name in names:
        gradient = found[f"gradient.{name}"]
        for index in np.ndindex(gradient.shape):
            losses = []
            for by in (1e-6, -1e-6):
                moved = feeds[name].copy()
                moved[index] += by
                losses.append(float(evaluate(graph, {**feeds, name: moved})["loss"]))
            central = (losses[0] - losses[1]) / 2e-6
            assert gradient[index] == pytest.approx(central, rel=1e-5, abs=1e-6)


def test_a_loop_that_runs_too_often_is_refused() -> None:
    graph = parse(LOOP.replace("int64[]{5}", "int64[]{5000}"))
    with pytest.raises(UnsupportedOperatorError, match="runs 5000 times"):
        differentiate(graph, "loss", ["w"])
    graph = parse(LOOP.replace("int64[]{5}", "%m").replace("(%h:", "(%m: int64[], %h:"))
    with pytest.raises(UnsupportedOperatorError, match="Loop"):
        differentiate(graph, "loss", ["w"])


def test_a_repetition_that_only_the_run_knows_is_refused() -> None:
    graph = parse(
        """graph "open" (%x: float32[n], %y: float32[m]) {
          %z = Mul(%x, %y)
          %loss = ReduceSum(%z, keepdims=0)
          return loss = %loss
        }"""
    )
    with pytest.raises(ShapeError, match="not known before the run"):
        differentiate(graph, "loss", ["x"])
