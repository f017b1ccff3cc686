"""Which transformers give sparse matrices, whose zeros XGBoost takes for missing numbers."""

from __future__ import annotations

from typing import Any, Final

SELECTORS: Final = (
    "SelectKBest", "SelectPercentile", "SelectFpr", "SelectFdr", "SelectFwe", "VarianceThreshold",
    "GenericUnivariateSelect", "RFE", "RFECV", "SelectFromModel", "SequentialFeatureSelector",
)  # fmt: skip
"""Transformers that choose columns."""
_BY_OPTION: Final = ("OneHotEncoder", "SplineTransformer", "RandomTreesEmbedding")
_ALWAYS: Final = (
    "CountVectorizer",
    "TfidfVectorizer",
    "HashingVectorizer",
    "TfidfTransformer",
)
_AS_GIVEN: Final = {
    "StandardScaler",
    "MaxAbsScaler",
    "RobustScaler",
    "Normalizer",
    "Binarizer",
    "FunctionTransformer",
    "SimpleImputer",
    "PolynomialFeatures",
    *SELECTORS,
}


def gives_sparse(model: Any, given: bool, made: bool) -> bool:
    """Whether `transform` gives a sparse matrix, from whether it is given one; `made` says so of
    what a transformer put together.
    """
    name = type(model).__name__
    if name in _BY_OPTION:
        return bool(model.sparse_output)
    if name == "KBinsDiscretizer":
        return bool(model.encode == "onehot")
    if name == "ColumnTransformer":
        return bool(model.sparse_output_)
    if name in ("SparseRandomProjection", "GaussianRandomProjection"):
        return given and not model.dense_output and name.startswith("Sparse")
    if name in ("Pipeline", "FeatureUnion"):
        return made
    return name in _ALWAYS or (given and name in _AS_GIVEN)
