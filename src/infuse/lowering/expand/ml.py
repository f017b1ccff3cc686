"""Operators of ai.onnx.ml on numbers, in arithmetic, products and a few kernels of their own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from infuse import dtypes, ops
from infuse.dtypes import DType
from infuse.ir import dims
from infuse.ir.graph import Node, Value, constant
from infuse.lowering.expand.composer import Composer, Results, expands
from infuse.lowering.expand.ml_kernels import (
    CouplePairs,
    KnownElements,
    SquareDistances,
    TreeScores,
)
from infuse.ops.domains.ml import DOMAIN
from infuse.ops.domains.ml_svm import Kernel
from infuse.ops.text import TfIdfVectorizer


def _operands(node: Node) -> list[Value]:
    return [v for v in node.inputs if v is not None]


def as_rows(make: Composer, x: Value) -> Value:
    """A matrix of float32, or of float64 where the elements are that; a vector is one row."""
    wide = x if x.dtype == dtypes.float64 else make.cast(x, dtypes.float32)
    return make.reshape(wide, 1, x.shape[0]) if x.rank == 1 else wide


def numbers(array: Any, dtype: DType) -> Value:
    """Numbers that ONNX keeps as float32, as a constant."""
    return constant(np.asarray(array, np.float32).astype(dtype.numpy))


# -- features --------------------------------------------------------------------------------------


@expands("Scaler", domain=DOMAIN)
def scaler(make: Composer, node: Node) -> Results:
    (x,), attributes = _operands(node), node.op.attributes()
    wide = x if x.dtype == dtypes.float64 else make.cast(x, dtypes.float32)
    offset, scale = (numbers(attributes[name], wide.dtype) for name in ("offset", "scale"))
    return make.cast(make((wide - offset) * scale), dtypes.float32)


@expands("Normalizer", domain=DOMAIN)
def normalizer(make: Composer, node: Node) -> Results:
    (x,), norm = _operands(node), node.op.attributes()["norm"]
    wide = x if x.dtype == dtypes.float64 else make.cast(x, dtypes.float32)
    kind = {"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceL2"}[norm]
    divisor = make.reduce(kind, wide, x.rank - 1)
    safe = make("Where", make("Equal", divisor, 0.0), make.number(1, wide.dtype), divisor)
    return make.cast(make(wide / safe), dtypes.float32)


@expands("Imputer", domain=DOMAIN)
def imputer(make: Composer, node: Node) -> Results:
    (x,) = _operands(node)
    replaced, values = node.op.choice(x.dtype.numpy)  # type: ignore[attr-defined]
    missing = make("IsNaN", x) if replaced != replaced else make("Equal", x, constant(replaced))
    return make("Where", missing, constant(values), x)


@expands("Binarizer", domain=DOMAIN)
def binarizer(make: Composer, node: Node) -> Results:
    (x,), threshold = _operands(node), float(np.float32(node.op.attributes()["threshold"]))
    if x.dtype.is_float:
        return make.cast(
            make("Greater", x, constant(np.asarray(threshold), dtype=x.dtype)), x.dtype
        )
    # An integer is larger than a number where it is at least the next integer.
    info = np.iinfo(x.dtype.numpy)
    if not threshold < info.max:
        return make.cast(make("Greater", x, make.number(int(info.max), x.dtype)), x.dtype)
    least = max(math.floor(threshold) + 1, int(info.min)) if threshold > info.min else int(info.min)
    return make.cast(make("GreaterOrEqual", x, make.number(least, x.dtype)), x.dtype)


@expands("FeatureVectorizer", domain=DOMAIN)
def feature_vectorizer(make: Composer, node: Node) -> Results:
    parts = []
    for x, width in zip(node.operands(), node.op.widths(tuple(node.operands()))):  # type: ignore[attr-defined]
        part = make.cast(x, dtypes.float32)
        part = make.reshape(part, 1, x.shape[0]) if x.rank == 1 else part
        size = part.shape[1]
        if dims.compare("<", width, size) is not False:
            part = make.slice(part, 1, 0, dims.minimum(width, size))
        parts.append(make.pad(part, 1, 0, dims.maximum(width - size, 0)))
    return make("Concat", *parts, axis=1) if len(parts) > 1 else make("Identity", parts[0])


@expands("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(make: Composer, node: Node) -> Results:
    x, places = _operands(node)
    gathered = make("Gather", x, make.reshape(places, dims.product(places.shape)), axis=x.rank - 1)
    return make.reshape(gathered, *node.output.shape) if x.rank == 1 else gathered


@expands("OneHotEncoder", domain=DOMAIN)
def one_hot_encoder(make: Composer, node: Node) -> Results:
    (x,), attributes = _operands(node), node.op.attributes()
    if x.dtype == dtypes.string:
        make.refuse("strings")
    whole = make.cast(x, dtypes.int64)
    places = {category: i for i, category in enumerate(attributes["cats_int64s"])}
    # Of equal categories the last counts; the others are never found.
    missing = next(i for i in range(-len(places) - 1, 0) if i not in places)
    listed = [c if places[c] == i else missing for i, c in enumerate(attributes["cats_int64s"])]
    if not attributes["zeros"]:
        (whole,) = make.apply(KnownElements(tuple(sorted(places))), [whole])
    column = make.reshape(whole, *x.shape, 1)
    unique = len(places) == len(listed)
    same = make("Equal", column, constant(np.array(listed, np.int64)))
    if not unique:
        same = make(
            "And",
            same,
            constant(np.array([c == g for c, g in zip(listed, attributes["cats_int64s"])])),
        )
    return make.cast(same, dtypes.float32)


# -- transforms and labels -------------------------------------------------------------------------


def transformed(make: Composer, name: str, scores: Value) -> Value:
    """Scores after a `post_transform`, as `ops.ml.transformed` has it."""
    if name == "NONE" or (scores.shape[1] == 1 and name != "PROBIT"):
        return scores
    if name == "LOGISTIC":
        return make("Sigmoid", scores)
    if name == "SOFTMAX":
        return make("Softmax", scores, axis=1)
    return _softmax_zero(make, scores) if name == "SOFTMAX_ZERO" else _probit(make, scores)


def _softmax_zero(make: Composer, x: Value) -> Value:
    most = make.reduce("ReduceMax", x, 1)
    small = make("LessOrEqual", ops.abs(x), 1e-7)
    powers = make("Where", small, make(x * ops.exp(-most)), make(ops.exp(x - most)))
    total = make.reduce("ReduceSum", powers, 1)
    return make("Where", make("Equal", total, 0.0), make.number(0.5, x.dtype), make(powers / total))


def _probit(make: Composer, x: Value) -> Value:
    centered = make(x * 2.0 - 1.0)
    log = make(ops.log((1.0 - centered) * (1.0 + centered)))
    v = make(log * 0.5 + 2 / (np.pi * 0.147))
    root = make(ops.sqrt(ops.sqrt(v * v - log * (1 / 0.147)) - v))
    signed = make("Where", make("Less", centered, 0.0), make(-root), root)
    return make(signed * 1.41421356)


def labelled(make: Composer, labels: Any, places: Value) -> Value:
    """The labels at places: strings by the interpreter, integers at once where they only count."""
    if labels.dtype != object and np.array_equal(labels, np.arange(len(labels))):
        return make.cast(places, dtypes.int64)
    return make("Gather", constant(labels), places, axis=0)


def _best(make: Composer, scores: Value) -> Value:
    return make("ArgMax", scores, axis=1, keepdims=0)


def _beyond(make: Composer, score: Value, limit: float) -> Value:
    """0 or 1 for each row: whether its only score is larger than the limit."""
    return make.cast(make("Greater", make.reshape(score, score.shape[0]), limit), dtypes.int64)


def _beside(make: Composer, first: Value, second: Value) -> Value:
    return make("Concat", first, second, axis=1)


# -- linear models ---------------------------------------------------------------------------------


def _linear(make: Composer, node: Node) -> Value:
    rows = as_rows(make, _operands(node)[0])
    weights, offsets = node.op.weights()  # type: ignore[attr-defined]
    products = make("MatMul", rows, numbers(weights.T, rows.dtype))
    return make(products + numbers(offsets, rows.dtype))


@expands("LinearRegressor", domain=DOMAIN)
def linear_regressor(make: Composer, node: Node) -> Results:
    scores = _linear(make, node)
    return make.cast(
        transformed(make, node.op.attributes()["post_transform"], scores), dtypes.float32
    )


@expands("LinearClassifier", domain=DOMAIN)
def linear_classifier(make: Composer, node: Node) -> Results:
    scores, labels = _linear(make, node), node.op.labels()  # type: ignore[attr-defined]
    transform = node.op.attributes()["post_transform"]
    if scores.shape[1] != 1:
        places = _best(make, scores)
    else:
        places = _beyond(make, scores, 0.0)
        if len(labels) == 2:
            first = make(1.0 - scores) if transform in ("NONE", "PROBIT") else make(-scores)
            scores = _beside(make, first, scores)
        else:
            labels = np.array([0, 1])
    return [
        labelled(make, labels, places),
        make.cast(transformed(make, transform, scores), dtypes.float32),
    ]


# -- trees -----------------------------------------------------------------------------------------


def _tree_scores(make: Composer, node: Node, count: int, aggregate: str) -> Value:
    """What the leaves vote, base values included."""
    (x,), op = _operands(node), node.op
    forest = op.forest(x.dtype.numpy)  # type: ignore[attr-defined]
    (scores,) = make.apply(TreeScores(forest, count, aggregate), [as_rows(make, x)])
    if aggregate == "AVERAGE":
        scores = make(scores / float(len(forest.roots)))
    if hasattr(op, "base") and len(op.base()):
        scores = make(scores + constant(op.base().astype(scores.dtype.numpy)))
    return scores


@expands("TreeEnsembleRegressor", domain=DOMAIN)
def tree_regressor(make: Composer, node: Node) -> Results:
    attributes = node.op.attributes()
    scores = _tree_scores(make, node, attributes["n_targets"], attributes["aggregate_function"])
    return make.cast(transformed(make, attributes["post_transform"], scores), dtypes.float32)


@expands("TreeEnsemble", domain=DOMAIN)
def tree_ensemble(make: Composer, node: Node) -> Results:
    op: Any = node.op
    scores = _tree_scores(make, node, op.n_targets, op.aggregate)
    return make.cast(transformed(make, op.transform, scores), node.output.dtype)


@expands("TreeEnsembleClassifier", domain=DOMAIN)
def tree_classifier(make: Composer, node: Node) -> Results:
    op: Any = node.op
    labels, transform = op.labels(), op.post_transform
    scores = _tree_scores(make, node, len(labels), "SUM")
    if not op.has_one_score:
        places = _best(make, scores)
    else:
        only = make.slice(scores, 1, op.scored, op.scored + 1)
        places = _beyond(make, only, 0.5 if op.is_positive else 0.0)
        if op.scored == 0:
            whole = transform == "PROBIT" or (transform == "NONE" and op.is_positive)
            scores = _beside(make, make(1.0 - only) if whole else make(-only), only)
    return [
        labelled(make, labels, places),
        make.cast(transformed(make, transform, scores), dtypes.float32),
    ]


# -- support vectors -------------------------------------------------------------------------------


def _kernel(make: Composer, kernel: Kernel, rows: Value, vectors: Any) -> Value:
    """The value of the kernel for each row and each support vector."""
    if kernel.kind == "RBF":
        (apart,) = make.apply(SquareDistances(vectors.astype(rows.dtype.numpy)), [rows])
        return make(ops.exp(apart * -float(np.float32(kernel.gamma))))
    products = make("MatMul", rows, numbers(vectors.T, rows.dtype))
    if kernel.kind == "LINEAR":
        return products
    scaled = make(products * kernel.gamma + kernel.offset)
    return make("Tanh", scaled) if kernel.kind == "SIGMOID" else _power(make, scaled, kernel.degree)


def _power(make: Composer, x: Value, degree: float) -> Value:
    """X to a power, by products where it is a small whole number."""
    if degree not in range(1, 17):
        return make(x**degree)
    if degree == 1:
        return x
    half = _power(make, x, degree // 2)
    square = make(half * half)
    return make(square * x) if degree % 2 else square


@expands("SVMRegressor", domain=DOMAIN)
def svm_regressor(make: Composer, node: Node) -> Results:
    op: Any = node.op
    rows = as_rows(make, _operands(node)[0])
    values = _kernel(make, op.kernel(), rows, op.vectors())
    sums = make(make("MatMul", values, numbers(op.weights()[:, None], rows.dtype)) + op.rho[0])
    if op.one_class:
        positive = make("Greater", sums, 0.0)
        return make(
            "Where", positive, make.number(1, dtypes.float32), make.number(-1, dtypes.float32)
        )
    return make.cast(transformed(make, op.post_transform, sums), dtypes.float32)


@expands("SVMClassifier", domain=DOMAIN)
def svm_classifier(make: Composer, node: Node) -> Results:
    op: Any = node.op
    rows, labels = as_rows(make, _operands(node)[0]), op.labels()
    values = _kernel(make, op.kernel(), rows, op.vectors())
    if not op.supports:
        scores = make(values + op.rho[0])
        places = _best(make, scores)
    else:
        pairs, count = op.pairs(), len(labels)
        rho = numbers(op.rho[: len(pairs)], rows.dtype)
        scores = make(make("MatMul", values, numbers(op.pair_weights(), rows.dtype)) + rho)
        places = _best(make, _votes(make, scores, pairs, count))
        if op.prob_a:
            scores = _probabilities(make, scores, op, count)
    transform = op.post_transform
    if scores.shape[1] == 1:
        scores = _beside(
            make, make(1.0 - scores) if transform == "PROBIT" else make(-scores), scores
        )
    return [
        labelled(make, labels, places),
        make.cast(transformed(make, transform, scores), dtypes.float32),
    ]


def _votes(make: Composer, scores: Value, pairs: list[tuple[int, int]], count: int) -> Value:
    """How many pairs each class wins: whole numbers, exact in float32."""
    first, second = (np.eye(count, dtype=np.float32)[[pair[i] for pair in pairs]] for i in (0, 1))
    won = make.cast(make("Greater", scores, 0.0), dtypes.float32)
    return make(make("MatMul", won, constant(first - second)) + constant(second.sum(axis=0)))


def _probabilities(make: Composer, scores: Value, op: Any, count: int) -> Value:
    powers = make(scores * numbers(op.prob_a, scores.dtype) + numbers(op.prob_b, scores.dtype))
    limits = (
        constant(np.asarray(v, scores.dtype.numpy))
        for v in (1e-7, 1 - scores.dtype.numpy.type(1e-7))
    )
    return make.apply(CouplePairs(count), [make("Clip", make("Sigmoid", make(-powers)), *limits)])[
        0
    ]


# -- n-grams ---------------------------------------------------------------------------------------


@expands("TfIdfVectorizer")
def weigh_ngrams(make: Composer, node: Node) -> Results:
    (x,), op = _operands(node), node.op
    assert isinstance(op, TfIdfVectorizer)
    if op.mode == "TF" or x.dtype == dtypes.string:
        return None
    (counts,) = make.apply(op.replace(mode="TF"), [x])
    weights = constant(np.array(op.weights[: op.columns] or (1.0,), np.float32))
    if op.mode == "TFIDF":
        return make(counts * weights)
    return make("Where", make("Greater", counts, 0.0), weights, make.number(0, dtypes.float32))


@expands("CategoryMapper", domain=DOMAIN)
def category_mapper(make: Composer, node: Node) -> Results:
    make.refuse("strings")
