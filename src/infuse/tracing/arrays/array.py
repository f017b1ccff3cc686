"""Arrays that record what is done with them: the array type of a traced program."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ShapeError, TypeMismatchError, UnsupportedOperatorError
from infuse.ir.graph import Value
from infuse.tracing.arrays.operators import OPERATORS, Operators
from infuse.tracing.importer import Importer

_INNER: Final = (str(Path(__file__).parent), str(Path(__file__).parents[2] / "processing"))
"""Where the code of array functions and building blocks lies, which no program wrote."""
COMPLEX: Final[dict[str, Callable[..., Any]]] = {}
"""What nodes compute of complex numbers, by kind: count of outputs, operands and attributes give an
array or a list of them.
"""

_TRACED: ContextVar[Importer | None] = ContextVar("traced", default=None)
_SOURCES: ContextVar[bool] = ContextVar("sources", default=True)


def importer() -> Importer:
    """What the program that is being traced adds nodes to."""
    current = _TRACED.get()
    if current is None:
        raise UnsupportedOperatorError(
            "an array function was called while nothing is traced",
            hint="call it inside the function that is given to infuse.trace",
        )
    return current


def is_tracing() -> bool:
    """Whether a program is being traced."""
    return _TRACED.get() is not None


@contextmanager
def tracing(into: Importer, sources: bool | None = None) -> Iterator[None]:
    """Within, array functions add their nodes to this importer; `sources`: whether with the lines
    of the program (default: as around).
    """
    token = _TRACED.set(into)
    lines = _SOURCES.set(_SOURCES.get() if sources is None else sources)
    try:
        yield
    finally:
        _TRACED.reset(token)
        _SOURCES.reset(lines)


def source_line() -> str:
    """The line of the user's program that is being run; none where sources are not noted."""
    if not _SOURCES.get():
        return ""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INNER):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def node(kind: str, *operands: Any, **attributes: Any) -> Array:
    """The first output of a new node, whose operands may be arrays."""
    return nodes(1, kind, *operands, **attributes)[0]


def nodes(count: int, kind: str, *operands: Any, **attributes: Any) -> list[Array]:
    """All outputs of a new node; of the nodes for both parts where an operand is complex."""
    g = importer()
    if builtins.any(isinstance(operand, Complex) for operand in operands):
        if kind not in COMPLEX:
            raise UnsupportedOperatorError(
                f"{kind} is not defined for complex numbers",
                where=source_line(),
                hint="use real(x), imag(x) or abs(x)",
            )
        result = COMPLEX[kind](count, *operands, **attributes)
        return result if isinstance(result, list) else [result]
    values = [operand.value if isinstance(operand, Array) else operand for operand in operands]
    with g.scope(source=source_line()):
        return [Array(value) for value in g.several(count, kind, *values, **attributes)]


def built(function: Callable[..., Sequence[Value]], *operands: Array) -> list[Array]:
    """What a function of the importer and of values makes of arrays."""
    g = importer()
    with g.scope(source=source_line()):
        return [Array(value) for value in function(g, *(x.value for x in operands))]


def applied(
    g: Importer, function: Callable[..., Array | tuple[Array, ...]], *operands: Value
) -> list[Value]:
    """What a function of arrays makes of values: all of its results, without lines of a program."""
    with tracing(g, sources=False):
        made = function(*(Array(value) for value in operands))
    return [part.value for part in (made if isinstance(made, tuple) else (made,))]


def lifted(x: Any, dtype: np.dtype[Any] | None = None) -> Array:
    """An array, number or NumPy array as a traced array, of this element type."""
    if isinstance(x, Array):
        return x if dtype is None or x.dtype == dtype else x.astype(dtype)
    try:
        elements = np.asarray(x, dtype)
    except (OverflowError, TypeError, ValueError) as error:
        raise TypeMismatchError(
            f"{x!r:.60} cannot be {dtype or 'an array'}: {error}", where=source_line()
        ) from error
    if elements.dtype == object:
        raise TypeMismatchError(f"{type(x).__name__} is not an array", where=source_line())
    if elements.dtype.kind == "c":
        return Complex(lifted(elements.real.copy()), lifted(elements.imag.copy()))
    return Array(importer().constant(elements))


def together(*operands: Any) -> list[Array]:
    """Operands in the element type to which they are promoted, as NumPy does it: a Python number
    takes that of the arrays.
    """
    dtype = np.result_type(*map(_promoted_as, operands))
    return [lifted(x, dtype) for x in operands]


def _promoted_as(x: Any) -> Any:
    if isinstance(x, Array) and x.is_size:
        return 0
    return x if isinstance(x, (bool, int, float, complex)) else lifted(x).dtype


def are_sizes(*operands: Any) -> bool:
    """Whether all are integers of Python, as sizes are."""
    return all(type(x) is int or getattr(x, "is_size", False) for x in operands)


class Array(Operators):
    """An array of a traced program, after the Array API standard (2024.12): its elements are not
    known, its shape has numbers, and arrays without axes for sizes that are.
    """

    __array_priority__ = 1000

    def __init__(self, value: Value, is_size: bool = False) -> None:
        self._value = value
        self.is_size = is_size
        """Whether it is promoted as a Python number: a size that only a run knows."""

    # -- what it is --------------------------------------------------------------------------------

    @property
    def value(self) -> Value:
        """What the graph calls it."""
        return self._value

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type."""
        return self.value.dtype.numpy

    @property
    def ndim(self) -> int:
        """The number of axes."""
        if self.value.type.rank is None:  # type: ignore[union-attr]
            raise UnsupportedOperatorError(
                "the number of axes of this array depends on data", where=source_line()
            )
        return self.value.rank

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes: ints, and arrays without axes for those that only a run knows."""
        g = importer()
        sizes = (g.size_of(self.value, axis) for axis in range(self.ndim))
        return tuple(size if isinstance(size, int) else Array(size, True) for size in sizes)

    @property
    def size(self) -> Any:
        """The number of elements."""
        count: Any = 1
        for size in self.shape:
            count = size * count
        return count

    @property
    def device(self) -> str:
        """Where it lies."""
        return "cpu"

    @property
    def T(self) -> Array:
        """A matrix transposed."""
        if self.ndim != 2:
            raise TypeMismatchError(f".T is of matrices, this has {self.ndim} axes")
        return node("Transpose", self, perm=(1, 0))

    @property
    def mT(self) -> Array:
        """Matrices along the last two axes, transposed."""
        axes = list(range(self.ndim))
        axes[-2:] = axes[-1], axes[-2]
        return node("Transpose", self, perm=tuple(axes))

    def astype(self, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Array:
        """The same elements in another type, truncated where that has integers only."""
        require_device(device)
        target = np.dtype(dtype)
        if target == self.dtype:
            return self.copy() if copy else self
        if target.kind == "c" and not isinstance(self, Complex):
            part = self.astype(np.float32 if target.itemsize == 8 else np.float64, copy=False)
            return Complex(part, node("Expand", lifted(0, part.dtype), node("Shape", part)))
        return node("Cast", self, to=dtypes.by_numpy(target))

    def copy(self) -> Array:
        """Another array of the same elements: assignments to one do not change the other."""
        return Array(self._value, self.is_size)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Array:
        """The array on a device, of which there is one."""
        require_device(device)
        if stream is not None:
            raise UnsupportedOperatorError("the CPU has no streams", where=source_line())
        return self

    def __dlpack__(self, **_: Any) -> NoReturn:
        self._decides("the memory of an array")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        namespace = sys.modules[f"{__package__}.namespace"]
        if api_version is not None and api_version > namespace.__array_api_version__:
            raise UnsupportedOperatorError(f"version {api_version} of the Array API is not known")
        return namespace

    def __len__(self) -> int:
        size = self.shape[0]
        return size if isinstance(size, int) else self._decides("its length")

    def __iter__(self) -> Iterator[Array]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"Array({self.value.type})"

    def _is_operand(self, x: Any) -> bool:
        return isinstance(x, (Array, bool, int, float, complex, np.ndarray, np.generic))

    def _apply(self, name: str, *operands: Any) -> Any:
        result = super()._apply(name, *operands)
        if isinstance(result, Array) and result.dtype == np.int64:
            result.is_size = are_sizes(*operands)
        return result

    def _become(self, result: Any) -> Array:
        """An operator in place: the array has the result's elements, in its own type."""
        if isinstance(result, Array):
            if not np.can_cast(result.dtype, self.dtype, "same_kind"):
                raise TypeMismatchError(
                    f"an array of {self.dtype} cannot become {result.dtype} in place",
                    where=source_line(),
                    hint="write x = x + y in place of x += y",
                )
            if result.ndim != self.ndim:
                raise ShapeError(
                    f"an array of {self.ndim} axes cannot get {result.ndim} in place",
                    where=source_line(),
                )
            self._assign(result.astype(self.dtype))
            return self
        raise TypeMismatchError("the operand is neither an array nor a number", where=source_line())

    # -- what a trace cannot know ------------------------------------------------------------------

    def _decides(self, what: str) -> NoReturn:
        raise UnsupportedOperatorError(
            f"the program needs {what} as a Python value while it is traced, which only a run has",
            where=source_line(),
            hint="use where, infuse.cond, infuse.loop or infuse.scan in place of Python's if, "
            "while and for",
        )

    def __bool__(self) -> bool:  # noqa: PLE0304 (it does not return)
        self._decides("the truth of an array")

    def __int__(self) -> int:
        self._decides("an element of an array")

    __index__ = __int__

    def __float__(self) -> float:
        self._decides("an element of an array")

    def __complex__(self) -> complex:
        self._decides("an element of an array")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        self._decides("an array")

    # -- elements ----------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Array:
        part: Array = OPERATORS["getitem"](self, key)
        return part

    def __setitem__(self, key: Any, value: Any) -> None:
        self._assign(OPERATORS["setitem"](self, key, value))

    def _assign(self, other: Array) -> None:
        self._value = other.value


class Complex(Array):
    """Complex numbers: two real arrays of one shape. Nodes of graphs have none, so that a graph has
    neither inputs nor outputs of them.
    """

    def __init__(self, real: Array, imag: Array) -> None:
        self.real_part, self.imag_part = real, imag
        self.is_size = False

    @property
    def value(self) -> Value:
        raise UnsupportedOperatorError(
            "a graph has no complex values, only their parts",
            where=source_line(),
            hint="use real(x) and imag(x)",
        )

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.complex64 if self.real_part.dtype == np.float32 else np.complex128)

    @property
    def ndim(self) -> int:
        return self.real_part.ndim

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.real_part.shape

    def copy(self) -> Array:
        return Complex(self.real_part, self.imag_part)

    def __repr__(self) -> str:
        return f"Complex({self.real_part!r}, {self.imag_part!r})"

    def _assign(self, other: Array) -> None:
        assert isinstance(other, Complex)
        self.real_part, self.imag_part = other.real_part, other.imag_part


def require_device(device: Any) -> None:
    """UnsupportedOperatorError for a device other than the only one; None is that."""
    if device not in (None, "cpu"):
        raise UnsupportedOperatorError(
            f"there is no device {device!r}, only 'cpu'", where=source_line()
        )


def dtype_of(dtype: Any) -> DType:
    """The element type that NumPy calls so; `string` is the one of texts."""
    if isinstance(dtype, str) and dtype == dtypes.string.name:
        return dtypes.string
    return dtypes.by_numpy(np.dtype(dtype))
