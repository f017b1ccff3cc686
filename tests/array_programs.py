"""Functions of arrays, traced and run beside a witness: complex inputs and results go in parts, as
graphs have none.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import array_api_strict as strict
import numpy as np

import infuse
from infuse.ops.core.evaluate import evaluate
from infuse.tracing.arrays import namespace
from infuse.tracing.arrays.array import Complex

strict.set_array_api_strict_flags(api_version=namespace.__array_api_version__)

TYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
)
FLOATS = TYPES[-4:-2]
COMPLEX = TYPES[-2:]
Function = Callable[..., Any]


@dataclass(frozen=True)
class Program:
    """A traced function, the inputs of its graph, and which of its results are complex."""

    graph: infuse.Graph
    feeds: dict[str, np.ndarray]
    joined: tuple[bool, ...]

    def results(self, outputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Results as the function returns them."""
        parts = iter(outputs.values())
        return [_join(next(parts), next(parts)) if two else next(parts) for two in self.joined]


def run(function: Function, *arrays: np.ndarray, symbolic: bool = False) -> list[np.ndarray]:
    """What `function(xp, *arrays)` gives, traced and evaluated.

    Calls with the same function, types and sizes (ranks, where they are symbols) share one traced
    program: a function is the same where its code and all that it holds are.
    """
    kinds = tuple((x.dtype, x.ndim if symbolic else x.shape) for x in arrays)
    key = (function.__code__, *map(_exactly, _held(function)), kinds)
    made = _TRACED.get(key)
    if made is None:
        if len(_TRACED) >= _MOST_TRACED:
            _TRACED.clear()
        made = _TRACED[key] = program(function, *arrays, symbolic=symbolic)
    parts = (part for array in arrays for part in _parts(array))
    return made.results(evaluate(made.graph, dict(zip(made.feeds, parts, strict=True))))


_TRACED: dict[Any, Program] = {}
_MOST_TRACED = 400


def _held(function: Function) -> list[Any]:
    """The values that a function has besides its arguments, for the globals of its module."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return [*cells, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]


def _exactly(value: Any) -> Any:
    """What equals that of another value only where the values are the same in type and bits, or one
    object.
    """
    if isinstance(value, (bool, int, float, str, bytes, np.dtype, type(None))):
        return type(value), repr(value)
    if isinstance(value, (tuple, list)):
        return type(value), tuple(map(_exactly, value))
    return _Same(value)


@dataclass(frozen=True)
class _Same:
    """An object that equals itself alone, and lives as long as this."""

    held: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.held is other.held

    def __hash__(self) -> int:
        return id(self.held)


def _parts(array: np.ndarray) -> tuple[np.ndarray, ...]:
    return (array.real.copy(), array.imag.copy()) if array.dtype.kind == "c" else (array,)


def program(function: Function, *arrays: np.ndarray, symbolic: bool = False) -> Program:
    """`function(xp, *arrays)` traced, with sizes that are known or symbols."""
    feeds: dict[str, np.ndarray] = {}
    specs: dict[str, infuse.Spec] = {}
    for i, array in enumerate(arrays):
        shape = tuple(f"n{i}_{k}" for k in range(array.ndim)) if symbolic else array.shape
        for k, part in enumerate(_parts(array)):
            feeds[f"x{i}_{k}"] = part
            specs[f"x{i}_{k}"] = infuse.Spec(part.dtype, shape)
    joined: list[bool] = []

    def traced(
        x0_0: Any = None, x0_1: Any = None, x1_0: Any = None, x1_1: Any = None, x2_0: Any = None
    ) -> Any:
        pairs = [(x0_0, x0_1), (x1_0, x1_1), (x2_0, None)][: len(arrays)]
        operands = []
        for re, im in pairs:
            operands.append(re if im is None else Complex(re, im))
        results = function(namespace, *operands)
        outputs = {}
        for i, result in enumerate(results if isinstance(results, (tuple, list)) else [results]):
            joined.append(result.dtype.kind == "c")
            sides = (namespace.real, namespace.imag) if joined[-1] else (namespace.positive,)
            for side in sides:
                outputs[f"y{i}_{side.__name__}"] = (
                    side(result) if result.dtype.kind != "b" else result
                )
        return outputs

    graph = infuse.trace(traced, specs)
    return Program(graph, feeds, tuple(joined))


def run_native(function: Function, *arrays: np.ndarray, symbolic: bool = False) -> list[np.ndarray]:
    """What `function(xp, *arrays)` gives, traced, optimized and compiled, without host steps."""
    made = program(function, *arrays, symbolic=symbolic)
    model = infuse.compile(infuse.optimize(made.graph))
    assert not list(model.host_steps)
    return made.results(model.run(made.feeds))


def witness(function: Function, *arrays: np.ndarray) -> list[np.ndarray]:
    """What array_api_strict makes of it, which is NumPy within the bounds of the standard."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # means of no elements
        results = function(strict, *(strict.asarray(x) for x in arrays))
    several = isinstance(results, (tuple, list))
    return [np.asarray(result._array) for result in (results if several else [results])]


def _join(re: np.ndarray, im: np.ndarray) -> np.ndarray:
    whole = np.empty(re.shape, np.result_type(re.dtype, np.complex64))
    whole.real, whole.imag = re, im
    return whole


def difference(
    result: np.ndarray, right: np.ndarray, roundings: float, scale: Any = None
) -> str | None:
    """How a result differs from the right one in type, shape, or an element by more than so many
    roundings of it (of `scale`, where that is there); None where it does not.
    """
    if (result.dtype, result.shape) != (right.dtype, right.shape):
        return f"{result.dtype}{result.shape} in place of {right.dtype}{right.shape}"
    if right.dtype.kind in "biu":
        wrong = result != right
    else:
        limits = np.finfo(right.dtype)
        with np.errstate(all="ignore"):
            bound = roundings * limits.eps * (np.abs(right) if scale is None else scale)
            near = np.abs(result - right) <= bound + 4 * limits.tiny
            wrong = ~((result == right) | (np.isnan(result) & np.isnan(right)) | near)
        if right.dtype.kind == "f":
            zeros = (result == 0) & (right == 0)
            wrong |= zeros & (np.signbit(result) != np.signbit(right))
    if not wrong.any():
        return None
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{result[place]} in place of {right[place]} at {place}"
