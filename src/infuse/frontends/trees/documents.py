"""Reading JSON and UBJSON documents of models, with errors that say what is not as it must be."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from infuse.errors import ModelFileError
from infuse.ir.graph import Array

_MALFORMED: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading a document with impossible contents may raise."""


@contextmanager
def wellformed(where: str, what: str) -> Iterator[None]:
    """Within, what impossible contents raise becomes a ModelFileError; errors say where."""
    try:
        yield
    except ModelFileError as error:
        error.within(where)
        raise
    except RecursionError as error:
        raise ModelFileError(f"{what} is nested too deeply", where=where) from error
    except KeyError as error:
        raise ModelFileError(f"{what} has no {error}", where=where) from error
    except _MALFORMED as error:
        raise ModelFileError(
            f"{what} is not well formed: {type(error).__name__}: {error}",
            where=where,
            hint="the file may be cut off; save the model again",
        ) from error


def json_object(data: bytes | memoryview, what: str) -> Mapping[str, Any]:
    """The object that a JSON document is."""
    try:
        content = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise ModelFileError(
            f"{what} is not JSON: {error}", hint="the file may be cut off; save the model again"
        ) from error
    if not isinstance(content, dict):
        raise ModelFileError(f"{what} is no JSON object")
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
        raise ModelFileError(f"{what} is no list of numbers: {error}") from error
