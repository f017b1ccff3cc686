"""Reading JSON and UBJSON documents of models, with errors that say what is not as it must be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from infuse.errors import ModelFileError
from infuse.ir.graph import Array

HINT: Final = "the file may be cut off; save the model again"


def json_object(data: bytes | memoryview, what: str) -> Mapping[str, Any]:
    """The object that a JSON document is."""
    try:
        content = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{what} is not JSON: {error}", hint=HINT) from error
    if not isinstance(content, dict):
        raise ModelFileError(f"{what} is not a JSON object")
    return content


def numbers(content: Any, dtype: Any, what: str) -> Array:
    """A list of numbers (or text of them, between spaces) as an array of one axis."""
    try:
        if isinstance(content, str):
            content = content.split()
        array = np.asarray(content)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "biufU"):
            raise ValueError(f"it has the form {array.dtype}{list(array.shape)}")
        result: Array = array.astype(dtype)
        if np.dtype(dtype).kind == "i" and array.dtype.kind in "f" and (result != array).any():
            raise ValueError("there is a fraction")
        return result
    except (OverflowError, TypeError, ValueError) as error:
        raise ModelFileError(f"{what} is not a list of numbers: {error}") from error
