"""Random ensembles of trees, as attributes of the operator TreeEnsemble."""

from typing import Any

import numpy as np

from infuse.dtypes import DType
from infuse.ir import Graph, Node, Value, tensor
from infuse.ir.dims import Dim
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN

COLUMNS = 5
LIMITS = (-1.0, 0.0, 0.5, 2.0, np.nan, np.inf, -np.inf, 0.25, float(np.nextafter(2.0, 0)))
"""Numbers of rows, of which branches hit some exactly."""


def random_lists(
    rng: np.random.Generator,
    missing: bool,
    *,
    trees: int = 6,
    depth: int = 4,
    targets: int = 3,
    early: float = 0.3,
) -> dict[str, Any]:
    """Trees of all modes whose nodes are shuffled, with limits that rows hit exactly; one more is a
    leaf. `early`: how often a leaf comes before the depth is reached.
    """
    features, modes, ends, leaves, roots = [], [], [], [], []
    weights: list[float] = []

    def leaf() -> int:
        weights.append(float(rng.normal()))
        return len(weights) - 1

    def branch(depth: int) -> int:
        number = len(modes)
        features.append(int(rng.integers(COLUMNS)))
        modes.append(int(rng.integers(6)))
        ends.append([0, 0])
        leaves.append([0, 0])
        for side in range(2):
            is_leaf = depth == 0 or rng.random() < early
            leaves[number][side] = int(is_leaf)
            ends[number][side] = leaf() if is_leaf else branch(depth - 1)
        return number

    for _ in range(trees):
        roots.append(branch(depth))
    roots.append(len(modes))
    features.append(0)
    modes.append(0)
    ends.append([leaf()] * 2)
    leaves.append([1, 1])
    order = rng.permutation(len(modes))
    place = np.argsort(order)
    both = [
        [e if is_leaf else int(place[e]) for e, is_leaf in zip(ends[i], leaves[i])] for i in order
    ]
    return {
        "tree_roots": tuple(int(place[root]) for root in roots),
        "nodes_featureids": tuple(features[i] for i in order),
        "nodes_modes": np.array([modes[i] for i in order], np.uint8),
        "nodes_splits": rng.choice([-1.0, 0.0, 0.5, 2.0, -np.inf], len(modes)),
        "nodes_falsenodeids": tuple(e[0] for e in both),
        "nodes_truenodeids": tuple(e[1] for e in both),
        "nodes_falseleafs": tuple(leaves[i][0] for i in order),
        "nodes_trueleafs": tuple(leaves[i][1] for i in order),
        "leaf_targetids": tuple(rng.integers(targets, size=len(weights)).tolist()),
        "leaf_weights": np.array(weights),
        "n_targets": targets,
        "nodes_missing_value_tracks_true": tuple(rng.integers(2, size=len(modes)).tolist())
        if missing
        else (),
        "membership_values": None,
    }


def ensemble(lists: dict[str, Any], dtype: DType) -> Any:
    """The operator with these attributes, its numbers of this type."""
    weights = {k: lists[k].astype(dtype.numpy) for k in ("nodes_splits", "leaf_weights")}
    return make_operator("ai.onnx.ml", "TreeEnsemble", {**lists, **weights})


def graph_of(op: Any, dtype: DType, rows: Dim) -> Graph:
    """A graph of one operator on rows."""
    graph = Graph("trees")
    x = graph.add_input("x", tensor(dtype, rows, COLUMNS))
    node = graph.add_node(Node(op, [x], [Value(UNKNOWN, "y")]))
    node.op.infer_node(node)
    graph.add_output(node.output, "y")
    return graph
