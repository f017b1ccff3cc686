"""The code generator: source text, how values are placed and handed out, symbolic sizes."""

import json
import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from infuse import dtypes, optimize
from infuse.build.compile import compile_graph
from infuse.build.staged import generate
from infuse.errors import RuntimeFailure
from infuse.ir import dims
from infuse.ir.graph import Graph, constant
from infuse.ir.types import tensor
from infuse.lowering.metadata import metadata
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.targets import Target
from infuse.targets.cpu.emit.source import print_sources
from tests.native.builder import NATIVE, Builder, planned


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
    with compile_graph(b.graph, CompileOptions(threads=1)) as model:
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
    with compile_graph(b.graph, CompileOptions(threads=1)) as model:
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
    with compile_graph(b.graph, CompileOptions(threads=2)) as model:
        for _ in range(2):
            agree(model.run(feeds), b.graph, feeds)
    with compile_graph(optimize(b.graph), CompileOptions(threads=1)) as model:
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
    with compile_graph(b.graph, CompileOptions(threads=2)) as model:
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
    with compile_graph(b.graph, CompileOptions(threads=1)) as model:
        feeds = b.feeds()
        agree(model.run(feeds), b.graph, feeds)


def test_indices_are_checked_before_memory_is_touched() -> None:
    b = Builder()
    x, places = b.input(5, 4), b.input(3, dtype=dtypes.int64)
    b.output(b("Gather", x, places, axis=0))
    with compile_graph(b.graph, CompileOptions(threads=1)) as model:
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
    with compile_graph(b.graph, CompileOptions(threads=2)) as model:
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
