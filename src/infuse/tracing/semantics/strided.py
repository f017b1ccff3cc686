"""Tensors of torch in the bytes of their storage: sizes, strides, a first element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from infuse.dtypes import DType
from infuse.errors import ModelFileError
from infuse.ir.graph import Array

_REPEATED: Final = 1 << 20
"""Elements that a tensor with strides of 0 may have."""


def strided(
    name: str,
    data: memoryview,
    dtype: DType,
    offset: int,
    sizes: Sequence[int],
    strides: Sequence[int],
) -> Array:
    """The tensor of a storage with these sizes and strides, in its place of the file where it is
    dense; ModelFileError where it leaves the storage.
    """
    item = dtype.numpy.itemsize
    storage = np.frombuffer(data, dtype.numpy, count=len(data) // item)
    last = offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    count = math.prod(sizes)
    outside = 0 not in sizes and last >= len(storage)
    if min([offset, *sizes, *strides]) < 0 or outside or count > max(len(storage), _REPEATED):
        raise ModelFileError(
            f"tensor {name!r} of sizes {list(sizes)[:8]} does not lie in its {len(data)} bytes",
            hint="the file was cut off; fetch or export it again",
        )
    if len(sizes) > 64 or max(sizes, default=0) > 1 << 48:
        raise ModelFileError(f"tensor {name!r} has {len(sizes)} axes, which no tensor has")
    if 0 in sizes:
        return np.zeros(sizes, dtype.numpy)
    view = np.lib.stride_tricks.as_strided(
        storage[offset:], sizes, [s * item for s in strides], writeable=False
    )
    return np.ascontiguousarray(view) if not view.flags.c_contiguous else view
