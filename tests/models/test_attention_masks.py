"""Masks of Attention in older opsets: a query that sees no key gives zeros, as the operator
does.
"""

from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import count_operators
from infuse.ops.core.evaluate import evaluate
from infuse.testing.patterns import graph_of
from tests.models.onnx_tools import session

Q, K, V, M, C = (Variable(name) for name in "qkvmc")
OPERANDS = {"q": (2, 3, 5, 4), "k": (2, 3, 5, 4), "v": (2, 3, 5, 4), "m": (5, 5)}


def hidden_row() -> np.ndarray:
    """Zeros, and a row of -inf."""
    mask = np.zeros((5, 5), np.float32)
    mask[2] = -np.inf
    return mask


@pytest.mark.row("G33")
@pytest.mark.parametrize("opset", [13, 17, 22])
@pytest.mark.parametrize("constant", [False, True])
def test_a_query_that_sees_nothing_gives_zeros(
    opset: int, constant: bool, tmp_path: Path, rng: np.random.Generator
) -> None:
    mask = hidden_row()
    graph = graph_of(
        Call("Attention", (Q, K, V, M)), **{**OPERANDS, "m": mask} if constant else OPERANDS
    )
    feeds = {v.name: rng.standard_normal((2, 3, 5, 4)).astype(np.float32) for v in graph.inputs}
    if not constant:
        feeds["m"] = mask
    infuse.save(graph, tmp_path / "model.onnx", opset=opset)
    (found,) = session(tmp_path / "model.onnx").run(None, feeds)
    np.testing.assert_allclose(found, evaluate(graph, feeds)["y0"], rtol=1e-5, atol=1e-6)
    assert not found[:, :, 2].any()


def test_a_mask_of_finite_numbers_needs_no_care(tmp_path: Path) -> None:
    zero, low = np.float32(0), np.float32(-1e9)
    finite = graph_of(Call("Attention", (Q, K, V, np.full((5, 5), -1e9, np.float32))), **OPERANDS)
    chosen = graph_of(
        Call("Attention", (Q, K, V, Call("Where", (C, zero, low)))),
        c=np.ones((5, 5), bool),
        **OPERANDS,
    )
    for graph in (finite, chosen):
        infuse.save(graph, tmp_path / "model.onnx", opset=17)
        assert "IsNaN" not in count_operators(infuse.load(tmp_path / "model.onnx"))


@pytest.mark.row("G33")
def test_masks_have_a_row_for_every_query_where_sizes_vary(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    """ONNX Runtime refuses others, although ONNX broadcasts them."""
    scores = Call("MatMul", (Q, Call("Transpose", (K,), {"perm": (0, 1, 3, 2)}))) + M
    graph = graph_of(
        Call("MatMul", (Call("Softmax", (scores,)), V)), **{**OPERANDS, "m": (2, 1, 1, 5)}
    )
    fused = infuse.optimize(graph, "extended")
    assert count_operators(fused)["Attention"] == 1
    infuse.save(fused, tmp_path / "model.onnx", opset=24)
    feeds = {
        v.name: rng.standard_normal([int(d) for d in v.shape]).astype(np.float32)
        for v in graph.inputs
    }
    (found,) = session(tmp_path / "model.onnx").run(None, feeds)
    np.testing.assert_allclose(found, evaluate(graph, feeds)["y0"], rtol=1e-4, atol=1e-5)
