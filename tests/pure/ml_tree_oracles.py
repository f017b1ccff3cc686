"""Trees of ai.onnx.ml row by row in plain Python, in float64."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from infuse.ops.domains.ml import lists_of
from infuse.testing.samples import Row
from tests.pure.ml_numbers import Array, as_labels, finished, matrix, of_one, one_finished, single

NAMES = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def is_taken(mode: str, x: float, limit: float, nan: bool) -> bool:
    tests = {
        "LEQ": x <= limit,
        "LT": x < limit,
        "GTE": x >= limit,
        "GT": x > limit,
        "EQ": x == limit,
        "NEQ": x != limit,
    }
    return tests[mode] or (nan and math.isnan(x))


def joined(how: str, votes: list[list[tuple[int, float]]], count: int) -> list[float]:
    """What the votes of the leaves of one row come to."""
    each: list[list[float]] = [
        [v for tree in votes for target, v in tree if target == t] for t in range(count)
    ]
    join: Callable[[list[float]], float] = {
        "SUM": sum,
        "AVERAGE": lambda v: sum(v) / len(votes),
        "MIN": min,
        "MAX": max,
    }[how]
    return [float(join(v)) if v else 0.0 for v in each]


def plain(op: Any) -> SimpleNamespace:
    """The attributes of an operator, its lists of numbers as tuples."""
    given = dict(op.attributes())
    for name in lists_of(type(op)):
        given[name] = tuple(np.asarray(given[name]).tolist())
    return SimpleNamespace(**given)


def classic_votes(op: SimpleNamespace, line: Array, prefix: str) -> list[list[tuple[int, float]]]:
    given = vars(op)
    tensor = given[f"{prefix}_weights_as_tensor"]
    weights = single(given[f"{prefix}_weights"]) if tensor is None else tensor.tolist()
    places = {key: i for i, key in enumerate(zip(op.nodes_treeids, op.nodes_nodeids))}
    result = []
    for tree in sorted(set(op.nodes_treeids)):
        at = op.nodes_treeids.index(tree)
        while op.nodes_modes[at] != "LEAF":
            x, limit = float(line[op.nodes_featureids[at]]), single(op.nodes_values)[at]
            nan = (
                bool(op.nodes_missing_value_tracks_true[at])
                if op.nodes_missing_value_tracks_true
                else False
            )
            taken = is_taken(op.nodes_modes[at].removeprefix("BRANCH_"), x, limit, nan)
            at = places[tree, (op.nodes_truenodeids if taken else op.nodes_falsenodeids)[at]]
        leaf = tree, op.nodes_nodeids[at]
        lists = zip(
            given[f"{prefix}_treeids"], given[f"{prefix}_nodeids"], given[f"{prefix}_ids"], weights
        )
        result.append([(target, w) for t, n, target, w in lists if (t, n) == leaf])
    return result


def tree_regressor(row: Row) -> list[Array]:
    """The reference knows no transform, and gives targets without votes huge numbers."""
    op, rows = plain(row.op), []
    base = single(op.base_values) or [0.0]
    for line in matrix(row.inputs[0]):
        scores = joined(op.aggregate_function, classic_votes(op, line, "target"), op.n_targets)
        rows.append([s + base[i if len(base) > 1 else 0] for i, s in enumerate(scores)])
    return [finished(rows, op.post_transform)]


def tree_classifier(row: Row) -> list[Array]:
    """The reference mixes up two classes of which only the second gets votes; all else as ONNX
    Runtime has it.
    """
    op, chosen, scores = plain(row.op), [], []
    labels = op.classlabels_int64s or op.classlabels_strings
    base = single(op.base_values) or [0.0] * len(labels)
    positive = min(op.class_weights) >= 0
    for line in matrix(row.inputs[0]):
        found = [
            a + b
            for a, b in zip(joined("SUM", classic_votes(op, line, "class"), len(labels)), base)
        ]
        if len(labels) > 2 or len(set(op.class_ids)) > 1:
            chosen.append(labels[int(np.argmax(found))])
            scores.append(one_finished(found, op.post_transform))
            continue
        only = found[op.class_ids[0]]
        chosen.append(labels[only > (0.5 if positive else 0)])
        if op.class_ids[0] == 1:
            scores.append(one_finished(found, op.post_transform))
        else:
            scores.append(of_one(only, op.post_transform == "NONE" and positive, op.post_transform))
    return [as_labels(chosen), np.array(scores)]


def tree_ensemble(row: Row) -> list[Array]:
    """The reference has no transforms, and sets of members end at the first zero."""
    op, rows = plain(row.op), []
    sets: list[list[float]] = [[]]
    for value in [] if op.membership_values is None else op.membership_values.tolist():
        if math.isnan(value):
            sets.append([])
        else:
            sets[-1].append(value)
    members = iter(sets)
    sets_of = {i: next(members) for i, mode in enumerate(op.nodes_modes.tolist()) if mode == 6}
    for line in matrix(row.inputs[0]):
        votes = []
        for root in op.tree_roots:
            at, leaf = root, False
            while not leaf:
                x, mode = float(line[op.nodes_featureids[at]]), int(op.nodes_modes[at])
                nan = (
                    bool(op.nodes_missing_value_tracks_true[at])
                    if op.nodes_missing_value_tracks_true
                    else False
                )
                if mode == 6:
                    taken = x in sets_of[at] or (nan and math.isnan(x))
                else:
                    taken = is_taken(
                        ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")[mode],
                        x,
                        float(op.nodes_splits[at]),
                        nan,
                    )
                side = "true" if taken else "false"
                leaf = bool(getattr(op, f"nodes_{side}leafs")[at])
                at = getattr(op, f"nodes_{side}nodeids")[at]
            votes.append([(op.leaf_targetids[at], float(op.leaf_weights[at]))])
        rows.append(
            joined(("AVERAGE", "SUM", "MIN", "MAX")[op.aggregate_function], votes, op.n_targets)
        )
    return [finished(rows, NAMES[op.post_transform])]
