"""The operators of ai.onnx.ml row by row in plain Python, in float64: the reference lacks some and
errs in others.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from infuse.testing.samples import Row
from tests.pure.ml_numbers import Array, matrix, single, texts
from tests.pure.ml_score_oracles import (
    linear_classifier,
    linear_regressor,
    svm_classifier,
    svm_regressor,
)
from tests.pure.ml_tree_oracles import tree_classifier, tree_ensemble, tree_regressor

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
