"""Integers, booleans and conversions among all types, compiled, against `eval`."""

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import infuse
from infuse import dtypes, ops
from infuse.build.compile import compile_graph
from infuse.dtypes import DType
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Elementwise
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.testing.samples import Row
from tests.native.builder import Builder
from tests.native.op_cases import ALL_FLOATS, OPS, SIGNED, UNSIGNED, Case, check, refusal


def edges(dtype: DType) -> Any:
    """Numbers of a type where something may go wrong."""
    if dtype.is_bool:
        return np.array([False, True, True, False, True, False, True, True])
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        return np.array(
            [limits.min, limits.max, limits.max - 1, limits.min + 1, 0, 1, 3, 100], dtype.numpy
        )
    largest = float(ml_dtypes.finfo(dtype.numpy).max)  # type: ignore[no-untyped-call]
    numbers = [
        0.0,
        -0.0,
        1.5,
        2.5,
        -1.5,
        -0.4,
        100.0,
        127.0,
        3e4,
        largest,
        -largest,
        np.inf,
        np.nan,
    ]
    return np.array(numbers).astype(dtype.numpy)


def numeric(kind: str, *arrays: Any, **attributes: Any) -> Case:
    op = ops.REGISTRY["", kind]
    held = tuple(
        kind not in ELEMENTWISE and a.dtype == np.int64 and i > 0 for i, a in enumerate(arrays)
    )
    return Case(Row(op(**attributes), arrays, (False,) * len(arrays)), held, 1)


ELEMENTWISE = {op.name for op in OPS if issubclass(op, Elementwise)}
ARITHMETIC = ("Add", "Sub", "Mul", "Min", "Max", "Equal", "Less", "GreaterOrEqual")
BITS = ("BitwiseAnd", "BitwiseOr", "BitwiseXor")


def integer_cases(dtype: DType) -> Iterator[Case]:
    """Overflow, division and movement of integers of one type."""
    x = edges(dtype)
    y = np.roll(x, 3)
    yield from (numeric(kind, x, y) for kind in (*ARITHMETIC, *BITS))
    divisor = np.where(y == 0, 1, y).astype(x.dtype)
    whole = np.where(x == np.iinfo(x.dtype).min, 1, x).astype(x.dtype)
    yield from (
        numeric(kind, whole, divisor, **more)
        for kind, more in (("Div", {}), ("Mod", {}), ("Mod", {"fmod": 1}))
    )
    yield from (
        numeric(kind, x)
        for kind in ("Abs", "Neg", "Sign", "BitwiseNot")
        if dtype.is_signed or kind != "Neg"
    )
    yield numeric("Where", x > 1, x, y)
    yield numeric("Clip", x, x.dtype.type(1), x.dtype.type(50))
    if not dtype.is_signed:
        shifts = np.array([0, 1, 7, 8, 31, 32, 63, 64], x.dtype)
        yield from (numeric("BitShift", x, shifts, direction=way) for way in ("LEFT", "RIGHT"))
    square, axes = x.reshape(2, 4), np.array([1])
    for kind in ("Sum", "Prod", "Max", "Min", "SumSquare", "L1"):
        yield numeric(f"Reduce{kind}", square, axes)
    yield numeric("CumSum", square, np.array(1))
    yield numeric("MatMul", square, square.T.copy())


def moved(x: Any) -> Iterator[Case]:
    """Movement of elements of any type."""
    square = x[:8].reshape(2, 4)
    yield numeric("Transpose", square, perm=(1, 0))
    yield numeric(
        "Slice", square, np.array([0, -1]), np.array([2, -9]), np.array([0, 1]), np.array([1, -2])
    )
    yield numeric("Pad", square, np.array([1, 0, 0, -1]))
    yield numeric("Pad", square, np.array([0, 2, 1, 1]), mode="reflect")
    yield numeric("Tile", square, np.array([2, 3]))
    yield numeric("Expand", square[:, :1].copy(), np.array([3, 2, 4]))
    yield numeric("Gather", square, np.array([[3, -1]]), axis=1)
    yield numeric("GatherElements", square, np.array([[0, -1, 2, 0]]), axis=1)
    yield numeric("Trilu", square)


def ordered(x: Any) -> Iterator[Case]:
    """Comparison and scattering of numbers."""
    square = x[:8].reshape(2, 4)
    yield numeric("ScatterElements", square, np.array([[1, 0, 1, -1]]), square[:1].copy(), axis=0)
    yield numeric("TopK", square, np.array([2]))
    yield numeric("ArgMax", square, axis=1)
    yield numeric("ArgMin", square, axis=0)


def test_integers_wrap_and_move() -> None:
    few = (dtypes.int8, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.uint64)
    chosen = [case for dtype in few for case in integer_cases(dtype)]
    chosen += [
        case
        for dtype in (*SIGNED, *UNSIGNED, *ALL_FLOATS, dtypes.bool_)
        for case in moved(edges(dtype))
    ]
    chosen += [
        case for dtype in (*few, dtypes.float64, dtypes.float16) for case in ordered(edges(dtype))
    ]
    assert not [case for case in chosen if refusal(case)]
    check(chosen)


def held_by(x: Any, dtype: DType) -> Any:
    """The elements whose whole part an integer type holds; all for other types."""
    if not dtype.is_integer or not dtypes.by_numpy(x.dtype).is_float:
        return x
    limits, whole = np.iinfo(dtype.numpy), np.trunc(x.astype(np.float64))
    return x[(whole >= float(limits.min)) & (whole < float(limits.max))]


def test_casts_among_all_types() -> None:
    kinds = (*SIGNED, *UNSIGNED, *ALL_FLOATS, dtypes.bool_)
    with np.errstate(all="ignore"):
        check(
            [
                numeric("Cast", held_by(edges(a), b), to=b)
                for a, b in itertools.product(kinds, kinds)
                if a != b
            ]
        )


def test_floats_that_no_integer_holds() -> None:
    """NumPy's results vary with the place in the array; these are those of x86's instructions."""
    x = np.float32([3e9, -3e9, 1e20, -1e20, np.inf, np.nan])
    least = {d: int(np.iinfo(d.numpy).min) for d in SIGNED}
    expected = {
        dtypes.int64: [3 * 10**9, -3 * 10**9, *[least[dtypes.int64]] * 4],
        dtypes.int32: [least[dtypes.int32]] * 6,
        dtypes.int8: [0] * 6,
        dtypes.uint32: [3 * 10**9, 2**32 - 3 * 10**9, 0, 0, 0, 0],
        dtypes.uint64: [3 * 10**9, 2**64 - 3 * 10**9, *[2**63] * 4],
    }
    graph = Graph("casts")
    given = graph.add_input("x", TensorType(dtypes.float32, (6,)))
    for dtype in expected:
        node = graph.add_node(
            Node(ops.conversion.Cast(dtype), [given], [Value(TensorType(dtype, (6,)))])
        )
        graph.add_output(node.output, dtype.name)
    with compile_graph(graph, CompileOptions(threads=1)) as model:
        found = model.run({"x": x})
    assert {d: found[d.name].tolist() for d in expected} == expected


@pytest.mark.parametrize("dtype", [dtypes.int64, dtypes.uint64], ids=str)
def test_means_of_long_integers_keep_all_digits(dtype: DType) -> None:
    """Against Python's integers; ONNX Runtime adds in float64."""
    rows = [(2**62 + 1, 2**62 - 2), (2**53 + 1, 2**53 + 1), (7, 0)]
    rows += [(2**63 + 1, 2**63 - 2)] if dtype == dtypes.uint64 else [(-7, 0), (-(2**62) - 1, 0)]
    g = Builder()
    x = g.input(len(rows), 2, dtype=dtype)
    g.output(g("ReduceMean", x, [1], keepdims=0))
    fed = {x.name: np.array(rows, dtype.numpy)}
    right = [int(Fraction(sum(row), 2)) for row in rows]
    assert evaluate(g.graph, fed)["y0"].tolist() == right
    with infuse.compile(g.graph, infuse.CompileOptions(threads=1)) as model:
        assert model.run(fed)["y0"].tolist() == right
