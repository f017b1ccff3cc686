"""What a namespace says of itself, and its functions of element types."""

from __future__ import annotations

from typing import Any, Final, NoReturn

import numpy as np

from infuse.errors import UnsupportedOperatorError
from infuse.tracing.arrays.array import Array, require_device, source_line

_SIGNED: Final = ("int8", "int16", "int32", "int64")
_UNSIGNED: Final = ("uint8", "uint16", "uint32", "uint64")
_REAL: Final = ("float32", "float64")
_COMPLEX: Final = ("complex64", "complex128")
_KINDS: Final[dict[str, tuple[str, ...]]] = {
    "bool": ("bool",),
    "signed integer": _SIGNED,
    "unsigned integer": _UNSIGNED,
    "integral": (*_SIGNED, *_UNSIGNED),
    "real floating": _REAL,
    "complex floating": _COMPLEX,
    "numeric": (*_SIGNED, *_UNSIGNED, *_REAL, *_COMPLEX),
}


class Info:
    """What a traced program can rely on."""

    def capabilities(self) -> dict[str, Any]:
        """Masks as indices and shapes that depend on data are supported; NumPy has 64 axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Where arrays lie."""
        return "cpu"

    def devices(self) -> list[str]:
        """Where arrays may lie."""
        return ["cpu"]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """The element types of numbers where none is said."""
        require_device(device)
        return {
            "real floating": np.dtype(np.float64),
            "complex floating": np.dtype(np.complex128),
            "integral": np.dtype(np.int64),
            "indexing": np.dtype(np.int64),
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
        """The element types of a kind, or of each of several kinds."""
        require_device(device)
        if kind is None:
            kind = ("bool", "numeric")
        kinds = kind if isinstance(kind, tuple) else (kind,)
        for name in kinds:
            if name not in _KINDS:
                raise UnsupportedOperatorError(
                    f"there is no kind of element types {name!r}",
                    where=source_line(),
                    hint=f"one of: {', '.join(_KINDS)}",
                )
        return {t: np.dtype(t) for name in kinds for t in _KINDS[name]}


def __array_namespace_info__() -> Info:
    """What this namespace supports."""
    return Info()


def from_dlpack(x: Any, /, *, device: Any = None, copy: Any = None) -> NoReturn:
    """UnsupportedOperatorError: a traced array has no memory that others could hand over."""
    raise UnsupportedOperatorError(
        "from_dlpack would read the memory of an array while the program is traced",
        where=source_line(),
        hint="make the array an input of the function, or a constant by asarray",
    )


def _type_of(x: Any) -> Any:
    return x.dtype if isinstance(x, Array) else x


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether one type can be promoted to another."""
    return bool(np.can_cast(_type_of(from_), to))


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The type to which arrays, numbers and types are promoted."""
    return np.result_type(*map(_type_of, arrays_and_dtypes))


def finfo(type: Any, /) -> Any:
    """The limits of a type of floats."""
    return np.finfo(_type_of(type))


def iinfo(type: Any, /) -> Any:
    """The limits of a type of integers."""
    return np.iinfo(_type_of(type))


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a type is of a kind."""
    return bool(np.isdtype(dtype, kind))
