"""Functions that make arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.errors import UnsupportedOperatorError
from infuse.tracing.arrays.array import Array, lifted, node, require_device, source_line, together
from infuse.tracing.arrays.manipulation import broadcast_to, expand_dims, reshape
from infuse.tracing.arrays.sizes import listed

Device = str | None


def asarray(
    obj: Any, /, *, dtype: Any = None, device: Device = None, copy: bool | None = None
) -> Array:
    """An array of numbers, nested lists of them and of arrays, or another array, which is copied
    where `copy` says so, or its type changes; `copy` False refuses that.
    """
    require_device(device)
    is_same = isinstance(obj, Array) and dtype in (None, obj.dtype)
    if copy is False and not is_same:
        raise UnsupportedOperatorError("this array has to be made anew", where=source_line())
    if isinstance(obj, (list, tuple)) and _has_arrays(obj):
        from infuse.tracing.arrays.manipulation import stack

        result = stack([asarray(entry, dtype=dtype) for entry in obj])
        return result if dtype is None else result.astype(dtype)
    array = lifted(obj, None if dtype is None else np.dtype(dtype))
    return array.copy() if copy and array is obj else array


def _has_arrays(entries: Any) -> bool:
    return any(
        isinstance(e, Array) or (isinstance(e, (list, tuple)) and _has_arrays(e)) for e in entries
    )


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Device = None) -> Array:
    """An array of one number."""
    require_device(device)
    value = lifted(fill_value, None if dtype is None else np.dtype(dtype))
    return node("Expand", value, listed(shape))


def zeros(shape: Any, *, dtype: Any = None, device: Device = None) -> Array:
    """An array of zeros."""
    require_device(device)
    return full(shape, 0, dtype=dtype or np.float64)


def ones(shape: Any, *, dtype: Any = None, device: Device = None) -> Array:
    """An array of ones."""
    require_device(device)
    return full(shape, 1, dtype=dtype or np.float64)


def empty(shape: Any, *, dtype: Any = None, device: Device = None) -> Array:
    """An array of any numbers: zeros."""
    require_device(device)
    return zeros(shape, dtype=dtype)


def full_like(x: Array, /, fill_value: Any, *, dtype: Any = None, device: Device = None) -> Array:
    """An array of one number, of the shape of another."""
    require_device(device)
    value = lifted(fill_value, np.dtype(dtype or x.dtype))
    return node("Expand", value, node("Shape", x))


def zeros_like(x: Array, /, *, dtype: Any = None, device: Device = None) -> Array:
    """Zeros in the shape of another array."""
    require_device(device)
    return full_like(x, 0, dtype=dtype)


def ones_like(x: Array, /, *, dtype: Any = None, device: Device = None) -> Array:
    """Ones in the shape of another array."""
    require_device(device)
    return full_like(x, 1, dtype=dtype)


def empty_like(x: Array, /, *, dtype: Any = None, device: Device = None) -> Array:
    """Any numbers, zeros, in the shape of another array."""
    require_device(device)
    return zeros_like(x, dtype=dtype)


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Device = None
) -> Array:
    """Numbers from start, or 0, up to and without stop."""
    require_device(device)
    if stop is None:
        start, stop = 0, start
    numbers = (start, stop, step)
    if not any(isinstance(n, Array) for n in numbers):
        return lifted(np.arange(*numbers, dtype=dtype))
    types = [n.dtype if isinstance(n, Array) else np.result_type(n) for n in numbers]
    result = node("Range", *(lifted(n, np.result_type(*types)) for n in numbers))
    return result if dtype is None else result.astype(dtype)


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Device = None,
    endpoint: bool = True,
) -> Array:
    """So many numbers at equal distances."""
    require_device(device)
    if not isinstance(start, Array) and not isinstance(stop, Array):
        return lifted(np.linspace(start, stop, num, dtype=dtype, endpoint=endpoint))
    first, last, _ = together(start, stop, np.float64(0))
    steps = lifted(np.arange(num, dtype=np.float64))
    result = first + steps * ((last - first) / max(num - int(endpoint), 1))
    return result if dtype is None else result.astype(dtype)


def eye(
    n_rows: Any, n_cols: Any = None, /, *, k: int = 0, dtype: Any = None, device: Device = None
) -> Array:
    """Ones on a diagonal."""
    require_device(device)
    columns = n_rows if n_cols is None else n_cols
    rows = expand_dims(arange(n_rows), axis=1)
    return (rows + k == arange(columns)).astype(dtype or np.float64)


def tril(x: Array, /, *, k: int = 0) -> Array:
    """Matrices without what is above a diagonal."""
    return node("Trilu", x, lifted(np.int64(k)), upper=0)


def triu(x: Array, /, *, k: int = 0) -> Array:
    """Matrices without what is below a diagonal."""
    return node("Trilu", x, lifted(np.int64(k)), upper=1)


def meshgrid(*arrays: Array, indexing: str = "xy") -> list[Array]:
    """Arrays of one axis as coordinates of a grid."""
    if indexing not in ("xy", "ij"):
        raise UnsupportedOperatorError(f"indexing is {indexing!r}", where=source_line())
    order = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        order[:2] = [1, 0]
    sizes = [arrays[i].size for i in order]
    result = []
    for axis, array in enumerate(arrays):
        shape: list[Any] = [1] * len(arrays)
        shape[order.index(axis)] = -1
        result.append(broadcast_to(reshape(array, tuple(shape)), tuple(sizes)))
    return result
