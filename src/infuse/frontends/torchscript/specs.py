"""What is said of the inputs of a program, which its file does not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from infuse.errors import OptionError
from infuse.tracing.arrays.array import dtype_of
from infuse.tracing.arrays.tracing import Spec

__all__ = ["Spec", "described", "dtype_of"]


def described(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of inputs by name: Specs, numbers and texts that they are to have, None, lists,
    tuples and dictionaries of these; arrays stand for inputs that are like them.
    """
    return {name: _described(name, value) for name, value in inputs.items()}


def _described(name: str, value: Any) -> Any:
    if value is None or isinstance(value, (Spec, bool, int, float, str)):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return Spec.of(value)
    if isinstance(value, list):
        return [_described(name, part) for part in value]
    if isinstance(value, dict):
        return {key: _described(name, part) for key, part in value.items()}
    if isinstance(value, tuple):
        pair = len(value) == 2 and isinstance(value[1], (tuple, list))
        if pair and not isinstance(value[0], (Spec, np.ndarray, tuple, list)):
            return Spec.of(value)
        return tuple(_described(name, part) for part in value)
    raise OptionError(
        f"{value!r} does not describe the input {name!r}",
        hint='give infuse.Spec("float32", ("batch", 3)), or the number that it is to have',
    )
