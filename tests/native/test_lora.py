"""Low-rank adaptation: a second way beside products, trained alone and merged."""

from __future__ import annotations

import numpy as np
import pytest

from infuse import dtypes
from infuse.errors import GraphError, InputError, OptionError
from infuse.ir.graph import Graph, constant
from infuse.ir.types import tensor
from infuse.ops.core.evaluate import evaluate
from infuse.training import SGD, TrainOptions, add_lora, lora_parameters, merge_lora, train
from infuse.training.differentiation import Differentiator

pytestmark = pytest.mark.row("Z5")
X = np.random.default_rng(2).standard_normal((24, 6), np.float32)
LABELS = (X[:, 0] > X[:, 1]).astype(np.int64)


def network() -> Graph:
    rng = np.random.default_rng(3)
    graph = Graph("small")
    make = Differentiator(graph, "net")
    x = graph.add_input("x", tensor(dtypes.float32, "n", 6))
    w1, w2, w3, bias = (
        constant(rng.standard_normal(shape, np.float32), name)
        for name, shape in (("w1", (6, 8)), ("w2", (5, 8)), ("w3", (5, 2)), ("b", (5,)))
    )
    hidden = make("Tanh", make("MatMul", x, w1))
    hidden = make("Gemm", hidden, w2, bias, transB=1, alpha=0.5)
    turned = make("Transpose", make("Tanh", hidden))
    graph.add_output(make("Gemm", turned, w3, transA=1), "scores")
    return graph


def test_what_is_added_computes_the_same_and_is_merged_after_training() -> None:
    graph = network()
    wide = add_lora(graph, 2, alpha=4.0, seed=1)
    names = lora_parameters(wide)
    assert len(names) == 6
    before = evaluate(graph, {"x": X})["scores"]
    np.testing.assert_array_equal(evaluate(wide, {"x": X})["scores"], before)
    trained, report = train(
        wide,
        X,
        LABELS,
        TrainOptions(optimizer=SGD(rate=0.05), epochs=20, batch_size=24),
        parameters=names,
    )
    assert report.losses[-1] < 0.7 * report.losses[0]
    old, new = ({v.name: v.const for v in g.constants()} for g in (wide, trained))
    assert all(np.array_equal(old[name], new[name]) != (name in names) for name in old)
    merged = merge_lora(trained)
    assert [n.kind for n in merged.nodes] == [n.kind for n in graph.nodes]
    expected = evaluate(trained, {"x": X})["scores"]
    # The sum of two products against one with the sum of the weights, in float32.
    np.testing.assert_allclose(evaluate(merged, {"x": X})["scores"], expected, rtol=1e-4, atol=1e-5)
    assert not np.allclose(expected, before, rtol=1e-2)


def test_only_chosen_products_get_it() -> None:
    graph = network()
    chosen = next(node.name for node in graph.nodes if node.kind == "MatMul")
    wide = add_lora(graph, 3, products=[chosen])
    assert lora_parameters(wide) == [f"{chosen}.lora_a", f"{chosen}.lora_b"]
    shapes = {v.name: v.shape for v in wide.constants()}
    assert [shapes[name] for name in lora_parameters(wide)] == [(6, 3), (3, 8)]


def test_what_has_no_sense_is_refused() -> None:
    graph = network()
    with pytest.raises(OptionError, match="rank must be positive"):
        add_lora(graph, 0)
    with pytest.raises(OptionError, match="alpha finite"):
        add_lora(graph, 2, alpha=float("inf"))
    with pytest.raises(InputError, match="nothing"):
        add_lora(graph, 2, products=["nothing"])
    with pytest.raises(InputError, match="could be merged"):
        merge_lora(graph)
    wide = add_lora(graph, 2)
    for node in list(wide.nodes):
        if node.kind == "Mul":
            node.output.replace_by(constant(np.zeros((24, 8), np.float32)))
    with pytest.raises(GraphError, match="not what add_lora made"):
        merge_lora(wide)
