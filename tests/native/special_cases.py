"""Samples of the operator table with special values in place of their numbers, and what of a native
result is not as the interpreter has it.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np

from infuse import dtypes
from infuse.build.compile import compile_graph
from infuse.dtypes import DType
from infuse.errors import InfuseError
from infuse.ir.graph import Graph
from infuse.ops.core.base import Elementwise, Rounding
from infuse.options import CompileOptions
from infuse.testing.compare import difference
from infuse.testing.samples import Row, is_constant, results
from tests.native.op_cases import Case, members, plain_rows, refusal, widened

Generator = np.random.Generator
Filled = Callable[[np.ndarray, Generator], np.ndarray]


def _limits(x: np.ndarray) -> Any:
    return ml_dtypes.finfo(x.dtype)  # type: ignore[no-untyped-call]


def _among(*specials: float, share: float = 0.2) -> Filled:
    """The numbers with these among them: at least one."""

    def fill(x: np.ndarray, rng: Generator) -> np.ndarray:
        places = rng.random(x.shape) < share
        if x.size:
            places.flat[rng.integers(x.size)] = True
        return np.where(places, rng.choice(specials, x.shape).astype(x.dtype), x)

    return fill


def _only(*specials: float) -> Filled:
    return lambda x, rng: rng.choice(specials, x.shape).astype(x.dtype)


def _subnormal(x: np.ndarray, rng: Generator) -> np.ndarray:
    tiny = float(_limits(x).smallest_normal)
    return (rng.choice([1, -1, 0.25, -0.25, 0.01, 2], x.shape) * tiny).astype(x.dtype)


def _largest(x: np.ndarray, rng: Generator) -> np.ndarray:
    """One largest number, so that no sum depends on its order."""
    found = x.copy()
    if x.size:
        found.flat[rng.integers(x.size)] = float(_limits(x).max) * rng.choice([1, -1])
    return found


INF, NAN = np.inf, np.nan
KINDS: Final[dict[str, Filled]] = {
    "NaN among": _among(NAN),
    "infinities among": _among(INF, -INF),
    "one infinity among": _among(INF, share=0.05),
    "zeros among": _among(0.0, -0.0, share=0.5),
    "zeros": _only(0.0, -0.0),
    "negative zeros": _only(-0.0),
    "infinities": _only(INF, -INF),
    "NaN": _only(NAN),
    "subnormal numbers": _subnormal,
    "largest": _largest,
    "halves and large": _only(0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 88, -88, 100, -100, 1e4, -1e4),
    "all kinds": _only(NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 100, -100),
}
SIZES: Final = {"an empty axis": 0, "an axis of one element": 1}

ZEROS: Final = {
    **dict.fromkeys(
        ("ReduceMax", "ReduceMin", "GlobalMaxPool", "MaxPool", "MaxRoiPool", "RoiAlign"),
        "which of equal zeros is found first depends on the vectors, in NumPy too",
    ),
    **dict.fromkeys(("DFT", "STFT"), "how a transform is factored decides over signs of zeros"),
    "Resize": "sums of -0 begin with 0 or not",
    **dict.fromkeys(
        (
            *("GRU", "GroupQueryAttention", "LSTM", "LinearAttention", "Momentum", "RNN"),
            "SkipLayerNormalization",
        ),
        "numbers between are below the smallest normal one, or cancel to the last bit",
    ),
}
"""Operators of which zeros may have another sign, and why."""
NOT_FINITE: Final = {
    **dict.fromkeys(("DFT", "STFT"), "how a transform is factored decides where NaN and ∞ get to"),
    "Mean": "the sum is formed first, and may leave the type",
    "Det": "the order of an elimination decides whether infinities cancel",
    "ConvTranspose": "it runs as a convolution, among zeros of image and filters",
    "Einsum": "which sums are formed first decides whether infinities cancel",
    **dict.fromkeys(
        ("GRU", "LSTM", "LinearAttention"), "states are float32, in the interpreter float64"
    ),
    "MatMulNBits": "a weight of nothing may be off by a rounding, which infinities show",
    "MatMulBlocks": "what codes are counted from is summed apart, and infinities of both cancel",
    "PagedAttention": "values that a token does not see may meet a weight of nothing",
    "SwiGLU": "the sigmoid of -100 is below the smallest normal number",
}
"""Operators of which results may differ beside NaN and infinities, and why."""
NUMBERS: Final = {
    "LinearAttention": "states grow and cancel",
}
"""Operators of which single numbers may lie outside of the accuracy, and why."""
FILTERS: Final = {"Conv": 1}
"""The operand of which all numbers stay finite: whether those that are not meet the zeros around
the pixels depends on the kernel.
"""
STEEP: Final = ("Attention", "NegativeLogLikelihoodLoss")
"""Operators with exponentials of products, which numbers of 10⁴ round by more than 1, and quotients
of sums of such numbers that cancel.
"""
FEW_NORMAL: Final = (
    *("Adagrad", "Adam", "LpNormalization", "MeanVarianceNormalization", "Normalizer"),
)
"""Operators that divide by numbers of the size of their operands: where these are below the
smallest normal one, nothing can be said."""
OPERANDS: Final = 12
"""Shares of the largest element are those of the operands where no such result stands beside the
others: four times the numbers that samples are drawn from.
"""
WIDE: Final = ("elementwise", "movement", "quantization")
"""Groups whose operators do not go beyond the largest number while they compute."""


def valued(row: Row, kind: str, seed: int = 0) -> Row:
    """The row with other floats in place of those that are drawn by chance; integers of
    elementwise operators, which are no places, are at their limits.
    """
    fill = KINDS[kind]
    rng = np.random.default_rng([seed, zlib.crc32(f"{row} {kind}".encode())])
    divides = row.op.name in ("Div", "Mod")

    def other(x: Any, fixed: bool, is_filter: bool = False) -> Any:
        if isinstance(x, list):
            return [other(one, False) for one in x]
        if fixed or not isinstance(x, np.ndarray):
            return x
        dtype = dtypes.by_numpy(x.dtype)
        if dtype.is_float:
            filled = fill(x, rng)
            return np.where(np.isfinite(filled), filled, x) if is_filter else filled
        if dtype.is_integer and isinstance(row.op, Elementwise):
            ends = np.iinfo(x.dtype)
            numbers = [ends.min or 5, ends.max, ends.min + 1, ends.max - 1, int(divides), 1, 2, 3]
            return rng.choice(np.array(numbers, x.dtype), x.shape)
        return x

    filters = FILTERS.get(row.op.name)
    inputs = tuple(
        other(x, fixed, i == filters) for i, (x, fixed) in enumerate(zip(row.inputs, row.fixed))
    )
    return dataclasses.replace(row, inputs=inputs)


def resized(row: Row, size: int) -> Iterator[Row]:
    """The row with each of the sizes of its free inputs in turn replaced by `size`."""
    free = [
        isinstance(x, np.ndarray) and not fixed and x.dtype.kind in "fV"
        for x, fixed in zip(row.inputs, row.fixed)
    ]
    sizes = sorted({d for x, one in zip(row.inputs, free) if one for d in x.shape if d != size})
    for old in sizes:
        yield dataclasses.replace(
            row,
            inputs=tuple(
                np.resize(x, [size if d == old else d for d in x.shape]) if one else x
                for x, one in zip(row.inputs, free)
            ),
        )


def unlike(actual: Any, plain: Any, exact: Any, accuracy: Rounding) -> tuple[str, str] | None:
    """What of a native result is not as in the interpreter, and how, or None: NaN, infinities and
    the sign of zeros are compared; numbers may differ by the accuracy of the operator.
    """
    actual, plain = np.asarray(actual), np.asarray(plain)
    if actual.shape != plain.shape or actual.dtype != plain.dtype:
        return "type", f"is {actual.dtype}{actual.shape} and not {plain.dtype}{plain.shape}"
    kind = dtypes.by_numpy(plain.dtype).kind
    if kind != "f" or not plain.size:
        problem = difference(actual, plain, accuracy)
        return problem and ("number", problem)
    with np.errstate(all="ignore"):
        a, b = actual.astype(np.float64), plain.astype(np.float64)
    tiny = np.finfo(np.float64 if plain.dtype == np.float64 else np.float32).tiny
    known = ~(np.isnan(a) | np.isnan(b))
    checks = {
        "NaN": np.isnan(a) != np.isnan(b),
        "infinity": (np.isinf(a) | np.isinf(b)) & (a != b) & known,
        "zero": (a == 0) & (np.abs(b) < tiny) & (np.signbit(a) != np.signbit(b)),
    }
    for what, wrong in checks.items():
        if wrong.any():
            place = tuple(int(i) for i in np.argwhere(wrong)[0])
            return what, f"{wrong.sum()} of {wrong.size}, {a[place]} for {b[place]} at {place}"
    problem = difference(actual, plain, accuracy, flushed=True)
    if not problem or not difference(actual, exact, accuracy, flushed=True):
        return None
    with np.errstate(all="ignore"):
        worst = np.abs(a - b)[np.isfinite(a) & np.isfinite(b)].max(initial=0)
    return ("number", problem) if worst > OPERANDS * accuracy.abs else None


def allowed(op: str, kind: str, what: str) -> bool:
    """Whether a difference is one that docs/operators.md lists."""
    if kind == "subnormal numbers" and (what in ("number", "zero") or op in FEW_NORMAL):
        return True
    if kind == "halves and large" and what == "number" and op in STEEP:
        return True
    lists = {"zero": (ZEROS,), "NaN": (NOT_FINITE,), "infinity": (NOT_FINITE,)}
    return any(op in one for one in lists.get(what, (NUMBERS, NOT_FINITE)))


def compiled(batch: Sequence[Case]) -> tuple[Any, list[str]]:
    """One library of these cases, and the names of its inputs."""
    graph = Graph("special")
    for i, value in enumerate([v for case in batch for v in case.add_to(graph)]):
        graph.add_output(value, f"y{i}")
    return compile_graph(graph, CompileOptions(threads=1)), [v.name for v in graph.inputs]


def compared(batch: Sequence[Case], library: tuple[Any, list[str]], kind: str) -> Iterator[str]:
    """What of the native results of these cases is unlike the interpreter's, and not known."""
    model, names = library
    found = iter(model.run(dict(zip(names, [x for case in batch for x in case.fed()]))).values())
    for case in batch:
        plain, exact = results(case.row), results(widened(case.row))
        for number in range(case.outputs):
            problem = unlike(next(found), plain[number], exact[number], case.row.op.accuracy)
            if problem and not allowed(case.row.op.name, kind, problem[0]):
                yield f"{kind}: {case}, output {number}: {': '.join(problem)}"


def native(row: Row) -> Case | None:
    """The row as a case with all of its outputs, where native code has it."""
    elementwise = isinstance(row.op, Elementwise)
    held = tuple(is_constant(row, i) and not elementwise for i in range(len(row.inputs)))
    try:
        case = Case(row, held, len(results(row)))
        return case if refusal(case) is None else None
    except (InfuseError, ArithmeticError, LookupError, ValueError):
        return None


def first_two(chosen: Sequence[Case]) -> list[Case]:
    """The first two cases of each operator."""
    ops = [case.row.op.name for case in chosen]
    return [case for i, case in enumerate(chosen) if ops[:i].count(ops[i]) < 2]


def sweep(
    group: str, seeds: Sequence[int] = (0,), dtype: DType = dtypes.float32, full: bool = False
) -> list[str]:
    """What of a group's native results is unlike the interpreter's on special values and sizes."""
    rows = [row for op in members(group) for row in plain_rows(op, full)]
    if dtype != dtypes.float32:
        rows = [row.cast(dtype) for row in rows if row.has_random_floats]
    chosen = [case for row in rows if not all(row.fixed) and (case := native(row))]
    messages, library = [], compiled(chosen)
    for kind in KINDS:
        if kind == "largest" and group not in WIDE:
            continue
        for seed in seeds:
            batch = [dataclasses.replace(case, row=valued(case.row, kind, seed)) for case in chosen]
            messages += compared(batch, library, kind)
    for kind, size in SIZES.items():
        some = chosen if full else first_two(chosen)
        batch = [c for case in some for row in resized(case.row, size) if (c := native(row))]
        messages += compared(batch, compiled(batch), kind) if batch else []
    return messages
