"""Linear models and support vectors of ai.onnx.ml row by row in plain Python, in float64."""

import math
from typing import Any

import numpy as np

from infuse.testing.samples import Row
from tests.pure.ml_numbers import Array, as_labels, finished, matrix, of_one, one_finished, single


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
