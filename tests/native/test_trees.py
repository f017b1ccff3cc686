"""Ensembles of trees in native code, by both of their kernels, beside the walk in NumPy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse import dtypes
from infuse.build.compile import compile_graph
from infuse.dtypes import DType
from infuse.ir import Graph, Node, Value, tensor
from infuse.ir.graph import constant
from infuse.ir.types import UNKNOWN
from infuse.lowering.expand import expand
from infuse.lowering.lowering import lower
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.targets import Target
from tests.forests import COLUMNS, LIMITS, ensemble, graph_of, random_lists
from tests.native.builder import Builder
from tests.native.foreign import needs_emulator, run_foreign

ROWS = (0, 1, 3, 7, 8, 15, 16, 17, 63, 64, 65, 130, 300)
FORESTS = {
    "ranked": {"trees": 60, "depth": 4, "targets": 1},
    "ranked, several targets": {"trees": 60, "depth": 3, "targets": 3},
    "walked": {"trees": 3, "depth": 9, "targets": 1, "early": 0},
    "walked, several targets": {"trees": 2, "depth": 10, "targets": 4, "early": 0.1},
}


def kernels(graph: Graph, target: str = "native") -> str:
    machine = Target.resolve(target).machine
    return str([step.function for step in lower(expand(graph)[0], "m", machine, 1).steps])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
@pytest.mark.parametrize("name", FORESTS)
def test_rows_reach_their_leaves(name: str, dtype: DType, missing: bool, threads: int) -> None:
    rng = np.random.default_rng(1)
    op = ensemble(random_lists(rng, missing, **FORESTS[name]), dtype)
    graph = graph_of(op, dtype, "n")
    assert ("run_ranked_trees" in kernels(graph)) == name.startswith("ranked")
    with compile_graph(graph, CompileOptions(threads=threads)) as model:
        for rows in ROWS:
            x = rng.choice(LIMITS, (rows, COLUMNS)).astype(dtype.numpy)
            assert model.run({"x": x})["y"].tobytes() == op.eval(x).tobytes(), rows


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3"])
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
@pytest.mark.parametrize("depth", [2, 9])
def test_narrow_vectors(target: str, dtype: DType, depth: int) -> None:
    if not Target.resolve(target).is_runnable:
        pytest.skip(f"this machine is no {target}")
    rng = np.random.default_rng(depth)
    op = ensemble(random_lists(rng, True, trees=60, depth=depth, targets=2), dtype)
    graph = graph_of(op, dtype, "n")
    assert ("run_ranked_trees" in kernels(graph, target)) == (depth == 2)
    with compile_graph(graph, CompileOptions(target=target, threads=2)) as model:
        for rows in (1, 9, 77):
            x = rng.choice(LIMITS, (rows, COLUMNS)).astype(dtype.numpy)
            assert model.run({"x": x})["y"].tobytes() == op.eval(x).tobytes(), rows


@needs_emulator
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
def test_another_machine(dtype: DType, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    op = ensemble(random_lists(rng, True, trees=60, depth=2, targets=2), dtype)
    graph = graph_of(op, dtype, "n")
    assert "run_ranked_trees" in kernels(graph, "aarch64")
    model = compile_graph(graph, CompileOptions(target="aarch64"), output=tmp_path / "model")
    x = rng.choice(LIMITS, (77, COLUMNS)).astype(dtype.numpy)
    result = run_foreign(model, {"x": x}, tmp_path, 2)
    assert result["y"].tobytes() == op.eval(x).tobytes()


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
def test_columns_of_many_thresholds(dtype: DType) -> None:
    rng = np.random.default_rng(2)
    lists = random_lists(rng, True, trees=300, depth=3, targets=2)
    splits = lists["nodes_splits"]
    limits = rng.normal(size=len(splits)).astype(dtype.numpy)
    op = ensemble({**lists, "nodes_splits": limits}, dtype)
    x = rng.choice(limits, (200, COLUMNS))
    x[rng.random(x.shape) < 0.2] = np.nan
    graph = graph_of(op, dtype, "n")
    assert "run_ranked_trees" in kernels(graph)
    with compile_graph(graph, CompileOptions(threads=2)) as model:
        assert model.run({"x": x})["y"].tobytes() == op.eval(x).tobytes()


@pytest.mark.parametrize(("trees", "depth"), [(60, 3), (4, 11)])
@pytest.mark.parametrize("how", [0, 2, 3])
def test_votes_are_joined(how: int, trees: int, depth: int) -> None:
    rng = np.random.default_rng(how)
    lists = random_lists(rng, True, trees=trees, depth=depth, targets=3)
    op = ensemble({**lists, "aggregate_function": how}, dtypes.float32)
    x = rng.choice(LIMITS, (99, COLUMNS)).astype(np.float32)
    with compile_graph(graph_of(op, dtypes.float32, "n"), CompileOptions(threads=2)) as model:
        np.testing.assert_allclose(model.run({"x": x})["y"], op.eval(x), rtol=1e-6)


@pytest.mark.parametrize(("trees", "depth"), [(60, 3), (4, 11)])
def test_rows_of_a_table_are_added_in_one_pass(trees: int, depth: int) -> None:
    """The number of each tree's leaf, whose rows are added: what readers make of leaves of several
    numbers.
    """
    rng = np.random.default_rng(5)
    lists = random_lists(rng, True, trees=trees, depth=depth, targets=1)
    count = len(lists["leaf_weights"])
    owner = _owners(lists)
    numbered = {
        **lists,
        "leaf_targetids": tuple(owner.tolist()),
        "leaf_weights": np.arange(count, dtype=np.float64),
        "n_targets": trees + 1,
    }
    b = Builder("rows")
    x = b.graph.add_input("x", tensor(dtypes.float64, "n", COLUMNS))
    op = ensemble(numbered, dtypes.float64)
    node = b.graph.add_node(Node(op, [x], [Value(UNKNOWN, "leaf")]))
    node.op.infer_node(node)
    places = b("Cast", node.output, to=dtypes.int64)
    rows = b("Gather", constant(rng.normal(size=(count, 3))), places, axis=0)
    b.output(b("ReduceSum", rows, constant(np.array([1])), keepdims=0))
    assert "gather" not in kernels(b.graph)
    queries = rng.choice(LIMITS, (77, COLUMNS))
    with compile_graph(b.graph, CompileOptions(threads=2)) as model:
        (result,) = model.run({"x": queries}).values()
    (expected,) = evaluate(b.graph, {"x": queries}).values()
    np.testing.assert_allclose(result, expected, rtol=1e-13, atol=1e-13)


def _owners(lists: dict[str, Any]) -> np.ndarray:
    """The tree of each leaf."""
    owner = np.zeros(len(lists["leaf_weights"]), np.int64)
    for tree, root in enumerate(lists["tree_roots"]):
        pending = [root]
        while pending:
            node = pending.pop()
            for side in ("true", "false"):
                end = lists[f"nodes_{side}nodeids"][node]
                if lists[f"nodes_{side}leafs"][node]:
                    owner[end] = tree
                else:
                    pending.append(end)
    return owner


def test_an_ensemble_without_trees() -> None:
    lists = random_lists(np.random.default_rng(0), False, trees=1, depth=1, targets=2)
    op = ensemble({**lists, "tree_roots": ()}, dtypes.float32)
    with compile_graph(graph_of(op, dtypes.float32, "n"), CompileOptions(threads=1)) as model:
        result = model.run({"x": np.ones((3, COLUMNS), np.float32)})["y"]
    assert (result == np.zeros((3, 2))).all()
