"""Ensembles with splits of category sets as ONNX files: no two branches lead to one other, which
ONNX Runtime refuses from 1.23 on, and rows get what the library gives them.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import xgboost

import infuse
from infuse.ops.core.evaluate import evaluate
from infuse.ops.domains.ml_ensembles import TreeEnsemble

lightgbm = pytest.importorskip("lightgbm")
pytestmark = pytest.mark.row("C6")
Array = np.ndarray[Any, Any]


def table(rng: np.random.Generator) -> tuple[Array, Array]:
    """Columns of 40 and 30 categories, which decide by no order, and one of numbers."""
    x = np.column_stack(
        [rng.integers(0, 40, 1500), rng.integers(0, 30, 1500), rng.standard_normal(1500)]
    )
    return x, np.sin(x[:, 0] * 7) + np.cos(x[:, 1] * 5) + 0.3 * x[:, 2]


def odd(x: Array) -> Array:
    """Some rows, with what no category is among them."""
    rows = x[:200].copy()
    rows[:6, 0] = [np.nan, 99, -3, 2.5, np.inf, -np.inf]
    rows[6:9, 1] = [np.nan, 1e9, -1]
    return rows


def from_lightgbm(path: Path, rng: np.random.Generator) -> Array:
    x, y = table(rng)
    model = lightgbm.LGBMRegressor(
        n_estimators=6, num_leaves=24, min_child_samples=5, verbose=-1, n_jobs=1
    )
    model.fit(x, y, categorical_feature=[0, 1])
    model.booster_.save_model(path)
    return x


def from_xgboost(path: Path, rng: np.random.Generator) -> Array:
    x, y = table(rng)
    data = xgboost.DMatrix(
        x, y, feature_types=["c", "c", "float"], enable_categorical=True, nthread=1
    )
    options = {"max_depth": 5, "max_cat_to_onehot": 1, "tree_method": "hist", "nthread": 1}
    xgboost.train(options, data, 6).save_model(path)
    return x


def readers(op: Any) -> list[int]:
    """How many branches and roots lead to each branch of a file's node."""
    fields = {a.name: a for a in op.attribute}
    counts = [0] * len(fields["nodes_featureids"].ints)
    for root in fields["tree_roots"].ints:
        counts[root] += 1
    for side in ("true", "false"):
        ends = fields[f"nodes_{side}nodeids"].ints, fields[f"nodes_{side}leafs"].ints
        for end, is_leaf in zip(*ends):
            if not is_leaf:
                counts[end] += 1
    return counts


@pytest.mark.parametrize(
    ("library", "name"), [(from_lightgbm, "model.txt"), (from_xgboost, "model.json")]
)
def test_category_sets_are_written_as_trees(
    library: Any, name: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    rows = odd(library(tmp_path / name, rng))
    graph = infuse.load(tmp_path / name)
    (before,) = (node.op for node in graph.nodes if isinstance(node.op, TreeEnsemble))
    infuse.save(graph, tmp_path / "model.onnx")
    nodes = [
        n for n in onnx.load(tmp_path / "model.onnx").graph.node if n.op_type == "TreeEnsemble"
    ]
    counts = [readers(node) for node in nodes]
    assert len(nodes) == 2
    assert all(max(each) == 1 for each in counts)
    assert sum(map(len, counts)) <= 2 * len(before.nodes_featureids)
    x = rows.astype(graph.inputs[0].dtype.numpy)
    (expected, *_) = evaluate(graph, {graph.inputs[0].name: x}).values()
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    found = session.run(None, {graph.inputs[0].name: x})[0]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    again = infuse.compile(infuse.load(tmp_path / "model.onnx")).run({graph.inputs[0].name: x})
    np.testing.assert_allclose(again[graph.output_names[0]], expected, rtol=1e-6, atol=1e-6)
