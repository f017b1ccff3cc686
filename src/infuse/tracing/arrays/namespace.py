"""The namespace of the Array API standard that arrays of a traced program have; functions that are
not in it raise an error that names them.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from infuse.errors import UnsupportedOperatorError
from infuse.tracing.arrays import complexes, decompositions, fourier, linear  # noqa: F401  rules of complex numbers
from infuse.tracing.arrays.array import (
    Array,
    source_line,
)
from infuse.tracing.arrays.creation import (
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    full,
    full_like,
    linspace,
    meshgrid,
    ones,
    ones_like,
    tril,
    triu,
    zeros,
    zeros_like,
)
from infuse.tracing.arrays.elementwise import FUNCTIONS
from infuse.tracing.arrays.indexing import (
    take,
    take_along_axis,
)
from infuse.tracing.arrays.inspection import (
    __array_namespace_info__,
    can_cast,
    finfo,
    from_dlpack,
    iinfo,
    isdtype,
    result_type,
)
from infuse.tracing.arrays.linear import (
    einsum,
    matmul,
    tensordot,
    vecdot,
)
from infuse.tracing.arrays.manipulation import (
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    concat,
    expand_dims,
    flip,
    matrix_transpose,
    moveaxis,
    permute_dims,
    repeat,
    reshape,
    roll,
    squeeze,
    stack,
    tile,
    unstack,
)
from infuse.tracing.arrays.parts import conj, imag, real
from infuse.tracing.arrays.reduction import (
    all,
    any,
    argmax,
    argmin,
    argsort,
    count_nonzero,
    cumulative_prod,
    cumulative_sum,
    diff,
    isin,
    max,
    mean,
    min,
    nonzero,
    prod,
    searchsorted,
    sort,
    std,
    sum,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    var,
)

__array_api_version__: Final = "2024.12"

e, inf, nan, newaxis, pi = np.e, np.inf, np.nan, None, np.pi

bool = np.dtype(np.bool_)
int8, int16, int32, int64 = (np.dtype(t) for t in (np.int8, np.int16, np.int32, np.int64))
uint8, uint16, uint32, uint64 = (np.dtype(t) for t in (np.uint8, np.uint16, np.uint32, np.uint64))
float32, float64 = np.dtype(np.float32), np.dtype(np.float64)
complex64, complex128 = np.dtype(np.complex64), np.dtype(np.complex128)

fft = SimpleNamespace(**{name: getattr(fourier, name) for name in fourier.__all__})
linalg = SimpleNamespace(
    **{name: getattr(room, name) for room in (linear, decompositions) for name in room.__all__}
)


def astype(x: Array, dtype: Any, /, *, copy: Any = True, device: Any = None) -> Array:
    """The same elements in another type."""
    return x.astype(dtype, copy=copy, device=device)


globals().update(FUNCTIONS)

__all__ = [  # and those of FUNCTIONS
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "asarray",
    "astype",
    "__array_namespace_info__",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "can_cast",
    "concat",
    "conj",
    "count_nonzero",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "einsum",
    "empty",
    "empty_like",
    "expand_dims",
    "eye",
    "finfo",
    "flip",
    "full",
    "from_dlpack",
    "full_like",
    "iinfo",
    "imag",
    "isdtype",
    "isin",
    "linspace",
    "matmul",
    "matrix_transpose",
    "max",
    "mean",
    "meshgrid",
    "min",
    "moveaxis",
    "nonzero",
    "ones",
    "ones_like",
    "permute_dims",
    "prod",
    "real",
    "repeat",
    "reshape",
    "result_type",
    "roll",
    "searchsorted",
    "sort",
    "squeeze",
    "stack",
    "std",
    "sum",
    "take",
    "take_along_axis",
    "tensordot",
    "tile",
    "tril",
    "triu",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unstack",
    "var",
    "vecdot",
    "zeros",
    "zeros_like",
]


class MissingFunctionError(UnsupportedOperatorError, AttributeError):
    """A function that NumPy may have and a trace has not; `hasattr` of whoever looks through all
    modules, as torch's inductor does, says no.
    """


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise MissingFunctionError(
        f"there is no array function {name!r} that can be traced", where=source_line()
    )
