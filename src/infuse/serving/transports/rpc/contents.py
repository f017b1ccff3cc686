"""Typed contents of messages: the elements of tensors in repeated fields, to arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from infuse.errors import RequestError
from infuse.runtime.session import Array
from infuse.serving.datatypes import BYTES, NUMPY, RAW_ONLY
from infuse.serving.transports.elements import check, check_texts
from infuse.serving.transports.rpc.requests import Contents

_FIELDS: Final[Mapping[str, str]] = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    BYTES: "bytes_contents",
}
_WIDE: Final[Mapping[str, str]] = {
    "INT8": "INT32",
    "INT16": "INT32",
    "UINT8": "UINT32",
    "UINT16": "UINT32",
}


def from_contents(name: str, datatype: str, shape: tuple[int, ...], contents: Contents) -> Array:
    """The input `name` as an array, from InferTensorContents.

    RequestError: the shape is none or does not fit the number of elements, another field than that
    of the datatype is filled, an element does not fit the datatype, or the datatype travels as raw
    contents only.
    """
    count = check(name, datatype, shape)
    where = f"input {name!r}"
    if datatype in RAW_ONLY:
        raise RequestError(
            f"{datatype} has no typed contents", where=where, hint="send it as raw contents"
        )
    field = _FIELDS[datatype]
    filled = {descriptor.name: values for descriptor, values in contents.ListFields()}
    if filled.keys() - {field}:
        raise RequestError(
            f"it is {datatype}, but fills {', '.join(filled)}",
            where=where,
            hint=f"fill {field} alone",
        )
    values = filled.get(field, ())
    if len(values) != count:
        what = f"its shape {list(shape)} needs {count} elements, but {field} has {len(values)}"
        raise RequestError(what, where=where)
    if datatype != BYTES:
        return _narrowed(
            where, datatype, np.array(values, NUMPY[_WIDE.get(datatype, datatype)])
        ).reshape(shape)
    check_texts(name, count)
    elements = np.empty(count, object)
    elements[:] = list(values)
    return elements.reshape(shape)


def _narrowed(where: str, datatype: str, values: Array) -> Array:
    """Elements as those of the datatype, which may be narrower than the field that they came in."""
    dtype = NUMPY[datatype]
    if values.dtype == dtype:
        return values
    limits = np.iinfo(dtype)
    if values.size and not (limits.min <= values.min() and values.max() <= limits.max):
        raise RequestError(
            f"an element of {datatype} is outside {limits.min} … {limits.max}", where=where
        )
    return values.astype(dtype)
