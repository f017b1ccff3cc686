"""How far the nodes that an exporter wrote for a call are from the call, on numbers of trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final

import numpy as np

from infuse.doctor.retrace import WrittenCall, retraced, written_calls
from infuse.dtypes import DType, is_half
from infuse.errors import InfuseError
from infuse.ir import dims
from infuse.ir.clone import clone_nodes
from infuse.ir.graph import Array, Graph, Value
from infuse.ir.types import TensorType
from infuse.ops.core.evaluate import evaluate
from infuse.ops.core.feeds import drawing_nodes, random_array
from infuse.ops.core.inference import symbols_of

_SIZE: Final = 3
"""Symbolic sizes."""
_LARGEST: Final = 1 << 20
"""Elements of an operand from which on nothing is computed."""
_TENTHS: Final = tuple(number / 10 for number in range(-30, 31))
_SPECIAL: Final = (0.0, -0.0, 1.0, -1.0, 0.5, 20.0, -20.0, 120.0, -120.0, np.inf, -np.inf, np.nan)
_SIZES: Final = "sym_"
"""How names of sizes begin in exported programs."""
ORDINARY: Final = (0, 2, 5, 8)
"""Trials of normal numbers, and of tenths."""
SPECIAL: Final = (1, 4, 7)
EVERY: Final = tuple(range(12))


@dataclass(frozen=True)
class DifferingCall:
    """A call whose nodes gave other numbers in a trial: how far over the largest right result,
    infinite where one of two is no number. `special`: only for special numbers.
    """

    node: str
    target: str
    line: str
    difference: float
    special: bool


@dataclass(frozen=True)
class CallReport:
    """All recorded calls of a file: how many agree, which do not, and why others were not
    compared.
    """

    agree: int
    differ: Sequence[DifferingCall]
    not_compared: Counter[str] = field(default_factory=Counter)


def compare_calls(graph: Graph) -> CallReport:
    """Trace every recorded call of a graph again, and compare it with the file's nodes."""
    agree, differ, left = 0, [], Counter[str]()
    for written in written_calls(graph):
        try:
            seen = _compared(written)
        except InfuseError as error:
            left[error.what] += 1
            continue
        if seen is None:
            agree += 1
        else:
            differ.append(seen)
    return CallReport(agree, differ, left)


def _compared(written: WrittenCall) -> DifferingCall | None:
    if any(name.startswith(_SIZES) for name in written.call.references):
        raise InfuseError("it reads sizes")
    meaning, values = retraced(written)
    if any(drawing_nodes(meaning)):
        raise InfuseError("its results are drawn")
    special = False
    apart = difference(written, meaning, values, ORDINARY)
    if apart is None:
        raise InfuseError("it cannot be run by itself")
    if apart <= _tolerance(written.result.dtype):
        apart, special = difference(written, meaning, values, SPECIAL) or 0.0, True
    if apart <= _tolerance(written.result.dtype):
        return None
    last = written.nodes[-1]
    return DifferingCall(last.name, written.call.target, written.call.line, apart, special)


def _tolerance(dtype: DType) -> float:
    return 0.0 if not dtype.is_float else 0.03 if is_half(dtype) else 1e-4


def difference(
    written: WrittenCall, meaning: Graph, reads: Sequence[Value], trials: Sequence[int] = EVERY
) -> float | None:
    """How far the file's nodes are from the call: the largest difference over the largest right
    result, infinite where one of two is no number; None where they cannot be run by themselves.
    """
    alone = _alone(written, reads)
    worst: float | None = None
    for number in trials:
        feeds = _feeds(meaning, number)
        if feeds is None:
            continue
        try:
            with np.errstate(all="ignore"):
                file, right = (evaluate(graph, feeds)["result"] for graph in (alone, meaning))
        except InfuseError:
            continue
        worst = max(worst or 0.0, _distance(file, right))
    return worst


def _alone(written: WrittenCall, reads: Sequence[Value]) -> Graph:
    """The nodes of the file as a graph with the inputs of the other."""
    graph = Graph("file")
    values: dict[Value, Value] = {}
    for number, value in enumerate(dict.fromkeys((*reads, *written.reads))):
        values[value] = graph.add_input(f"x{number}", value.type)
    for node in clone_nodes(written.nodes, values):
        graph.add_node(node)
    graph.add_output(values[written.result], "result")
    return graph


def _feeds(graph: Graph, number: int) -> dict[str, Array] | None:
    rng = np.random.default_rng(number)
    feeds = {}
    for value in graph.inputs:
        if not isinstance(value.type, TensorType) or value.type.shape is None:
            return None
        symbols = dict.fromkeys(symbols_of(value.type), _SIZE)
        sizes = [dims.substitute(d, symbols) for d in value.type.shape]
        shape = [d for d in sizes if isinstance(d, int)]
        if len(shape) < len(sizes) or prod(shape) > _LARGEST:
            return None
        try:
            array = random_array(value.name, value.dtype.numpy, shape, rng)
        except InfuseError:
            return None
        if value.dtype.is_float and number % 3:
            pool = _SPECIAL if number % 3 == 1 else _TENTHS
            array = np.resize(rng.permutation(pool), array.shape).astype(array.dtype)
        elif value.dtype.is_bool:
            array = rng.random(array.shape) < 0.5
        feeds[value.name] = array
    return feeds


def _distance(file: Array, right: Array) -> float:
    if file.shape != right.shape or file.dtype.kind not in "fiub":
        return np.inf
    a, b = (np.asarray(each, np.float64) for each in (file, right))
    apart = ~((a == b) | (np.isnan(a) & np.isnan(b)))
    if not apart.any():
        return 0.0
    if not np.isfinite([a[apart], b[apart]]).all():
        return np.inf
    scale = np.abs(b[np.isfinite(b)]).max(initial=0.0)
    return float(np.abs(a[apart] - b[apart]).max() / scale) if scale else np.inf
