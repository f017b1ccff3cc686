"""Whether an optimized graph computes what the original computes, on random inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.cli.inputs import index_limits, random_inputs, sizes
from infuse.cli.models import is_runnable, specs_of
from infuse.errors import InfuseError, VerificationError
from infuse.ir import dims
from infuse.ir.graph import Array, Graph, Node, Value
from infuse.ops.base import Op
from infuse.ops.evaluate import evaluate

LIMIT = 10**10
"""Multiplications up to which a model is evaluated in NumPy without being asked to: some seconds."""
TOLERANCES: Mapping[int, float] = {64: 1e-8, 32: 1e-4, 16: 2e-2}
"""Largest difference allowed by bits of a float, in parts of the largest element of the output."""


@dataclass(frozen=True)
class Verdict:
    """What the comparison found: the largest difference relative to the output's largest element, or why there is
    none.
    """

    checked: bool
    difference: float | None = None
    sizes: Mapping[str, int] | None = None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        if not self.checked:
            return f"not verified: {self.reason}"
        at = ", ".join(f"{name} = {size}" for name, size in (self.sizes or {}).items())
        same = "same result" if not self.difference else f"largest difference {self.difference:.1e} of the output"
        return f"verified on random inputs{f' with {at}' if at else ''}: {same}"


def verify(original: Graph, optimized: Graph, *, at_any_cost: bool, given: Mapping[str, int], seed: int = 0) -> Verdict:
    """Evaluate both graphs in NumPy on the same random inputs.

    VerificationError when they differ by more than `TOLERANCES`. Models of more than `LIMIT` multiplications are
    left out unless `at_any_cost`, as are those that the interpreter cannot evaluate.
    """
    if not is_runnable(original):
        return Verdict(False, reason="an input is a sequence, or its rank is not known")
    if drawing := next(_drawing(original), None):
        return Verdict(False, reason=f"{drawing.kind} node {drawing.name!r} draws random numbers")
    specs = specs_of(original)
    values = sizes(specs, given)
    work = multiplications(original, values)
    if work > LIMIT and not at_any_cost:
        return Verdict(False, reason=f"it takes {work:.1e} multiplications in NumPy; --verify does it all the same")
    feeds = random_inputs(specs, values, seed, index_limits(original))
    try:
        expected = evaluate(original, feeds)
    except InfuseError as error:
        return Verdict(False, sizes=values, reason=f"the original cannot be evaluated on random inputs: {error}")
    try:
        found = evaluate(optimized, feeds)
    except InfuseError as error:
        raise VerificationError(f"the optimized model cannot be evaluated: {error}", hint=_ADVICE) from error
    worst = max((_checked(name, found[name], array) for name, array in expected.items()), default=0.0)
    return Verdict(True, worst, values)


_ADVICE = "leave rules out with --disable to find the guilty one, and report it"


def _drawing(graph: Graph) -> Iterator[Node]:
    """Nodes whose result is another one each time."""
    for inner in graph.all_graphs():
        yield from (n for n in inner.unordered_nodes if isinstance(n.op, Op) and not n.op.deterministic)


def _checked(name: str, found: Any, expected: Any) -> float:
    error = relative_difference(found, expected)
    bits = expected.dtype.itemsize * 8 if isinstance(expected, np.ndarray) else 32
    if error > TOLERANCES.get(max(bits, 16), 0.0):
        raise VerificationError(
            f"after optimization, output {name!r} differs by {error:.1e} of its largest element", hint=_ADVICE
        )
    return error


def relative_difference(found: Any, expected: Any) -> float:
    """Largest |found − expected| over the largest |expected|; infinite where shapes, types or special values differ,
    and where elements that are no floats are not equal.
    """
    if isinstance(expected, (list, tuple)):
        if not isinstance(found, (list, tuple)) or len(found) != len(expected):
            return math.inf
        return max((relative_difference(a, b) for a, b in zip(found, expected)), default=0.0)
    if expected is None or found is None:
        return 0.0 if found is expected else math.inf
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return math.inf
    if not dtypes.by_numpy(expected.dtype).is_float:
        return 0.0 if np.array_equal(found, expected) else math.inf
    return _float_difference(found.astype(np.float64), expected.astype(np.float64))


def _float_difference(found: Array, expected: Array) -> float:
    finite = np.isfinite(expected)
    if not np.array_equal(found[~finite], expected[~finite], equal_nan=True):
        return math.inf
    if not finite.any():
        return 0.0
    error = float(np.abs(found[finite] - expected[finite]).max())
    largest = float(np.abs(expected[finite]).max()) or 1.0
    return math.inf if math.isnan(error) else error / largest


def multiplications(graph: Graph, values: Mapping[str, int]) -> float:
    """Multiplications in the convolutions and matrix products of `graph`, as far as sizes are known."""
    return float(sum(_work(node, values) for inner in graph.all_graphs() for node in inner.unordered_nodes))


def _work(node: Node, values: Mapping[str, int]) -> int:
    if node.kind not in ("Conv", "ConvTranspose", "MatMul", "Gemm"):
        return 0
    first, second = node.input(0), node.input(1)
    if first is None or second is None:
        return 0
    if node.kind == "Conv":
        return _count(node.output, values) * (_count(second, values) // max(1, _sizes(second, values)[0]))
    if node.kind == "ConvTranspose":
        return _count(first, values) * (_count(second, values) // max(1, _sizes(second, values)[0]))
    across = _sizes(first, values)
    is_transposed = node.kind == "Gemm" and node.op.attributes()["transA"]
    return _count(node.output, values) * (across[0 if is_transposed else -1] if across else 1)


def _sizes(value: Value, values: Mapping[str, int]) -> list[int]:
    """The sizes of a value, 1 for those that are not known."""
    found = [dims.substitute(d, dict(values)) for d in value.tensor.shape or ()]
    return [d if isinstance(d, int) else 1 for d in found]


def _count(value: Value, values: Mapping[str, int]) -> int:
    return math.prod(_sizes(value, values))
