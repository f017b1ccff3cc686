"""The element types of the Open Inference Protocol and NumPy's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import ml_dtypes
import numpy as np

from infuse.errors import UnsupportedRequestError

BYTES: Final = "BYTES"
# Little-endian, as the protocol sends them.
_NUMPY: Final[Mapping[str, Any]] = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
    "BF16": ml_dtypes.bfloat16,
    BYTES: object,
}
NUMPY: Final[Mapping[str, np.dtype[Any]]] = {name: np.dtype(kind) for name, kind in _NUMPY.items()}
_NAMES: Final[Mapping[np.dtype[Any], str]] = {dtype: name for name, dtype in NUMPY.items()}
# These travel as raw bytes only: the protocol gives them no place in JSON and in typed gRPC contents.
RAW_ONLY: Final = frozenset({"FP16", "BF16"})


def name_of(dtype: np.dtype[Any]) -> str:
    """The protocol's name of an element type; UnsupportedRequestError when it has none."""
    try:
        return _NAMES[dtype]
    except KeyError:
        raise UnsupportedRequestError(f"the protocol has no element type for {dtype}") from None
