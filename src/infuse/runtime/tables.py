"""Tables, DataFrames of pandas and polars, as the arrays of a model that has an input for each
column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from infuse.errors import InputError
from infuse.runtime.shapes import TensorSpec

Array = npt.NDArray[Any]
_SMALL: Final = 512
"""Cells up to which a table is turned into one matrix of objects: a column of its own costs as much
as that many.
"""
_FEW: Final = 256
"""Integers of which each is written once."""
_PLAIN: Final = {str, float, type(None), bytes}
_MISSING: Final = ("NAType", "NaTType")
"""What pandas has in place of a missing element, beside None and NaN."""


def is_table(value: Any) -> bool:
    """Whether it has columns by name."""
    return hasattr(value, "columns") and hasattr(value, "to_numpy")


def columns_of(table: Any, specs: Sequence[TensorSpec]) -> dict[str, Array]:
    """The column of the name of each input, [rows] or [rows, 1] as that has one or two axes;
    columns that are no input's are left out, and inputs with a default may have none.

    What is missing is NaN, but None among texts stays None. Integers and truths become texts where
    the input takes texts. InputError where a column is not there, or has other elements.
    """
    columns = table.columns
    absent = [spec.name for spec in specs if spec.name not in columns and not spec.optional]
    if absent:
        raise InputError(
            f"the table has no column {', '.join(map(repr, absent))}",
            hint=f"the model takes {', '.join(map(str, specs))}",
        )
    rows, cells = len(table), None
    if hasattr(columns, "get_loc") and rows * len(columns) <= _SMALL:
        cells = table.to_numpy(object)
    result = {}
    for spec in specs:
        if spec.name not in columns:
            continue
        if cells is None:
            column = table[spec.name]
            column = getattr(column, "values", column)  # pandas has them at a third of the price
        else:
            column = cells[:, columns.get_loc(spec.name)]
        if len(column.shape) != 1:
            raise InputError(f"the table has several columns {spec.name!r}")
        try:
            array = _texts(column) if spec.dtype.kind == "O" else _numbers(column, spec.dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"the column {spec.name!r} does not fit {spec}: {error}") from error
        result[spec.name] = array if len(spec.shape) == 1 else array.reshape(rows, 1)
    return result


def _numbers(column: Any, dtype: np.dtype[Any]) -> Array:
    """Numbers of a type, NaN where one is missing."""
    array = np.asarray(column)
    if array.dtype.kind == "O":
        array = np.array(array.tolist())
    if array.dtype.kind == "O":
        array = np.array([np.nan if _is_missing(v) else v for v in array.tolist()])
    if array.dtype.kind in "mMc":
        raise TypeError(f"its elements are {array.dtype}")
    if array.dtype.kind not in "fiub":
        array = np.asarray(array, np.float64)  # texts of numbers
    if array.dtype == dtype:
        return np.ascontiguousarray(array)
    with np.errstate(invalid="ignore", over="ignore"):
        converted = array.astype(dtype, copy=False)
    if dtype.kind not in "fc" and not np.array_equal(converted, array):
        raise ValueError(f"some elements are no {dtype}")
    return np.ascontiguousarray(converted)


def _texts(column: Any) -> Array:
    """Texts in an array of objects."""
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iu":
        return _digits(np.asarray(column))
    if type(column.dtype).__name__ == "CategoricalDtype":
        texts = _texts(np.asarray(column.categories, object))
        # The code of what is missing is -1: the last place.
        return np.asarray(np.append(texts, np.nan)[column.codes])
    # Of polars, an array has floats in place of integers of which some are missing.
    array = _objects(column.to_list()) if hasattr(column, "to_list") else np.asarray(column, object)
    listed = array.tolist()
    if set(map(type, listed)) <= _PLAIN:
        return array
    return _objects([v if type(v) in _PLAIN else _text(v) for v in listed])


def _digits(array: Array) -> Array:
    """Integers as texts."""
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    if high - low >= min(_FEW, array.size):
        return _objects([str(value) for value in array.tolist()])
    texts = _objects([str(value) for value in range(low, high + 1)])
    few: Array = texts[(array - array.dtype.type(low)).astype(np.intp)]
    return few


def _text(value: Any) -> Any:
    if isinstance(value, (bool, int, np.bool_, np.integer)):
        return str(value)
    return np.nan if _is_missing(value) else value


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ in _MISSING


def _objects(listed: list[Any]) -> Array:
    result = np.empty(len(listed), object)
    result[:] = listed
    return result
