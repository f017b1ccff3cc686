"""The operators of ai.onnx.ml row by row in plain Python, in float64: the reference lacks some and
errs in others.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from infuse.testing.samples import Row

Array = Any
NAMES = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def matrix(x: Array) -> Array:
    return np.atleast_2d(x).astype(np.float64)


def finished(rows: Sequence[Sequence[float]], transform: str) -> Array:
    return np.array([one_finished(row, transform) for row in rows]).astype(np.float64)


def one_finished(row: Sequence[float], transform: str) -> list[float]:
    if transform == "NONE" or len(row) == 1:
        return list(row)
    if transform == "LOGISTIC":
        return [1 / (1 + math.exp(-v)) for v in row]
    most = max(row)
    if transform == "SOFTMAX_ZERO":
        powers = [v * math.exp(-most) if abs(v) <= 1e-7 else math.exp(v - most) for v in row]
    else:
        assert transform == "SOFTMAX"
        powers = [math.exp(v - most) for v in row]
    return [p / sum(powers) if sum(powers) else 0.5 for p in powers]


def single(values: Sequence[float]) -> list[float]:
    """The numbers as ONNX keeps them."""
    return [float(np.float32(v)) for v in values]


# -- features --------------------------------------------------------------------------------------


def feature_vectorizer(row: Row) -> list[Array]:
    parts = []
    for x, width in zip(row.inputs, row.op.inputdimensions):
        wide = np.zeros((matrix(x).shape[0], width))
        for i, line in enumerate(matrix(x)):
            wide[i, : min(width, len(line))] = line[:width]
        parts.append(wide)
    return [np.concatenate(parts, axis=1)]


def normalizer(row: Row) -> list[Array]:
    """The reference divides by the largest magnitude."""
    (x,), result = row.inputs, []
    for line in matrix(x).tolist():
        length = {"MAX": max(line), "L1": sum(map(abs, line)), "L2": math.hypot(*line)}[row.op.norm]
        result.append([v / length if length else v for v in line])
    return [np.array(result).reshape(x.shape)]


def scaler(row: Row) -> list[Array]:
    """The reference keeps integers."""
    (x,) = row.inputs
    return [(x.astype(np.float64) - single(row.op.offset)) * single(row.op.scale)]


# -- labels ----------------------------------------------------------------------------------------


def texts(values: Sequence[Any], shape: tuple[int, ...]) -> Array:
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result.reshape(shape)


def label_encoder(row: Row) -> list[Array]:
    """The reference does not find NaN."""
    (x,), op = row.inputs, row.op
    keys = [
        *op.keys_int64s,
        *op.keys_strings,
        *single(op.keys_floats),
        *([] if op.keys_tensor is None else op.keys_tensor),
    ]
    tensor = [] if op.values_tensor is None else list(op.values_tensor)
    values = [*op.values_int64s, *op.values_strings, *single(op.values_floats), *tensor]
    default: Any = (
        op.default_string
        if op.values_strings
        else op.default_float
        if op.values_floats
        else op.default_int64
    )
    default = op.default_tensor[0] if op.default_tensor is not None else default
    found = []
    for v in x.reshape(-1):
        same = [b for a, b in zip(keys, values) if a == v or (a != a and v != v)]
        found.append(same[-1] if same else default)
    if op.values_strings:
        return [texts(found, x.shape)]
    kind = (
        np.float64 if op.values_floats else np.int64 if op.values_int64s else op.values_tensor.dtype
    )
    return [np.array(found, kind).reshape(x.shape)]


def category_mapper(row: Row) -> list[Array]:
    (x,), op = row.inputs, row.op
    pairs = list(zip(op.cats_strings, op.cats_int64s))
    if x.dtype == object:
        found = [[n for s, n in pairs if s == v] or [op.default_int64] for v in x.reshape(-1)]
        return [np.array([f[-1] for f in found], np.int64).reshape(x.shape)]
    names = [[s for s, n in pairs if n == v] or [op.default_string] for v in x.reshape(-1)]
    return [texts([f[-1] for f in names], x.shape)]


def one_hot_encoder(row: Row) -> list[Array]:
    """The reference does not make integers of numbers."""
    (x,), op = row.inputs, row.op
    categories = op.cats_int64s or op.cats_strings
    flat = [
        [float((v if isinstance(v, str) else int(v)) == c) for c in categories]
        for v in x.reshape(-1)
    ]
    return [np.array(flat).reshape(*x.shape, len(categories))]


def zip_map(row: Row) -> list[Any]:
    labels = row.op.classlabels_int64s or row.op.classlabels_strings
    return [
        [
            {label: np.float32(v) for label, v in zip(labels, line)}
            for line in np.atleast_2d(row.inputs[0])
        ]
    ]


def dict_vectorizer(row: Row) -> list[Array]:
    """One row, as ONNX Runtime has it; the reference gives a list."""
    names = row.op.int64_vocabulary or row.op.string_vocabulary
    return [np.array([[row.inputs[0].get(name, 0) for name in names]])]


def cast_map(row: Row) -> list[Array]:
    op, (x,) = row.op, row.inputs
    places = sorted(x) if op.map_form == "DENSE" else range(op.max_map)
    if op.cast_to == "TO_STRING":
        return [texts([str(x.get(i, "")) for i in places], (1, len(places)))]
    found = [float(x.get(i, 0)) for i in places]
    return [np.array([found]) if op.cast_to == "TO_FLOAT" else np.array([[int(v) for v in found]])]


# -- scores ----------------------------------------------------------------------------------------


def linear_regressor(row: Row) -> list[Array]:
    """The reference knows no transform and needs intercepts."""
    op, x = row.op, matrix(row.inputs[0])
    weights = np.reshape(single(op.coefficients), (op.targets, -1))
    offsets = single(op.intercepts) or [0.0] * op.targets
    return [
        finished(
            [[float(w @ line) + b for w, b in zip(weights, offsets)] for line in x],
            op.post_transform,
        )
    ]


def of_one(score: float, whole: bool, transform: str) -> list[float]:
    """The scores of two classes from the only one."""
    return one_finished([1 - score if whole else -score, score], transform)


def linear_classifier(row: Row) -> list[Array]:
    """A single score without transform is taken for a probability, as in ONNX Runtime."""
    op, x = row.op, matrix(row.inputs[0])
    labels = op.classlabels_ints or op.classlabels_strings
    weights = np.reshape(single(op.coefficients), (len(op.intercepts), -1))
    scores = [[float(w @ line) + b for w, b in zip(weights, single(op.intercepts))] for line in x]
    if len(op.intercepts) == 1:
        chosen = [labels[s > 0] for (s,) in scores]
        return [
            as_labels(chosen),
            np.array(
                [of_one(s, op.post_transform == "NONE", op.post_transform) for (s,) in scores]
            ),
        ]
    return [
        as_labels([labels[int(np.argmax(s))] for s in scores]),
        finished(scores, op.post_transform),
    ]


def as_labels(chosen: list[Any]) -> Array:
    return (
        texts(chosen, (len(chosen),)) if isinstance(chosen[0], str) else np.array(chosen, np.int64)
    )


def kernel(op: Any, a: Array, b: Array, kind: str) -> float:
    gamma, offset, degree = single(op.kernel_params) or (0.0,) * 3
    if kind == "RBF":
        return math.exp(-gamma * sum((u - v) ** 2 for u, v in zip(a, b)))
    product = sum(u * v for u, v in zip(a, b))
    scaled = gamma * product + offset
    return {"LINEAR": product, "POLY": scaled**degree, "SIGMOID": math.tanh(scaled)}[kind]


def svm_regressor(row: Row) -> list[Array]:
    """The reference computes in the type of its input, whole numbers included."""
    op, x = row.op, matrix(row.inputs[0])
    weights = single(op.coefficients)
    vectors = (
        np.reshape(single(op.support_vectors), (op.n_supports, -1)) if op.n_supports else [weights]
    )
    kind, weights = (op.kernel_type, weights) if op.n_supports else ("LINEAR", [1.0])
    result = [
        sum(w * kernel(op, line, v, kind) for w, v in zip(weights, vectors)) + single(op.rho)[0]
        for line in x
    ]
    return [np.array([[(1.0 if v > 0 else -1.0) if op.one_class else v] for v in result])]


def svm_classifier(row: Row) -> list[Array]:
    """The reference gives labels of two classes another meaning where no coefficient is
    negative.
    """
    op, x = row.op, matrix(row.inputs[0])
    labels = op.classlabels_ints or op.classlabels_strings
    count, rho, total = len(labels), single(op.rho), sum(op.vectors_per_class)
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    chosen, scores = [], []
    for line in x:
        if not total:
            found = [
                kernel(op, line, w, "LINEAR") + rho[0]
                for w in np.reshape(single(op.coefficients), (count, -1))
            ]
            chosen.append(labels[int(np.argmax(found))])
            scores.append(one_finished(found, op.post_transform))
            continue
        vectors = np.reshape(single(op.support_vectors), (total, -1))
        weights = np.reshape(single(op.coefficients), (count - 1, total))
        owner = [c for c, n in enumerate(op.vectors_per_class) for _ in range(n)]
        values = [kernel(op, line, v, op.kernel_type) for v in vectors]
        found = [
            sum(
                values[k] * weights[j - 1 if c == i else i][k]
                for k, c in enumerate(owner)
                if c in (i, j)
            )
            + r
            for (i, j), r in zip(pairs, rho)
        ]
        votes = [
            sum((s > 0) == (c == i) for (i, j), s in zip(pairs, found) if c in (i, j))
            for c in range(count)
        ]
        chosen.append(labels[int(np.argmax(votes))])
        if op.prob_a:
            found = coupled(count, pairs, found, single(op.prob_a), single(op.prob_b))
        scores.append(
            of_one(found[0], False, op.post_transform)
            if len(found) == 1
            else one_finished(found, op.post_transform)
        )
    return [as_labels(chosen), np.array(scores)]


def coupled(
    count: int, pairs: Any, scores: Any, slope: list[float], shift: list[float]
) -> list[float]:
    """Libsvm's iteration, whose end is part of the result; the reference multiplies what it should
    not.
    """
    r = np.zeros((count, count))
    for (i, j), s, a, b in zip(pairs, scores, slope, shift):
        r[i, j] = min(max(1 / (1 + math.exp(s * a + b)), 1e-7), 1 - 1e-7)
        r[j, i] = 1 - r[i, j]
    q = [
        [
            sum(r[k, i] ** 2 for k in range(count)) if i == j else -r[j, i] * r[i, j]
            for j in range(count)
        ]
        for i in range(count)
    ]
    p = [1 / count] * count
    for _ in range(max(100, count)):
        total = sum(q[i][j] * p[i] * p[j] for i in range(count) for j in range(count))
        if (
            max(abs(sum(q[i][j] * p[j] for j in range(count)) - total) for i in range(count))
            < 0.005 / count
        ):
            break
        for t in range(count):
            # The t-th is set to what is best for it, then all are scaled to a sum of one.
            total = sum(q[i][j] * p[i] * p[j] for i in range(count) for j in range(count))
            p[t] += (total - sum(q[t][j] * p[j] for j in range(count))) / q[t][t]
            p = [v / sum(p) for v in p]
    return p


# -- trees -----------------------------------------------------------------------------------------


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


def classic_votes(op: Any, line: Array, prefix: str) -> list[list[tuple[int, float]]]:
    given = op.attributes()
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
    op, rows = row.op, []
    base = single(op.base_values) or [0.0]
    for line in matrix(row.inputs[0]):
        scores = joined(op.aggregate_function, classic_votes(op, line, "target"), op.n_targets)
        rows.append([s + base[i if len(base) > 1 else 0] for i, s in enumerate(scores)])
    return [finished(rows, op.post_transform)]


def tree_classifier(row: Row) -> list[Array]:
    """The reference mixes up two classes of which only the second gets votes; all else as ONNX
    Runtime has it.
    """
    op, chosen, scores = row.op, [], []
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
    op, rows = row.op, []
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


ML_ORACLES: dict[str, Callable[[Row], list[Any]]] = {
    "CastMap": cast_map,
    "CategoryMapper": category_mapper,
    "DictVectorizer": dict_vectorizer,
    "FeatureVectorizer": feature_vectorizer,
    "LabelEncoder": label_encoder,
    "LinearClassifier": linear_classifier,
    "LinearRegressor": linear_regressor,
    "Normalizer": normalizer,
    "OneHotEncoder": one_hot_encoder,
    "SVMClassifier": svm_classifier,
    "SVMRegressor": svm_regressor,
    "Scaler": scaler,
    "TreeEnsemble": tree_ensemble,
    "TreeEnsembleClassifier": tree_classifier,
    "TreeEnsembleRegressor": tree_regressor,
    "ZipMap": zip_map,
}
