"""The types of a model's inputs and outputs, and what the sizes of given arrays say about its
symbols.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.errors import CompiledModelError, InfuseError, InputError

Size = int | str


@dataclass(frozen=True)
class TensorSpec:
    """An input or output of a model; a size is a number, or the text of a symbol or of an
    expression of symbols.

    `late`: it has sizes that depend on the elements of the inputs, so that only a run finds them
    out. `optional`: an input that has a default. `sizes`: the number of the output that lists its
    sizes, where only a run finds out its rank, too. `state`: an input that a run
    changes where it lies.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[Size, ...]
    late: bool = False
    optional: bool = False
    sizes: int | None = None
    state: bool = False

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.shape)) if self.sizes is None else "?"
        return f"{self.name}: {self.dtype.name}[{shape}]"

    @property
    def other_type(self) -> str:
        """The type of what is no tensor; empty for a tensor."""
        return ""

    @classmethod
    def from_metadata(cls, entry: Mapping[str, Any]) -> TensorSpec:
        """A spec from its row in the model's metadata; CompiledModelError when the row makes no
        sense.
        """
        try:
            name, dtype = entry["name"], dtypes.by_name(entry["dtype"]).numpy
            shape = tuple(entry["shape"])
        except (KeyError, TypeError, InfuseError) as error:
            raise CompiledModelError(
                f"the metadata has a tensor that cannot be read: {entry!r} ({error})"
            ) from error
        if not isinstance(name, str) or not all(isinstance(size, int | str) for size in shape):
            raise CompiledModelError(f"the metadata has a tensor that cannot be read: {entry!r}")
        late, optional, state = (bool(entry.get(key)) for key in ("late", "optional", "state"))
        return cls(name, dtype, shape, late, optional, entry.get("sizes"), state)


def returned(results: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """What a caller gets of what a library gives: lists of sizes are put to use, not returned."""
    lists = {spec.sizes for spec in results}
    return tuple(
        spec if spec.sizes is None else replace(spec, shape=())
        for number, spec in enumerate(results)
        if number not in lists
    )


_BINARY: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def _broadcast(sizes: list[int]) -> int:
    """The first size that is not 1."""
    return next((size for size in sizes if size != 1), 1)


_FUNCTIONS: Final[Mapping[str, Callable[[list[int]], int]]] = {
    "max": max,
    "min": min,
    "broadcast": _broadcast,
}


class Formula:
    """An expression of symbols: sums, products, floor quotients, remainders, max, min and broadcast
    of whole numbers.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
            self.symbols = frozenset(_names(self._tree))
        except (SyntaxError, ValueError, RecursionError) as error:
            raise CompiledModelError(
                f"the size {text!r} is not an expression that is known here"
            ) from error

    def __call__(self, values: Mapping[str, int]) -> int:
        """Its number under these values; ZeroDivisionError where it has none."""
        return _evaluate(self._tree, values)

    def solve(self, size: int, symbol: str, values: Mapping[str, int]) -> int | None:
        """The value of `symbol` that makes this formula `size`, the others being given; None when
        there is none.

        Finds it where the formula is linear in the symbol.
        """
        try:
            at_zero, at_one = (self({**values, symbol: i}) for i in (0, 1))
            if at_one == at_zero:
                return None
            value = (size - at_zero) // (at_one - at_zero)
            return value if value >= 0 and self({**values, symbol: value}) == size else None
        except ZeroDivisionError:
            return None


def _names(tree: ast.expr) -> list[str]:
    """The symbols of an expression; ValueError for anything that `_evaluate` does not know."""
    match tree:
        case ast.Constant(value=int()):
            return []
        case ast.Name(id=name):
            return [name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _names(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _names(left) + _names(right)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if (
            name in _FUNCTIONS and args
        ):
            return [symbol for arg in args for symbol in _names(arg)]
    raise ValueError(f"{type(tree).__name__} has no meaning in a size")


def _evaluate(tree: ast.expr, values: Mapping[str, int]) -> int:
    match tree:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return values[name]
        case ast.UnaryOp(operand=operand):
            return -_evaluate(operand, values)
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_evaluate(left, values), _evaluate(right, values))
        case ast.Call(func=ast.Name(id=name), args=args):
            return _FUNCTIONS[name]([_evaluate(arg, values) for arg in args])
    raise AssertionError("Formula accepts no other expression")


class ShapeBinder:
    """Finds the values of a model's symbols from the shapes of its inputs, and checks every
    size.
    """

    def __init__(self, inputs: Sequence[TensorSpec], symbols: Sequence[str]) -> None:
        self.inputs = tuple(inputs)
        self.symbols = tuple(symbols)
        texts = {size for spec in inputs for size in spec.shape if isinstance(size, str)} - set(
            symbols
        )
        self._formulas = {text: Formula(text) for text in sorted(texts)}
        visible = {size for spec in inputs for size in spec.shape if size in symbols}
        visible |= {symbol for formula in self._formulas.values() for symbol in formula.symbols}
        if unknown := sorted(visible ^ set(symbols)):
            raise CompiledModelError(
                f"no input shape and list of dynamic axes agree on {', '.join(map(str, unknown))}"
            )

    def bind(self, shapes: Sequence[tuple[int, ...]]) -> list[int]:
        """The values of `symbols`, in their order, for inputs of these shapes; InputError where
        they do not fit.
        """
        values: dict[str, int] = {}
        origin: dict[str, str] = {}
        later: list[tuple[TensorSpec, int, int, Formula]] = []
        for spec, shape in zip(self.inputs, shapes):
            if len(shape) != len(spec.shape):
                raise _misfit(
                    spec,
                    shape,
                    f"{_count(len(shape), 'axis', 'axes')} instead of {len(spec.shape)}",
                )
            for axis, (size, expected) in enumerate(zip(shape, spec.shape)):
                if isinstance(expected, int):
                    if size != expected:
                        raise _misfit(
                            spec, shape, f"size {size} instead of {expected} at axis {axis}"
                        )
                elif expected in self._formulas:
                    later.append((spec, axis, size, self._formulas[expected]))
                elif values.setdefault(expected, size) != size:
                    first = values[expected]
                    raise InputError(
                        f"{expected} is {first} in {origin[expected]} but {size} in {spec.name}",
                        hint=_expected(self.inputs),
                    )
                else:
                    origin.setdefault(expected, spec.name)
        self._bind_formulas(values, later)
        return [values[symbol] for symbol in self.symbols]

    def _bind_formulas(
        self, values: dict[str, int], later: list[tuple[TensorSpec, int, int, Formula]]
    ) -> None:
        """Check every size that is a formula; a formula with one unknown symbol gives its value."""
        waiting = later
        while waiting:
            open_formulas = []
            for spec, axis, size, formula in waiting:
                unknown = formula.symbols - values.keys()
                if len(unknown) > 1:
                    open_formulas.append((spec, axis, size, formula))
                    continue
                if unknown:
                    (symbol,) = unknown
                    solution = formula.solve(size, symbol, values)
                    if solution is not None:
                        values[symbol] = solution
                if not _holds(formula, size, values):
                    sizes = ", ".join(
                        f"{name} = {values[name]}"
                        for name in sorted(formula.symbols & values.keys())
                    )
                    raise InputError(
                        f"{spec.name} has size {size} at axis {axis}, which is not {formula.text}"
                        + (
                            f" with {sizes}"
                            if sizes
                            else f" for any {', '.join(sorted(formula.symbols))}"
                        ),
                        hint=_expected(self.inputs),
                    )
            if len(open_formulas) == len(waiting):
                formula = waiting[0][3]
                raise InputError(
                    "the sizes of the inputs do not tell the values of "
                    f"{', '.join(sorted(formula.symbols))}",
                    hint=_expected(self.inputs),
                )
            waiting = open_formulas


def _holds(formula: Formula, size: int, values: Mapping[str, int]) -> bool:
    if formula.symbols - values.keys():
        return False
    try:
        return formula(values) == size
    except ZeroDivisionError:
        return False


def _misfit(spec: TensorSpec, shape: tuple[int, ...], what: str) -> InputError:
    return InputError(
        f"the input {spec.name} has {what}",
        hint=f"the model takes {spec}, and the array's shape is {list(shape)}",
    )


def _expected(inputs: Sequence[TensorSpec]) -> str:
    return f"the model takes {', '.join(map(str, inputs))}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
