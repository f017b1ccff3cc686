"""Encoders of categories: numbers and texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.frontends.sklearn.calls import TRANSFORM, reads, unsupported
from infuse.ir.graph import Array
from infuse.ir.registry import make_operator
from infuse.tracing.tensors import Tensor, beside


def is_text(categories: Any) -> bool:
    """Whether categories are texts, with None or NaN for missing ones among them."""
    listed = np.asarray(categories)
    if listed.dtype != object:
        return listed.dtype.kind in "US"
    return all(isinstance(v, str) or is_missing(v) for v in listed) and not all(
        isinstance(v, float) for v in listed
    )


def is_missing(value: Any) -> bool:
    """Whether it is None or NaN."""
    return value is None or (isinstance(value, float) and value != value)


def places(model: Any, column: Tensor, categories: Any) -> Tensor:
    """The place of each element of a column among categories; their number where it is none."""
    listed = np.asarray(categories)
    if (column.dtype == dtypes.string) != is_text(listed):
        raise unsupported(model, f"categories of {listed.dtype} for a column of {column.dtype}")
    if is_text(listed):
        return _text_places(column, listed.astype(object))
    floats = _equal(model, column, listed).floats()
    return (floats.max() > 0).where(floats.argmax(), len(listed))


def _text_places(column: Tensor, listed: Array) -> Tensor:
    """The place of each text, [batch]; None is None, and NaN is NaN."""
    present = np.array([not is_missing(v) for v in listed], bool)
    attributes = {
        "keys_tensor": listed[present],
        "values_tensor": np.flatnonzero(present),
        "default_tensor": np.array([len(listed)], np.int64),
    }
    operator = make_operator("ai.onnx.ml", "LabelEncoder", attributes)
    result = Tensor(column.g, column.g.apply(operator, [column.value])[0])
    for place in np.flatnonzero(~present).tolist():
        value = "none" if listed[place] is None else "nan"
        result = column.missing_text(value).where(place, result)
    return result.vector()


def _equal(model: Any, column: Tensor, listed: Array) -> Tensor:
    """Which category each number is: [batch, categories]; NaN is NaN."""
    if any(v is None for v in listed):
        raise unsupported(model, "None among numbers", "fit it with NaN in place of None")
    numbers = listed.astype(np.float64).reshape(1, -1)
    equal = column.equals(np.where(np.isnan(numbers), 0.0, numbers))
    if np.isnan(numbers).any():
        equal = equal & column.constant(~np.isnan(numbers), dtypes.bool_)
        equal = equal | (column.isnan() & column.constant(np.isnan(numbers), dtypes.bool_))
    return equal


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
        table = np.arange(len(categories), dtype=np.float64)
        if mapping is not None:
            # A missing one, which is the last, is not counted among the infrequent.
            table[: len(mapping)] = mapping
        absent = [isinstance(v, float) and v != v for v in categories]
        table = np.where(absent, float(model.encoded_missing_value), table)
        if model.handle_unknown == "use_encoded_value":
            table = np.append(table, float(model.unknown_value))
        parts.append(places(model, column, categories).take(table).expand())
    return beside(*parts)


@reads(TRANSFORM, "TargetEncoder")
def target(model: Any, x: Tensor) -> Tensor:
    """The mean of the target for each category (of each class, where there are more than two), the
    mean of all for one that is not known.
    """
    parts = []
    count = len(model.classes_) if model.target_type_ == "multiclass" else 1
    means = np.asarray(model.target_mean_, np.float64).reshape(1, -1)
    for i, (column, categories) in enumerate(zip(_columns(model, x), model.categories_)):
        table = np.stack(model.encodings_[i * count : (i + 1) * count], axis=1)
        parts.append(places(model, column, categories).take(np.concatenate([table, means])))
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
