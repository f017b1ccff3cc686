"""Gradients that flow through the branches of If, beside those of torch."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
import torch

import infuse
from infuse.errors import UnsupportedOperatorError
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate
from infuse.training import differentiate

pytestmark = pytest.mark.row("Z5")
MODEL = """<ir_version: 9, opset_import: ["": 18]>
g (float[N, 3] x, float[3, 2] w, float[2] b, bool flag, bool inner) => (float loss) {
    h = MatMul(x, w)
    y, direct = If (flag) <
        then_branch = t () => (o, d) { r = Relu(h)  o = Add(r, b)  d = Identity(h) },
        else_branch = e () => (o2, d2) {
            a = Tanh(h)
            o2 = If (inner) <
                then_branch = f () => (p) { p = Mul(a, h) },
                else_branch = s () => (q) { q = Sub(a, b) }
            >
            d2 = Mul(h, h)
        }
    >
    z = Mul(y, direct)
    loss = ReduceMean <keepdims = 0> (z)
}"""


def by_torch(feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    x, w, b = (torch.tensor(feeds[name], requires_grad=True) for name in "xwb")
    h = x @ w
    if feeds["flag"]:
        y, direct = torch.relu(h) + b, h
    else:
        a = torch.tanh(h)
        y, direct = a * h if feeds["inner"] else a - b, h * h
    (y * direct).mean().backward()
    return {
        name: np.zeros_like(feeds[name]) if t.grad is None else t.grad.numpy()
        for name, t in zip("xwb", (x, w, b))
    }


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("flag", [False, True])
def test_the_branch_that_is_taken_has_the_gradients_of_torch(
    flag: bool, inner: bool, batch: int
) -> None:
    graph = infuse.load(onnx.parser.parse_model(MODEL))
    better = differentiate(graph, "loss", ["x", "w", "b"])
    verify(better)
    rng = np.random.default_rng(batch)
    feeds = {
        "x": rng.standard_normal((batch, 3), np.float32),
        "w": rng.standard_normal((3, 2), np.float32),
        "b": rng.standard_normal(2, np.float32),
        "flag": np.array(flag),
        "inner": np.array(inner),
    }
    results = evaluate(better, feeds)
    compiled = infuse.compile(infuse.optimize(better)).run(feeds)
    for name, expected in by_torch(feeds).items():
        for result in (results, compiled):
            np.testing.assert_allclose(result[f"gradient.{name}"], expected, rtol=1e-5, atol=1e-6)


def test_an_operator_without_a_gradient_inside_of_a_branch_is_named() -> None:
    text = (
        MODEL.replace("a = Tanh(h)", "a = CumProd(h, axis)")
        .replace("bool inner)", "bool inner, int64 axis)")
        .replace('"": 18', '"": 26')
    )
    graph = infuse.load(onnx.parser.parse_model(text))
    with pytest.raises(UnsupportedOperatorError, match="CumProd"):
        differentiate(graph, "loss", ["w"])


def test_numbers_of_the_other_branch_do_not_reach_the_gradient() -> None:
    """A branch that would divide by zero is not computed where the other is taken."""
    text = """<ir_version: 9, opset_import: ["": 18]>
    g (float x, bool safe) => (float loss) {
        loss = If (safe) <
            then_branch = t () => (a) { a = Mul(x, x) },
            else_branch = e () => (b) { b = Reciprocal(x) }
        >
    }"""
    better = differentiate(infuse.load(onnx.parser.parse_model(text)), "loss", ["x"])
    feeds = {"x": np.array(0, np.float32), "safe": np.array(True)}
    assert evaluate(better, feeds)["gradient.x"] == 0
