"""Encoders of categories: numbers and texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.frontends.sklearn.calls import TRANSFORM, reads, unsupported
from infuse.frontends.sklearn.tensors import Tensor, beside
from infuse.ir.graph import Array


def is_text(categories: Any) -> bool:
    """Whether categories are texts."""
    return np.asarray(categories).dtype.kind in "OUS"


def places(model: Any, column: Tensor, categories: Any) -> Tensor:
    """The place of each element of a column among categories; their number where it is none."""
    listed = np.asarray(categories)
    if listed.dtype == object and not all(isinstance(v, str) for v in listed):
        raise unsupported(model, "categories that are not all texts")
    if (column.dtype == dtypes.string) != is_text(listed):
        raise unsupported(model, f"categories of {listed.dtype} for a column of {column.dtype}")
    if is_text(listed):
        names = column.constant(listed.astype(object).reshape(1, -1), dtypes.string)
        equal = column.equals(names)
    else:
        numbers = listed.astype(np.float64).reshape(1, -1)
        equal = column.equals(np.nan_to_num(numbers))
        if np.isnan(numbers).any():
            equal = equal & column.constant(~np.isnan(numbers), dtypes.bool_)
            equal = equal | (column.isnan() & column.constant(np.isnan(numbers), dtypes.bool_))
    floats = equal.floats()
    return (floats.max() > 0).where(floats.argmax(), len(listed))


def _columns(model: Any, x: Tensor) -> list[Tensor]:
    if getattr(model, "sparse_output", False) and type(model).__name__ != "OneHotEncoder":
        raise unsupported(model, "sparse_output=True")
    return [x.column(i) for i in range(len(model.categories_))]


@reads(TRANSFORM, "OneHotEncoder")
def one_hot(model: Any, x: Tensor) -> Tensor:
    """A column for each category; a run fails at a category that is not known, unless the encoder
    ignores such.
    """
    parts = []
    for i, (column, categories) in enumerate(zip(_columns(model, x), model.categories_)):
        table = _table(model, i, len(categories))
        parts.append(places(model, column, categories).take(table))
    return beside(*parts)


def _table(model: Any, i: int, count: int) -> Array:
    """The row of each category of feature i, and one for others where they are allowed."""
    mappings = getattr(model, "_default_to_infrequent_mappings", None)
    enabled = mappings is not None and getattr(model, "_infrequent_enabled", False)
    mapping = mappings[i] if mappings is not None and enabled else None
    targets = np.arange(count) if mapping is None else np.asarray(mapping)
    rows = np.eye(int(targets.max()) + 1)[targets]
    if model.handle_unknown != "error":
        other = np.zeros((1, rows.shape[1]))
        rare = mapping is not None and model._infrequent_indices[i] is not None
        if rare and model.handle_unknown in ("infrequent_if_exist", "warn"):
            other = rows[model._infrequent_indices[i][:1]]
        rows = np.concatenate([rows, other])
    drop = None if model.drop_idx_ is None else model.drop_idx_[i]
    if drop is not None:
        rows = np.delete(rows, int(targets[int(drop)]), axis=1)
    return rows


@reads(TRANSFORM, "OrdinalEncoder")
def ordinal(model: Any, x: Tensor) -> Tensor:
    """The number of each category; a run fails at one that is not known, unless the encoder has a
    value for such.
    """
    parts = []
    for i, (column, categories) in enumerate(zip(_columns(model, x), model.categories_)):
        enabled = getattr(model, "_infrequent_enabled", False)
        mapping = model._default_to_infrequent_mappings[i] if enabled else None
        values = np.arange(len(categories)) if mapping is None else np.asarray(mapping)
        table = values.astype(np.float64)
        if not is_text(categories):
            absent = np.isnan(np.asarray(categories, np.float64))
            table = np.where(absent, float(model.encoded_missing_value), table)
        if model.handle_unknown == "use_encoded_value":
            table = np.append(table, float(model.unknown_value))
        parts.append(places(model, column, categories).take(table).expand())
    return beside(*parts)


@reads(TRANSFORM, "LabelEncoder")
def label(model: Any, x: Tensor) -> Tensor:
    """The number of each class; a run fails at one that is not known."""
    return places(model, x, model.classes_).take(np.arange(len(model.classes_)))


@reads(TRANSFORM, "LabelBinarizer")
def label_columns(model: Any, x: Tensor) -> Tensor:
    """A column for each class, one for two classes; zeros for one that is not known."""
    if model.sparse_output or model.y_type_ not in ("binary", "multiclass"):
        raise unsupported(model, f"labels of type {model.y_type_}")
    count = len(model.classes_)
    rows = np.eye(count + 1)[:, :count]
    rows = rows[:, 1:] if count == 2 else rows
    low, high = int(model.neg_label), int(model.pos_label)
    table = np.where(rows > 0, high, low).astype(np.int64)
    return places(model, x, model.classes_).take(table)
