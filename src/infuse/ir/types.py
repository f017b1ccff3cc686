"""Types of values: tensors with symbolic shapes, sequences, optionals and maps of them, and
states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import GraphError
from infuse.ir import dims
from infuse.ir.dim_text import parse as parse_dim
from infuse.ir.dims import Dim

Shape = tuple[Dim, ...]


class UnknownRank(GraphError):
    """The shape of a value is needed of which not even the rank is known."""


class DataFormat(str, Enum):
    """How a tensor lies in memory. The shape of a type stays logical (N, C, H, W) whatever the
    format.
    """

    ND = "ND"
    NCHW = "NCHW"
    NHWC = "NHWC"
    NCHWc = "NCHWc"

    def fits(self, rank: int) -> bool:
        """Whether tensors of this rank can lie so: those with batch, channels and at least one more
        dimension.
        """
        return self is DataFormat.ND or rank >= 3


@dataclass(frozen=True)
class TensorType:
    """Element type, shape (None: rank unknown) and storage format of a tensor."""

    dtype: DType
    shape: Shape | None
    format: DataFormat = DataFormat.ND

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    @property
    def is_static(self) -> bool:
        return self.shape is not None and all(isinstance(d, int) for d in self.shape)

    @property
    def size(self) -> Dim | None:
        """Number of elements."""
        return None if self.shape is None else dims.product(self.shape)

    def substitute(self, values: Mapping[str, Dim]) -> TensorType:
        """The same type with symbols replaced."""
        if self.shape is None:
            return self
        return replace(self, shape=tuple(dims.substitute(d, values) for d in self.shape))

    def __str__(self) -> str:
        shape = "?" if self.shape is None else ", ".join(map(str, self.shape))
        suffix = "" if self.format is DataFormat.ND else f"@{self.format.value}"
        return f"{self.dtype}[{shape}]{suffix}"


@dataclass(frozen=True)
class SequenceType:
    """A list of values of one type."""

    element: Type

    def __str__(self) -> str:
        return f"seq({self.element})"


@dataclass(frozen=True)
class OptionalType:
    """A value of the element type, or nothing."""

    element: Type

    def __str__(self) -> str:
        return f"optional({self.element})"


@dataclass(frozen=True)
class MapType:
    """A dictionary: keys are integers or strings, the elements of one type; a scalar tensor stands
    for a number.
    """

    key: DType
    element: Type

    def __str__(self) -> str:
        return f"map({self.key}, {self.element})"


@dataclass(frozen=True)
class StateType:
    """A tensor that outlives a run, which changes it where it lies (`ir/states.py`)."""

    element: TensorType

    def __str__(self) -> str:
        return f"state({self.element})"


Type = TensorType | SequenceType | OptionalType | MapType | StateType
HOLDERS = (SequenceType, OptionalType, MapType, StateType)
"""Types of values that hold others, which are of type `element`."""

UNKNOWN = TensorType(dtypes.float32, None)


def tensor(dtype: DType, *shape: Dim | str) -> TensorType:
    """A tensor type; text sizes are parsed: `tensor(float32, "batch", 3)`."""
    return TensorType(dtype, tuple(parse_dim(d) if isinstance(d, str) else d for d in shape))
