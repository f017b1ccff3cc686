"""The fields of a GGUF file by name, asked for by the type that they must have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from infuse.errors import ModelFileError, did_you_mean
from infuse.frontends.gguf.wire import HINT, Strings

_MISSING: Final[Any] = object()


class Metadata(Mapping[str, Any]):
    """The fields of a file: int, float, bool, str, read-only NumPy arrays, `Strings`, and lists of
    these for nested arrays.

    The methods check the type; ModelFileError for another one, and for a field that is missing
    where no default is given.
    """

    def __init__(self, fields: Mapping[str, Any], where: str) -> None:
        self._fields, self.where = fields, where

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def integer(self, name: str, default: int | Any = _MISSING) -> Any:
        """A whole number."""
        return self._typed(name, int, "a whole number", default)

    def number(self, name: str, default: float | Any = _MISSING) -> Any:
        """A number."""
        value = self._typed(name, (int, float), "a number", default)
        return float(value) if type(value) is int else value

    def flag(self, name: str, default: bool | Any = _MISSING) -> Any:
        """A truth value."""
        return self._typed(name, bool, "a truth value", default)

    def text(self, name: str, default: str | Any = _MISSING) -> Any:
        """A string."""
        return self._typed(name, str, "a string", default)

    def texts(self, name: str, default: Any = _MISSING) -> Any:
        """An array of strings."""
        return self._typed(name, Strings, "an array of strings", default)

    def numbers(self, name: str, default: Any = _MISSING) -> Any:
        """An array of numbers."""
        return self._typed(name, np.ndarray, "an array of numbers", default)

    def per_layer(self, name: str, layers: int, default: Any = _MISSING) -> list[Any]:
        """A number for each layer, which stands once where it is the same in all of them."""
        value = self._typed(name, (int, float, np.ndarray), "a number or an array of them", default)
        if not isinstance(value, np.ndarray):
            return [value] * layers
        if len(value) < layers:
            raise ModelFileError(
                f"{name} has {len(value)} numbers for {layers} layers", where=self.where, hint=HINT
            )
        return list(value[:layers].tolist())

    def _typed(self, name: str, kind: Any, what: str, default: Any) -> Any:
        value: Any = self._fields.get(name, default)
        if value is _MISSING:
            raise ModelFileError(
                f"it has no field {name!r}",
                where=self.where,
                hint=did_you_mean(name, self._fields, otherwise="convert the model again"),
            )
        mistaken = type(value) is bool and kind is not bool
        if value is default or (isinstance(value, kind) and not mistaken):
            return value
        raise ModelFileError(
            f"the field {name!r} is {_described(value)}, not {what}", where=self.where, hint=HINT
        )


def _described(value: Any) -> str:
    if isinstance(value, (str, Strings)):
        return "a string" if isinstance(value, str) else "an array of strings"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    return repr(value) if isinstance(value, (bool, int, float)) else "an array of arrays"
