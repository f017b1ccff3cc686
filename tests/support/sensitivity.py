"""How far rounding may move a result: a network run again with every rounded value moved by its
last bits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from infuse import dtypes
from infuse.errors import InfuseError
from infuse.ir.graph import Array, Graph, Node, Value
from infuse.ops.core.base import Op
from infuse.testing.compare import spacing
from infuse.testing.running import Change, Read, run_graph

RUNS = 8
"""Noisy runs that are compared with each other."""
LEEWAY = 16
"""How many times the spread of the noisy runs a result may be off."""
ULP = 4
"""Units in the last place that a result may be off in any case, where roundings differ."""
ROUNDED = frozenset(
    {
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Sqrt",
        "Mod",
        "Cast",
        "CastLike",
        "Range",
        "PRelu",
        "Clip",
        "Max",
        "Min",
    }
)
"""Operators that are exact as such, and yet round their results where they are written in another
way.
"""

Feeds = Mapping[str, Any]


class Judge:
    """Holds other results of a graph on some inputs against its own.

    `rewritten` tells that operators may have been replaced by others that round differently: then
    every float may have moved. Otherwise only those may that operators make which are not exact
    themselves (NumPy's sums depend on how arrays lie in memory), and a network of exact operators
    has to give the same bits.
    """

    def __init__(
        self, graph: Graph, feeds: Feeds, expected: Mapping[str, Any], *, rewritten: bool
    ) -> None:
        self.graph, self.feeds, self.expected, self.rewritten = graph, feeds, expected, rewritten
        self._nearby: list[list[Any]] | None = None
        self._wide: list[Any] | None = None

    def complaint(
        self, results: Mapping[str, Any], names: Collection[str] | None = None
    ) -> str | None:
        """What is wrong with these results (only with those of these names), None when nothing
        is.
        """
        for index, name in enumerate(self.graph.output_names):
            if names is not None and name not in names:
                continue
            wrong = self._difference(index, results[name], self.expected[name])
            if wrong is not None:
                return f"output {name}: {wrong}"
        return None

    def _difference(self, index: int, result: Any, expected: Any) -> str | None:
        if isinstance(expected, (list, type(None))) or isinstance(result, (list, type(None))):
            return self._list_difference(index, result, expected)
        result, expected = np.asarray(result), np.asarray(expected)
        if result.dtype != expected.dtype:
            return f"{result.dtype} in place of {expected.dtype}"
        if result.shape == expected.shape and same(result, expected):
            return None
        nearby = [np.asarray(run[index]) for run in self.nearby()]
        if result.shape != expected.shape:
            unstable = any(n.shape != expected.shape for n in nearby)
            return None if unstable else f"shape {result.shape} in place of {expected.shape}"
        wrong = self._wrong(index, result, expected, nearby)
        if not wrong.any():
            return None
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        near = ", ".join(str(n[place]) for n in nearby[:3] if n.shape == expected.shape)
        count = f"{int(wrong.sum())} of {wrong.size} elements differ"
        return (
            f"{count}, first at {list(place)}: {result[place]} in place of {expected[place]} (with "
            f"noise: {near})"
        )

    def _list_difference(self, index: int, result: Any, expected: Any) -> str | None:
        if type(result) is not type(expected):
            return f"{type(result).__name__} in place of {type(expected).__name__}"
        if expected is None:
            return None
        if len(result) != len(expected):
            return f"{len(result)} elements in place of {len(expected)}"
        if any(isinstance(part, dict) for part in expected):
            return (
                None
                if all(a.keys() == b.keys() for a, b in zip(result, expected))
                else "keys of maps differ"
            )
        pairs = zip(result, expected)
        exact = all(a.dtype == b.dtype and a.shape == b.shape and same(a, b) for a, b in pairs)
        near = all(
            a.shape == b.shape and np.allclose(a, b, 1e-3, 1e-3, equal_nan=True)
            for a, b in zip(result, expected)
        )
        return None if exact or near else "elements of the sequence differ"

    def _wrong(self, index: int, result: Array, expected: Array, nearby: Sequence[Array]) -> Any:
        fitting = [n for n in nearby if n.shape == expected.shape]
        unstable = len(fitting) < len(nearby)
        if not dtypes.by_numpy(expected.dtype).is_float:
            moved = unstable or any(not same(n, expected) for n in fitting)
            return np.zeros(expected.shape, bool) if moved else np.asarray(result != expected)
        with np.errstate(all="ignore"):
            wide, exact = result.astype(np.float64), expected.astype(np.float64)
            near = [n.astype(np.float64) for n in fitting]
            spread = (
                np.max([np.abs(n - exact) for n in near], axis=0, initial=0.0) if near else np.inf
            )
            units = ULP * spacing(exact, expected.dtype) if self.rewritten else 0.0
            close = np.abs(wide - exact) <= LEEWAY * spread + units
            fine = (wide == exact) | (np.isnan(wide) & np.isnan(exact)) | close
            for n in near:  # what noise makes finite or infinite is anybody's guess
                fine |= np.isfinite(n) != np.isfinite(exact)
            if not fine.all() and self.rewritten:
                fine |= self._as_meant(index, wide, exact, expected.dtype)
        return ~fine & (not unstable)

    def _as_meant(self, index: int, result: Array, exact: Array, dtype: Any) -> Any:
        """Where the graph overflows on its way and the result found is what more digits give."""
        if self._wide is None:
            self._wide = run_wide(self.graph, self.feeds)
        meant = np.asarray(self._wide[index], dtype=np.float64) if self._wide else None
        if meant is None or meant.shape != exact.shape:
            return np.zeros(exact.shape, bool)
        limits: Any = ml_dtypes.finfo(np.dtype(dtype))  # type: ignore[no-untyped-call]
        allowed = 64 * float(limits.eps) * np.abs(meant) + 4 * float(limits.smallest_subnormal)
        return ~np.isfinite(exact) & (np.abs(result - meant) <= allowed)

    def nearby(self) -> list[list[Any]]:
        """The outputs of noisy runs."""
        if self._nearby is None:
            self._nearby = [
                run_noisy(self.graph, self.feeds, seed, self.rewritten) for seed in range(RUNS)
            ]
        return self._nearby


def same(a: Array, b: Array) -> bool:
    """Whether two arrays are equal, NaN with NaN, and zeros of either sign."""
    if a.dtype.kind in "OUSbiu":
        return bool(np.array_equal(a, b))
    with np.errstate(all="ignore"):
        equal = np.equal(a, b)
        return bool(np.all(equal | ((a != a) & (b != b))))


def run_noisy(graph: Graph, feeds: Feeds, seed: int, everywhere: bool) -> list[Any]:
    """The outputs with floats moved by up to two units in the last place: before and after every
    operator that rounds, and with `everywhere` after those that round when written otherwise, in
    inputs and in constants.
    """
    rng = np.random.default_rng(seed)
    constants: dict[Value, Any] = {}

    def moved(x: Any) -> Any:
        if isinstance(x, list):
            return [moved(one) for one in x]
        if (
            not isinstance(x, np.ndarray)
            or x.dtype.kind in "OUSbiuc"
            or not dtypes.by_numpy(x.dtype).is_float
        ):
            return x
        limits: Any = ml_dtypes.finfo(x.dtype)  # type: ignore[no-untyped-call]
        with np.errstate(all="ignore"):
            factor = 1 + rng.uniform(-2, 2, x.shape) * float(limits.eps)
            return np.where(x == 0, x, (x.astype(np.float64) * factor)).astype(x.dtype)

    def outer(value: Value) -> Any:
        if value not in constants:
            constants[value] = moved(value.const) if everywhere else value.const
        return constants[value]

    def change(node: Node, results: Sequence[Any]) -> Sequence[Any]:
        return [moved(r) for r in results] if rounds(node, everywhere) else results

    def before(node: Node, operands: Sequence[Any]) -> Sequence[Any]:
        return [moved(x) for x in operands] if rounds(node, False) else operands

    arguments = [moved(feeds[v.name]) if everywhere else feeds[v.name] for v in graph.inputs]
    return _run(graph, arguments, outer, change, before) or [None] * len(graph.outputs)


def run_wide(graph: Graph, feeds: Feeds) -> list[Any] | None:
    """The outputs computed in float64 throughout; None where an operator does not take that."""

    def wide(x: Any) -> Any:
        narrow = (
            isinstance(x, np.ndarray)
            and x.dtype.kind not in "OUSbiuc"
            and dtypes.by_numpy(x.dtype).is_float
        )
        return x.astype(np.float64) if narrow else x

    arguments = [wide(feeds[v.name]) for v in graph.inputs]
    return _run(
        graph, arguments, lambda v: wide(v.const), lambda node, results: [wide(r) for r in results]
    )


def _run(
    graph: Graph,
    arguments: Sequence[Any],
    outer: Read,
    change: Change,
    before: Change | None = None,
) -> list[Any] | None:
    try:
        return run_graph(graph, arguments, outer, change, before)
    except InfuseError:  # an index or a size that depends on floats
        return None


def rounds(node: Node, everywhere: bool) -> bool:
    """Whether the results of a node are rounded; with `everywhere`, also those that are when
    written otherwise.
    """
    if not isinstance(node.op, Op):
        return False
    accuracy = node.op.accuracy
    return accuracy.ulp > 0 or accuracy.abs > 0 or (everywhere and node.kind in ROUNDED)
