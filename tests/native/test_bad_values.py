"""NaN, infinities and indices that lie outside, in native code: as NumPy has it, or an error; never
a crash.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
import onnxruntime
import pytest

from infuse import dtypes
from infuse.build.compile import compile_graph
from infuse.errors import InfuseError, RuntimeFailure
from infuse.exporters.onnx import to_model
from infuse.ir.graph import Graph, constant
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.runtime import CompiledModel
from tests.native.builder import Builder

NAN, INF = np.nan, np.inf
ROWS = np.array(
    [
        [1, 2, 3, 4, 5],
        [1, NAN, 3, 4, 5],
        [NAN, NAN, NAN, NAN, NAN],
        [1, INF, 3, 4, 5],
        [1, -INF, 3, 4, 5],
        [INF, -INF, 3, 4, 5],
        [INF, INF, INF, INF, INF],
        [-INF, -INF, -INF, -INF, -INF],
        [0, -0.0, 0, -0.0, 0],
        [NAN, INF, -INF, 0, 1],
    ]
)
"""Rows that are reduced one by one."""


def _log_sum_exp(x: Any) -> Any:
    most = x.max(axis=1)
    finite = np.where(np.isfinite(most), most, 0)
    return np.log(np.exp(x - finite[:, None]).sum(axis=1)) + finite


REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "ReduceSum": lambda x: x.sum(axis=1),
    "ReduceMean": lambda x: x.mean(axis=1),
    "ReduceMax": lambda x: x.max(axis=1),
    "ReduceMin": lambda x: x.min(axis=1),
    "ReduceProd": lambda x: x.prod(axis=1),
    "ReduceL1": lambda x: np.abs(x).sum(axis=1),
    "ReduceL2": lambda x: np.sqrt((x * x).sum(axis=1)),
    "ReduceSumSquare": lambda x: (x * x).sum(axis=1),
    "ReduceLogSum": lambda x: np.log(x.sum(axis=1)),
    "ReduceLogSumExp": _log_sum_exp,
    "ArgMax": lambda x: x.argmax(axis=1),
    "ArgMin": lambda x: x.argmin(axis=1),
}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Equal": np.equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Max": np.maximum,
    "Min": np.minimum,
}


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
def test_not_a_number_and_infinity(dtype: dtypes.DType) -> None:
    make = Builder()
    x = make.input(*ROWS.shape, dtype=dtype, name="x")
    y = make.input(*ROWS.shape, dtype=dtype, name="y")
    for kind in REDUCTIONS:
        axes = {"axis": 1} if kind.startswith("Arg") else {}
        operands = [x] if axes else [x, [1]]
        make.output(make(kind, *operands, **axes, keepdims=0))
    for kind in COMPARISONS:
        make.output(make(kind, x, y))
    make.output(make("IsNaN", x), make("IsInf", x))
    rows, other = ROWS.astype(dtype.numpy), ROWS[::-1].astype(dtype.numpy)
    with compile_graph(make.graph, CompileOptions(threads=1)) as model:
        found = model.run({"x": rows, "y": other}).values()
    with np.errstate(all="ignore"):
        wanted = [f(rows) for f in REDUCTIONS.values()] + [
            f(rows, other) for f in COMPARISONS.values()
        ]
    wanted += [np.isnan(rows), np.isinf(rows)]
    names = [*REDUCTIONS, *COMPARISONS, "IsNaN", "IsInf"]
    for name, actual, expected in zip(names, found, wanted, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-6, err_msg=name)


def test_the_largest_of_infinities() -> None:
    """NaN aside, which has no place in an order, the infinities are the ends of it."""
    make = Builder()
    x = make.input(3, 5, name="x")
    for largest in (0, 1):
        make.output(*make.several(2, "TopK", x, [3], largest=largest))
    rows = np.float32([[1, INF, 3, -INF, 5], [INF, INF, INF, INF, INF], [-INF, 0, -0.0, INF, -INF]])
    with compile_graph(make.graph, CompileOptions(threads=1)) as model:
        low, low_places, high, high_places = model.run({"x": rows}).values()
    for found, places, order in ((low, low_places, rows), (high, high_places, -rows)):
        chosen = np.argsort(order, axis=1, kind="stable")[:, :3]
        np.testing.assert_array_equal(places, chosen)
        np.testing.assert_array_equal(found, np.take_along_axis(rows, chosen, axis=1))


def test_statistics_that_are_no_numbers_warn_nobody() -> None:
    made = Builder()
    x = made.input(2, 3, 4)
    statistics = ([0, 1, 1], [0, 0, 0], [INF, 0, NAN], [1, -2, 1])
    y = made("BatchNormalization", x, *(constant(np.float32(s)) for s in statistics))
    made.output(y)
    feeds = {"x0": np.ones((2, 3, 4), np.float32)}
    result = compile_graph(made.graph).run(feeds)
    assert np.isnan(next(iter(result.values()))).all()


def test_sorting_rows_with_nan_ends() -> None:
    make = Builder()
    x = make.input(*ROWS.shape, name="x")
    make.output(*make.several(2, "TopK", x, [5]))
    with compile_graph(make.graph, CompileOptions(threads=1)) as model:
        values, places = model.run({"x": ROWS.astype(np.float32)}).values()
    np.testing.assert_array_equal(
        np.sort(places, axis=1), np.broadcast_to(np.arange(5), places.shape)
    )
    np.testing.assert_array_equal(
        values, np.take_along_axis(ROWS.astype(np.float32), places, axis=1)
    )


def _gather(make: Builder, x: Any, index: Any) -> Any:
    return make("Gather", x, index, axis=0)


def _elements(make: Builder, x: Any, index: Any) -> Any:
    return make("GatherElements", x, make("Reshape", index, [1, 1]), axis=0)


def _points(make: Builder, x: Any, index: Any) -> Any:
    return make("GatherND", x, make("Reshape", index, [1, 1]))


def _scatter_points(make: Builder, x: Any, index: Any) -> Any:
    return make(
        "ScatterND",
        x,
        make("Reshape", index, [1, 1]),
        make("ConstantOfShape", constant(np.array([1, 5]))),
    )


def _scatter_elements(make: Builder, x: Any, index: Any) -> Any:
    update = make("ConstantOfShape", constant(np.array([1, 1])))
    return make("ScatterElements", x, make("Reshape", index, [1, 1]), update, axis=0)


INDEXING = {
    "Gather": _gather,
    "GatherElements": _elements,
    "GatherND": _points,
    "ScatterND": _scatter_points,
    "ScatterElements": _scatter_elements,
}


@pytest.mark.parametrize("kind", INDEXING)
def test_an_index_outside_is_an_error(kind: str) -> None:
    make = Builder()
    x, index = make.input(10, 5, name="x"), make.input(1, dtype=dtypes.int64, name="index")
    make.output(INDEXING[kind](make, x, index))
    rows = ROWS.astype(np.float32)
    with compile_graph(make.graph, CompileOptions(threads=1)) as model:
        for good in (0, 9, -1, -10):
            model.run({"x": rows, "index": np.array([good])})
        for bad in (10, -11, 2**40, np.iinfo(np.int64).min):
            with pytest.raises(RuntimeFailure, match="index lies outside") as error:
                model.run({"x": rows, "index": np.array([bad])})
            assert kind in str(error.value)
            assert f": {bad} of 10 elements" in str(error.value)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_no_updates_leave_what_is_there(shape: tuple[int, int], axis: int) -> None:
    make = Builder()
    x = make.input("n", "m", name="x")
    index = make.input("rows", "columns", dtype=dtypes.int64, name="index")
    updates = make.input("rows", "columns", name="updates")
    make.output(make("ScatterElements", x, index, updates, axis=axis))
    rows = ROWS.astype(np.float32)
    with compile_graph(make.graph, CompileOptions(threads=1)) as model:
        feeds = {
            "x": rows,
            "index": np.zeros(shape, np.int64),
            "updates": np.zeros(shape, np.float32),
        }
        np.testing.assert_array_equal(model.run(feeds)["y0"], rows)


def test_pads_that_overflow_are_impossible() -> None:
    make = Builder()
    x, pads = make.input("n", "m", name="x"), make.input(4, dtype=dtypes.int64, name="pads")
    make.output(make("Pad", x, pads))
    far = np.iinfo(np.int64)
    with compile_graph(make.graph, CompileOptions(threads=1)) as model:
        assert model.run({"x": ROWS.astype(np.float32), "pads": np.array([1, 0, -2, 1])})[
            "y0"
        ].shape == (9, 6)
        for number in (far.max, far.min, far.max // 2 + 1):
            with pytest.raises(RuntimeFailure, match=r"impossible|memory"):
                model.run({"x": ROWS.astype(np.float32), "pads": np.full(4, number)})


@lru_cache
def padded(mode: str) -> tuple[Graph, CompiledModel]:
    """Padding of a vector by amounts that a run gives, and its compiled form."""
    b = Builder("pads")
    b.output(
        b("Pad", b.input("n", name="x"), b.input(2, name="pads", dtype=dtypes.int64), mode=mode)
    )
    return b.graph, compile_graph(b.graph, CompileOptions(threads=1))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize(
    ("size", "amounts", "works"),
    [
        *(
            (4, (-2, 3), True),
            (4, (3, -2), True),
            (1, (2, 0), True),
            (4, (-4, 0), True),
            (0, (0, 0), True),
        ),
        *(
            (1, (-2, 3), False),
            (1, (3, -2), False),
            (4, (-4, 2), None),
            (4, (2, -4), None),
            (0, (1, 1), None),
        ),
    ],
)
def test_pads_repeat_what_is_left(
    mode: str, size: int, amounts: tuple[int, int], works: bool | None
) -> None:
    """None: only where a constant is added."""
    graph, model = padded(mode)
    feeds = {"x": np.arange(size, dtype=np.float32), "pads": np.array(amounts)}
    if works or (works is None and mode == "constant"):
        (expected,) = evaluate(graph, feeds).values()
        np.testing.assert_array_equal(next(iter(model.run(feeds).values())), expected)
        if (
            mode != "reflect" and expected.size
        ):  # of the others, ONNX Runtime refuses some that mean something
            witness = onnxruntime.InferenceSession(to_model(graph).SerializeToString())
            np.testing.assert_array_equal(witness.run(None, feeds)[0], expected)
        return
    with pytest.raises(InfuseError):
        evaluate(graph, feeds)
    with pytest.raises(RuntimeFailure, match="impossible"):
        model.run(feeds)


def test_messages_hold_names_of_nodes_as_they_are() -> None:
    """Quotation marks, percent signs and letters of any alphabet; and limits as one would say
    them.
    """
    make = Builder()
    x = make.input("n", 5, name="x")
    ids, rest = (make.input("m", dtype=dtypes.int64, name=name) for name in ("ids", "rest"))
    picked = make("Gather", x, ids)
    name = 'layer "0"/it\'s 100 % {é}\\'
    make.graph.nodes[-1].name = name
    make.output(picked, make("Add", ids, rest))
    rows = ROWS.astype(np.float32)
    with compile_graph(make.graph, CompileOptions(threads=1)) as model:
        with pytest.raises(RuntimeFailure, match="index lies outside") as error:
            model.run({"x": rows, "ids": np.array([3, 77]), "rest": np.zeros(2, np.int64)})
        assert repr(name) in str(error.value)


def test_a_limit_of_a_size_is_told_as_one() -> None:
    make = Builder()
    table = make.weight(512, 4)
    ids = make.input("seq", dtype=dtypes.int64, name="ids")
    length = make("Shape", ids)
    part = make("Slice", table, [0], length, [0])
    make.output(make("Add", part, make("Gather", table, ids)))
    with compile_graph(make.graph, CompileOptions(threads=1)) as model:
        model.run({"ids": np.zeros(512, np.int64)})
        with pytest.raises(RuntimeFailure, match="needs seq <= 512"):
            model.run({"ids": np.zeros(513, np.int64)})


@pytest.mark.parametrize(
    "dtype", [dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.uint64, dtypes.int64], ids=str
)
def test_an_integer_divided_by_zero_is_an_error(dtype: dtypes.DType) -> None:
    """Also where the divisor is computed in the same pass; the compiled model and the interpreter
    agree.
    """
    limits = np.iinfo(dtype.numpy)
    a = np.array([5, limits.min, limits.max, 0], dtype.numpy)
    good, bad = np.array([2, 1, 7, 3], dtype.numpy), np.array([2, 1, 0, 3], dtype.numpy)
    for kind, options, exact in (
        ("Div", {}, lambda a, b: np.trunc(np.divide(a, b, dtype=np.longdouble))),
        ("Mod", {}, np.mod),
        ("Mod", {"fmod": 1}, np.fmod),
    ):
        make = Builder()
        x, y = make.input(4, dtype=dtype, name="x"), make.input(4, dtype=dtype, name="y")
        one = constant(np.ones((), dtype.numpy))
        make.output(make(kind, x, make("Mul", make("Mul", y, one), one), **options))
        with compile_graph(make.graph, CompileOptions(threads=1)) as model:
            for _ in range(2):
                (found,) = model.run({"x": a, "y": good}).values()
                np.testing.assert_array_equal(found, exact(a, good).astype(dtype.numpy))
                for run in (model.run, partial(evaluate, make.graph)):
                    with pytest.raises(
                        RuntimeFailure, match=f"division of integers by zero|{kind}.* by zero"
                    ):
                        run({"x": a, "y": bad})
