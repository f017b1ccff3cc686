"""Specifications of tensors for tests of batching."""

from typing import Any

import numpy as np

from infuse.runtime.shapes import TensorSpec


def spec(name: str, *shape: int | str, dtype: Any = np.float32) -> TensorSpec:
    return TensorSpec(name, np.dtype(dtype), shape)
