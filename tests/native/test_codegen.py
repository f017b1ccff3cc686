"""The code generator: views, memory plan, source text, and how values are placed and handed out."""

import json
import random
import re
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.lib.stride_tricks import as_strided

from infuse import dtypes, optimize
from infuse.codegen.compile import compile_graph, generate
from infuse.codegen.memory import ALIGN, Plan, plan
from infuse.codegen.program import Function, Program, Step
from infuse.codegen.source import metadata, print_sources
from infuse.codegen.tensors import Buffer, Tensor, dense
from infuse.errors import RuntimeFailure
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, constant
from infuse.ir.types import tensor
from infuse.ops.core.evaluate import evaluate
from infuse.targets import Target
from tests.native.builder import Builder, assert_plan_is_safe

NATIVE = Target.resolve("native")


def agree(found: dict[str, Any], graph: Graph, feeds: dict[str, Any], what: str = "") -> None:
    """The native outputs are those of the interpreter."""
    expected = evaluate(graph, feeds)
    assert list(found) == list(expected)
    for name, wanted in expected.items():
        assert found[name].dtype == wanted.dtype, f"{what}{name}"
        assert found[name].shape == wanted.shape, f"{what}{name}"
        np.testing.assert_allclose(found[name], wanted, 1e-5, 1e-5, err_msg=f"{what}{name}")


def sources(graph: Graph) -> dict[str, str]:
    program, memory = generate(graph, Target.resolve("x86-64-v3"))
    return print_sources(program, memory, metadata(program, "0"))


# -- views -----------------------------------------------------------------------------------------


def elements(view: Tensor, base: Any, values: dict[str, int]) -> Any:
    """The view of an array that a tensor describes."""
    shape, strides = (
        [dims.evaluate(d, values) for d in sizes] for sizes in (view.shape, view.strides)
    )
    start = dims.evaluate(view.offset, values)
    return as_strided(base[start:], shape, [s * base.itemsize for s in strides], writeable=False)


class Views:
    """Random views, done to a tensor and to an array alike."""

    def __init__(self, draw: Callable[[Any], Any], symbolic: bool) -> None:
        self.draw = draw
        shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
        self.values = {f"s{n}": n for n in range(2, 1000)}
        self.symbolic = symbolic
        perm = draw(st.permutations(range(len(shape))))
        self.base = np.arange(int(np.prod(shape)))
        physical = self.base.reshape([shape[p] for p in perm])
        self.array = physical.transpose(np.argsort(perm))
        self.tensor = dense(
            Buffer("arena", 0), dtypes.int64, tuple(map(self.dim, shape)), tuple(perm)
        )

    def dim(self, size: int) -> Dim:
        return dims.symbol(f"s{size}") if self.symbolic and 1 < size < 1000 else size

    def step(self) -> None:
        rank = self.tensor.rank
        kinds = (
            ["insert", "unfold"]
            if rank == 0
            else ["permute", "slice", "insert", "drop", "expand", "unfold"]
        )
        kind = self.draw(st.sampled_from(kinds))
        getattr(self, kind)(self.draw(st.integers(0, max(rank - 1, 0))))

    def permute(self, axis: int) -> None:
        perm = tuple(self.draw(st.permutations(range(self.tensor.rank))))
        self.tensor, self.array = self.tensor.permute(perm), self.array.transpose(perm)

    def slice(self, axis: int) -> None:
        size = self.array.shape[axis]
        if not size:
            return
        start = self.draw(st.integers(0, size - 1))
        step = self.draw(st.sampled_from([1, 1, 2, -1, -2]))
        count = len(range(start, size if step > 0 else -1, step))
        stop = None if step < 0 else size
        self.tensor = self.tensor.slice(axis, start, self.dim(count), step)
        self.array = self.array[(slice(None),) * axis + (slice(start, stop, step),)]

    def insert(self, axis: int) -> None:
        if self.tensor.rank < 6:
            self.tensor, self.array = self.tensor.insert(axis), np.expand_dims(self.array, axis)

    def drop(self, axis: int) -> None:
        self.tensor, self.array = self.tensor.drop(axis), self.array.take(0, axis)

    def expand(self, axis: int) -> None:
        shape = [2, *self.array.shape] if self.tensor.rank < 6 else list(self.array.shape)
        shape[-1] = 3 if shape[-1] == 1 else shape[-1]
        self.tensor = self.tensor.expand(tuple(map(self.dim, shape)))
        self.array = np.broadcast_to(self.array, shape)

    def unfold(self, axis: int) -> None:
        if not self.tensor.rank or self.tensor.rank > 5:
            return
        size = self.array.shape[axis]
        outer = self.draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
        shape = [*self.array.shape[:axis], outer, size // outer, *self.array.shape[axis + 1 :]]
        self.tensor, self.array = (
            self.tensor.unfold(axis, outer, self.dim(size // outer)),
            self.array.reshape(shape),
        )

    def check(self) -> None:
        np.testing.assert_array_equal(elements(self.tensor, self.base, self.values), self.array)
        assert sorted(self.tensor.order) == list(range(self.tensor.rank))


@pytest.mark.parametrize("symbolic", [False, True], ids=["numbers", "symbols"])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_views_are_those_of_numpy(symbolic: bool, data: st.DataObject) -> None:
    views = Views(data.draw, symbolic)
    views.check()
    for _ in range(data.draw(st.integers(1, 6))):
        views.step()
        views.check()


def factorizations(size: int) -> st.SearchStrategy[list[int]]:
    """Shapes of `size` elements."""

    def grow(rest: int, depth: int) -> st.SearchStrategy[list[int]]:
        if depth == 0:
            return st.just([rest])
        divisors = [n for n in range(1, rest + 1) if rest % n == 0]
        return st.sampled_from(divisors).flatmap(
            lambda n: grow(rest // n, depth - 1).map(lambda tail: [n, *tail])
        )

    return st.integers(0, 3).flatmap(lambda depth: grow(size, depth))


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_reshape_gives_up_only_where_numpy_copies(data: st.DataObject) -> None:
    views = Views(data.draw, symbolic=False)
    views.permute(0)
    if data.draw(st.booleans()):
        views.slice(data.draw(st.integers(0, views.tensor.rank - 1)))
    shape = tuple(data.draw(factorizations(views.array.size)))
    found = views.tensor.reshape(shape)
    moved = views.array.reshape(shape)
    assert (found is None) == (not np.may_share_memory(moved, views.base))
    if found is not None:
        np.testing.assert_array_equal(elements(found, views.base, {}), moved)
        assert sorted(found.order) == list(range(len(shape)))


def test_reshape_divides_symbols() -> None:
    batch, width = dims.symbol("batch"), dims.symbol("width")
    whole = dense(Buffer("arena", 0), dtypes.float32, (batch, width * 4, 3))
    split = whole.reshape((batch, width, 12))
    assert split is not None
    assert split.strides == (width * 12, 12, 1)
    merged = whole.reshape((batch * width * 4, 3))
    assert merged is not None
    assert merged.strides == (3, 1)
    assert whole.permute((1, 0, 2)).reshape((batch * width * 4, 3)) is None
    assert whole.permute((1, 0, 2)).reshape((width, batch, 12)) is None


def test_scalars_and_empty_tensors_have_views() -> None:
    scalar = dense(Buffer("arena", 0), dtypes.float32, ())
    grown = scalar.reshape((1, 1))
    assert grown is not None
    assert grown.reshape(()) == scalar
    empty = dense(Buffer("arena", 0), dtypes.float32, (0, 3))
    assert empty.is_dense()
    assert empty.permute((1, 0)).is_dense((1, 0))
    assert scalar.expand((2, 3)).strides == (0, 0)


# -- memory ----------------------------------------------------------------------------------------

Interval = tuple[int, int, int]


def program_of(intervals: Sequence[Interval]) -> Program:
    """A program whose buffers have these first steps, last steps and sizes."""
    program = Program("p", [], [], [])
    buffers = [program.arena(size) for _, _, size in intervals]
    for number in range(max((last for _, last, _ in intervals), default=0) + 1):
        reads = [b for b, (first, last, _) in zip(buffers, intervals) if first < number <= last]
        writes = [b for b, (first, _, _) in zip(buffers, intervals) if first == number]
        program.steps.append(Step(Function("f"), [], reads, writes, (), ""))
    return program


def total_and_bound(intervals: Sequence[Interval]) -> tuple[int, int]:
    program = program_of(intervals)
    found = plan(program)
    assert_plan_is_safe(program, found)
    assert found.offsets is not None
    assert all(offset % ALIGN == 0 for offset in found.offsets)
    assert found.total >= found.lower_bound
    return found.total, found.lower_bound


INTERVALS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(1, 5000)).map(
        lambda t: (t[0], t[0] + t[1], t[2])
    ),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(intervals=INTERVALS)
def test_live_buffers_never_overlap(intervals: list[Interval]) -> None:
    total_and_bound(intervals)


@settings(max_examples=100, deadline=None)
@given(intervals=INTERVALS)
def test_equal_sizes_reach_the_lower_bound(intervals: list[Interval]) -> None:
    total, bound = total_and_bound([(first, last, 4096) for first, last, _ in intervals])
    assert total == bound


def test_plans_are_close_to_the_lower_bound() -> None:
    ratios = []
    for seed in range(150):
        source = random.Random(seed)
        steps = source.randint(2, 40)
        intervals = []
        for _ in range(source.randint(2, 60)):
            first = source.randrange(steps)
            last = min(steps - 1, first + source.choice([0, 1, 1, 2, 3, steps // 2]))
            intervals.append(
                (first, last, source.choice([64, 256, 1024, 4096, source.randint(1, 5000)]))
            )
        total, bound = total_and_bound(intervals)
        ratios.append(total / bound)
    assert np.mean(ratios) < 1.005
    assert np.mean([ratio <= 1.05 for ratio in ratios]) > 0.97
    assert max(ratios) < 1.15


def test_a_long_program_is_planned_quickly() -> None:
    total, bound = total_and_bound_without_check(
        [(i, i + i % 7, 64 * (1 + i * 37 % 50)) for i in range(20000)]
    )
    assert total < 1.5 * bound


def total_and_bound_without_check(intervals: Sequence[Interval]) -> tuple[int, int]:
    found = plan(program_of_steps(intervals))
    return found.total, found.lower_bound


def program_of_steps(intervals: Sequence[Interval]) -> Program:
    """The same in linear time: a buffer is read in its last step only."""
    program = Program("p", [], [], [])
    steps = [
        Step(Function("f"), [], [], [], (), "")
        for _ in range(max(last for _, last, _ in intervals) + 1)
    ]
    for first, last, size in intervals:
        buffer = program.arena(size)
        steps[first].writes.append(buffer)
        steps[last].reads.append(buffer)
    program.steps += steps
    return program


def planned(graph: Graph) -> tuple[Program, Plan]:
    program, memory = generate(graph, NATIVE)
    assert_plan_is_safe(program, memory)
    return program, memory


def test_elementwise_work_is_done_in_place() -> None:
    b = Builder()
    x = b.input(64, 64)
    hidden = b("MatMul", x, b.weight(64, 64))
    b.output(
        b("MatMul", b("Softmax", hidden), b.weight(64, 64)),
        b("MatMul", b("Exp", b("Neg", x)), b.weight(64, 64)),
    )
    residual = b("MatMul", b("Relu", hidden), b.weight(64, 64))
    b.output(
        b("MatMul", b("Add", residual, b("MatMul", residual, b.weight(64, 64))), b.weight(64, 64))
    )
    _, memory = planned(b.graph)
    assert memory.total == memory.lower_bound


def test_what_a_product_reads_is_not_overwritten_by_it() -> None:
    b = Builder()
    x = b("Sqrt", b("Exp", b.input(32, 32)))
    b.output(b("Neg", b("Add", b("MatMul", x, b.weight(32, 32)), x)))
    program, _ = planned(b.graph)
    step = next(s for s in program.steps if s.label.startswith("MatMul"))
    assert len([buffer for buffer in step.reads if buffer.kind == "arena"]) >= 2
    assert not step.in_place


# -- source ----------------------------------------------------------------------------------------


def test_source_is_readable(golden: Callable[[str, str], None]) -> None:
    b = Builder("tiny")
    x = b.input("batch", 3, 8, name="x")
    scaled = b("Mul", b("Add", x, constant(np.arange(8, dtype=np.float32))), 0.5)
    b.output(b("Tanh", scaled), b("Transpose", b("Relu", x), perm=(0, 2, 1)))
    golden("tiny.cpp", "\n".join(f"=== {name}\n{text}" for name, text in sources(b.graph).items()))


HOSTILE = [
    'quote"',
    "new\nline",
    "*/ int evil() {",
    "back\\",
    "??/",
    "ünïcode…",
    "\U0001f600",
    "tab\t\r\0",
    "%s{0}",
    "'; #include <x>",
    'R"(',
    "class",
    "n" * 300,
]


def test_names_of_a_model_do_not_reach_the_source() -> None:
    b = Builder(HOSTILE[2])
    sizes = {}
    for i, name in enumerate(HOSTILE):
        symbol = f"{name}#{i}"
        sizes[symbol] = i + 1
        x = b.graph.add_input(name, tensor(dtypes.float32, dims.symbol(symbol)))
        y = b("Add", x, x)
        assert y.producer is not None
        y.producer.name = name
        b.graph.add_output(b("Gather", y, [0]), f"{name} out")
    text = "\n".join(sources(b.graph).values())
    described = next(line for line in text.splitlines() if line.startswith('  return "{'))
    assert [
        i["name"] for i in json.loads(json.loads(described[len("  return ") : -1]))["inputs"]
    ] == HOSTILE
    program = re.sub(
        r"\\[0-7]{3}", "", text.replace(described, "")
    )  # without letters that are written as numbers
    for name in HOSTILE:
        fragment = name.strip()
        assert fragment in ("class", "n" * 300) or fragment not in program, name
    with compile_graph(b.graph, threads=1) as model:
        assert [spec.name for spec in model.inputs] == HOSTILE
        assert model.name == HOSTILE[2]
        feeds = b.feeds(sizes)
        agree(model.run(feeds), b.graph, feeds)


def test_equal_layers_share_one_function() -> None:
    b = Builder()
    x = b.input(4, 32)
    for width in (48, 32, 64, 32):
        assert isinstance(x.shape[-1], int)
        x = b("Tanh", b("MatMul", x, b.weight(x.shape[-1], width)))
    b.output(x)
    text = sources(b.graph)["model.cpp"]
    assert text.count("gemm(c, ") == 1


def test_long_chains_are_lowered_without_recursion() -> None:
    b = Builder()
    x = y = b.input(5, 3)
    for i in range(2000):
        y = b("Transpose", y, perm=(1, 0)) if i % 100 == 50 else b("Mul", b("Neg", y), 1.0)
    b.output(y, x)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(400)
    try:
        _, memory = generate(b.graph, NATIVE)
    finally:
        sys.setrecursionlimit(limit)
    assert memory.offsets is not None
    with compile_graph(b.graph, threads=1) as model:
        feeds = b.feeds()
        agree(model.run(feeds), b.graph, feeds)


# -- placement of values ---------------------------------------------------------------------------


def corners() -> Builder:
    """Values that are inputs, outputs, views and operands at once."""
    b = Builder()
    x, image = b.input(4, 6), b.input(2, 8, 5, 5)
    b.output(x)  # an input that is an output
    b.output(constant(np.arange(6, dtype=np.float32).reshape(2, 3)))  # a constant output
    plus = b("Add", x, 1.0)
    b.output(plus, plus)  # the same value twice
    b.output(b("Exp", plus))  # elementwise work on an output
    b.output(b("Transpose", x), b("Transpose", plus), b("Slice", plus, [1], [4], [1], [2]))  # views
    b.output(b("Reshape", b("Transpose", plus), [3, 8]), b("Expand", plus, [2, 4, 6]))
    hidden = b("Mul", x, 3.0)
    b.output(
        b("Concat", hidden, hidden, axis=0), b("Concat", x, hidden, x, axis=1)
    )  # the same twice
    inner = b("Concat", b("Abs", x), b("Neg", hidden), axis=1)
    b.output(
        b("Concat", inner, b("Sqrt", b("Abs", hidden)), axis=1), b("Relu", inner)
    )  # nested, and used
    outer = b("Concat", b("Relu", x), b("Floor", hidden), axis=0)
    b.output(outer, b("Concat", outer, b("Ceil", x), axis=0))  # nested, the inner an output
    parts = b.several(3, "Split", b("Mul", x, 2.0), num_outputs=3, axis=1)
    b.output(b("Concat", *parts[::-1], axis=1), b("Add", parts[0], parts[2]))
    later = b("Sub", hidden, plus)
    b.output(b("Add", b("Relu", later), later))  # a value that is needed again
    b.output(b("Sub", later, b("Slice", later, [0], [1], [1])))  # with a part of itself
    features = b("Mul", image, 0.5)
    for kernel, group in ((3, 1), (1, 1), (3, 8)):
        filters = b.weight(8, 8 // group, kernel, kernel)
        pads = (kernel // 2,) * 4
        b.output(
            b("Add", features, b("Conv", features, filters, b.weight(8), group=group, pads=pads))
        )  # residual
    square = b("MatMul", b("Tanh", x), b.weight(6, 6))
    b.output(
        b("Add", square, b("MatMul", square, b.weight(6, 6))),
        b("MatMul", square, b("Transpose", square)),
    )
    b.output(b("Add", b("Transpose", square), b("Reshape", square, [6, 4])))
    scalar = b("ReduceSum", x, keepdims=0)
    b.output(b("Exp", b("Mul", scalar, 0.01)), b("Add", x, scalar), b("Reshape", scalar, [1, 1, 1]))
    high = b("Reshape", x, [2, 1, 2, 1, 3, 1, 2, 1])
    b.output(
        b("Relu", b("Transpose", high, perm=(7, 6, 5, 4, 3, 2, 1, 0))),
        b("ReduceMax", high, [0, 4, 7]),
    )
    b.output(b("Softmax", b("Transpose", high, perm=(2, 0, 4, 1, 6, 3, 5, 7)), axis=2))
    return b


def test_values_are_placed_and_handed_out() -> None:
    b = corners()
    planned(b.graph)
    feeds = b.feeds()
    with compile_graph(b.graph, threads=2) as model:
        for _ in range(2):
            agree(model.run(feeds), b.graph, feeds)
    with compile_graph(optimize(b.graph), threads=1) as model:
        agree(model.run(feeds), b.graph, feeds, "optimized ")


def test_empty_tensors_are_computed() -> None:
    b = Builder()
    rows, columns, images = b.input(0, 3), b.input(4, 0), b.input(0, 4, 6, 6)
    b.output(
        b("Relu", rows),
        b("Add", rows, b.weight(3)),
        b("Transpose", rows),
        b("Concat", rows, rows, axis=1),
    )
    b.output(b("MatMul", rows, b.weight(3, 5)), b("MatMul", columns, b("Transpose", columns)))
    b.output(b("MatMul", columns, b.weight(0, 5)), b("Gemm", columns, b.weight(0, 5), b.weight(5)))
    for kind in ("Sum", "Prod", "Max", "Min", "L2", "SumSquare"):
        b.output(
            b(f"Reduce{kind}", columns, [1]),
            b(f"Reduce{kind}", rows, [1]),
            b(f"Reduce{kind}", rows, [0]),
        )
    b.output(
        b("Softmax", rows),
        b("Softmax", columns),
        b("LogSoftmax", columns, axis=0),
        b("ArgMax", rows, axis=1),
    )
    b.output(
        b("LayerNormalization", rows, b.weight(3), b.weight(3)), b("CumSum", columns, np.array(1))
    )
    b.output(
        b("Conv", images, b.weight(5, 4, 3, 3)), b("Conv", images, b.weight(4, 1, 3, 3), group=4)
    )
    b.output(b("MaxPool", images, kernel_shape=(2, 2)), b("GlobalAveragePool", images))
    b.output(
        b("Gather", rows, constant(np.zeros((0, 2), np.int64)), axis=1),
        b("Pad", rows, [1, 0, 1, 2]),
    )
    b.output(
        b("Slice", b.weight(3, 4), [2], [2], [0]),
        b("Tile", rows, [3, 2]),
        b("Reshape", columns, [0, 7], allowzero=1),
    )
    b.output(
        b("Where", b("Less", rows, 0.0), rows, 1.0),
        b("Cast", columns, to=dtypes.int8),
        b("Trilu", columns),
    )
    b.output(
        *b.several(2, "TopK", columns, [0]), b("Expand", columns, [2, 4, 0]), b("ReduceSum", images)
    )
    with compile_graph(b.graph, threads=2) as model:
        agree(model.run(b.feeds()), b.graph, b.feeds())


def test_borders_of_windows_are_right() -> None:
    b = Builder()
    x = b.input(1, 3, 7, 8)
    for ceil_mode in (0, 1):
        for counted in (0, 1):
            for pads, strides in (
                ((0, 0, 0, 0), (3, 2)),
                ((1, 1, 1, 1), (2, 3)),
                ((2, 0, 1, 2), (3, 3)),
            ):
                more = {
                    "kernel_shape": (3, 3),
                    "ceil_mode": ceil_mode,
                    "pads": pads,
                    "strides": strides,
                }
                b.output(b("AveragePool", x, **more, count_include_pad=counted))
                if not counted:
                    b.output(*b.several(2, "MaxPool", x, **more), b("LpPool", x, **more))
    b.output(
        b("Pad", x, [0, 0, -1, 2, 0, 0, -2, -3]), b("Pad", x, [-1, -2], None, [3], mode="edge")
    )
    b.output(
        b("Pad", x, [0, 0, 3, -1, 0, 0, -2, 4], mode="reflect"),
        b("Pad", x, [2, -5, -3, 2], None, [1, 2]),
    )
    b.output(
        b("Conv", x, b.weight(2, 3, 3, 3), pads=(-1, 0, 2, -2)),
        b("Conv", x, b.weight(2, 3, 2, 2), pads=(5, 5, 5, 5)),
    )
    with compile_graph(b.graph, threads=1) as model:
        feeds = b.feeds()
        agree(model.run(feeds), b.graph, feeds)


def test_indices_are_checked_before_memory_is_touched() -> None:
    b = Builder()
    x, places = b.input(5, 4), b.input(3, dtype=dtypes.int64)
    b.output(b("Gather", x, places, axis=0))
    with compile_graph(b.graph, threads=1) as model:
        data = np.arange(20, dtype=np.float32).reshape(5, 4)
        for good in ([0, -5, 4], [-1, -1, 3]):
            np.testing.assert_array_equal(model(data, np.array(good)), data[good])
        for bad in ([0, 5, 1], [-6, 0, 0], [2**62, 0, 0], [-(2**63), 0, 0]):
            with pytest.raises(RuntimeFailure):
                model(data, np.array(bad))
        np.testing.assert_array_equal(model(data, np.array([1, 2, 3])), data[1:4])


# -- symbolic sizes and threads --------------------------------------------------------------------


def encoder() -> Builder:
    """Attention and pooling over sizes that are open."""
    b = Builder()
    x, mask = (
        b.input("batch", "length", 24, name="x"),
        b.input("batch", "length", dtype=dtypes.bool_, name="mask"),
    )
    q, k, v = (b("MatMul", x, b.weight(24, 24)) for _ in range(3))
    heads = [b("Transpose", b("Reshape", t, [0, 0, 3, 8]), perm=(0, 2, 1, 3)) for t in (q, k, v)]
    scores = b("Mul", b("MatMul", heads[0], b("Transpose", heads[1], perm=(0, 1, 3, 2))), 0.3)
    hidden = b("Where", b("Unsqueeze", mask, [1, 2]), scores, -1e9)
    mixed = b("MatMul", b("Softmax", hidden), heads[2])
    merged = b("Reshape", b("Transpose", mixed, perm=(0, 2, 1, 3)), [0, 0, 24])
    normal = b("LayerNormalization", b("Add", x, merged), b.weight(24), b.weight(24))
    doubled = b("Concat", normal, b("Relu", normal), axis=1)
    b.output(
        doubled, b("ReduceMean", doubled, [1]), b("Shape", doubled), b("Reshape", doubled, [-1, 24])
    )
    b.output(b("Gather", normal, np.array(-1), axis=1), b("Slice", normal, [1], [2**62], [1]))
    return b


@pytest.fixture(scope="module")
def compiled() -> Any:
    b = encoder()
    with compile_graph(b.graph, threads=2) as model:
        yield b, model


def test_one_library_serves_all_sizes(compiled: Any) -> None:
    b, model = compiled
    for batch, length in ((1, 1), (3, 7), (2, 40), (1, 5), (3, 7), (5, 2)):
        feeds = b.feeds({"batch": batch, "length": length})
        agree(model.run(feeds), b.graph, feeds, f"{batch} × {length}: ")


def test_an_empty_batch_gives_empty_results(compiled: Any) -> None:
    b, model = compiled
    feeds = b.feeds({"batch": 0, "length": 3})
    found = model.run(feeds)
    assert found["y0"].shape == (0, 6, 24)
    assert found["y2"].tolist() == [0, 6, 24]


def test_sizes_that_leave_an_index_outside_are_refused(compiled: Any) -> None:
    b, model = compiled
    with pytest.raises(RuntimeFailure):
        model.run(b.feeds({"batch": 2, "length": 0}))
    feeds = b.feeds({"batch": 2, "length": 3})
    agree(model.run(feeds), b.graph, feeds)


def test_calls_from_many_threads_give_equal_results(compiled: Any) -> None:
    b, model = compiled
    cases = [b.feeds({"batch": n % 3 + 1, "length": 5 + n}) for n in range(6)]
    alone = [model.run(feeds) for feeds in cases]

    def work(number: int) -> None:
        with model.session() as session:
            for i in range(20):
                place = (number + i) % len(cases)
                for name, found in session.run(cases[place]).items():
                    np.testing.assert_array_equal(found, alone[place][name])
                agree(model.run(cases[place]), b.graph, cases[place])

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, number) for number in range(4)]:
            done.result()
