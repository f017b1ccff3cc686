"""Elementwise work that reads a value more than once, or shares it with others, in one kernel."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import parser

import infuse
from infuse import dtypes
from infuse.build.compile import compile_graph
from infuse.build.staged import generate
from infuse.errors import UnsupportedOperatorError
from infuse.ir.graph import Graph, Value
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.targets import Target
from tests.native.builder import Builder, assert_plan_is_safe
from tests.native.foreign import needs_emulator, run_foreign
from tests.native.joined_kernels import SIZES, labels, witnessed
from tests.native.kernel_tools import seldom, targets
from tests.support.lowered import run_lowered

pytestmark = pytest.mark.row("C8")


def feeds_of(graph: Graph, sizes: dict[str, int] = SIZES) -> dict[str, Any]:
    b = Builder()
    b.graph = graph
    feeds = b.feeds(sizes, -3, 3)
    return {k: np.where(v == 0, 1, v) if v.dtype.kind == "i" else v for k, v in feeds.items()}


def agree(results: dict[str, Any], graph: Graph, feeds: dict[str, Any]) -> None:
    """Beside ONNX Runtime and the operators' meaning, up to float32's rounding; other types are
    equal.
    """
    for name, expected in witnessed(graph, feeds):
        assert results[name].dtype == expected.dtype
        bound = 2e-6 * float(np.abs(expected.astype(np.float64)).max(initial=0))
        bound = bound if expected.dtype.kind == "f" else 0
        np.testing.assert_allclose(results[name], expected, 2e-6, bound, err_msg=name)


# -- graphs, and the kernel calls that they become -------------------------------------------------


def activation(b: Builder) -> list[str]:
    """y = relu(x + b); e^(y · tanh(y)) + y"""
    x = b.input("n", "length", 13)
    y = b("Relu", b("Add", x, b.weight(13)))
    b.output(b("Add", b("Exp", b("Mul", y, b("Tanh", y))), y))
    return ["Add + Relu + Tanh + Mul + Exp + Add"]


def square(b: Builder) -> list[str]:
    """Both operands of a product are one value, which a third node reads, too."""
    x = b.input("n", 17)
    d = b("Sub", x, b.input("n", 1))
    b.output(b("Add", b("Mul", d, d), b("Tanh", d)))
    return ["Sub + Mul + Tanh + Add"]


def diamond(b: Builder) -> list[str]:
    """Operands of several shapes: rows, columns, single numbers."""
    x, row, column = b.input("n", 4, 9), b.input(9), b.input("n", 1, 1)
    y = b("Add", b("Mul", x, row), column)
    left, right = b("Sigmoid", b("Sub", y, row)), b("Max", b("Neg", y), b.input())
    b.output(b("Mul", b("Add", left, right), y))
    return ["Mul + Add + Sub + Sigmoid + Neg + Max + Add + Mul"]


def stored(b: Builder) -> list[str]:
    """A value that is an output as well, and one that a product reads afterwards."""
    x = b.input("n", 12)
    y = b("Tanh", b("Add", x, b.weight(12)))
    z = b("Mul", y, b("Exp", y))
    b.output(y, b("MatMul", z, b.weight(12, 7)), b("Sigmoid", z))
    return ["Add + Tanh + Exp + Mul", "MatMul", "Sigmoid"]


def several(b: Builder) -> list[str]:
    """Three results of one kernel."""
    x, y = b.input("n", 5, 8), b.input("n", 5, 8)
    total = b("Add", x, y)
    relu, tanh = b("Relu", total), b("Tanh", total)
    b.output(b("Sub", relu, tanh), b("Mul", total, relu), tanh)
    return ["Add + Relu + Tanh + Sub + Mul"]


def variance(b: Builder) -> list[str]:
    """The work before a reduction stores what is read again behind it."""
    x = b.input("n", 33)
    d = b("Sub", x, b("ReduceMean", x, [1]))
    spread = b("Sqrt", b("Add", b("ReduceMean", b("Mul", d, d), [1]), 1e-3))
    b.output(b("Div", d, spread))
    return ["ReduceMean", "Sub + Mul", "ReduceMean + Add + Sqrt", "Div"]


def convolution(b: Builder) -> list[str]:
    """A diamond in the epilogue of a convolution."""
    x = b.input("n", 3, 6, 7)
    y = b("Conv", x, b.weight(9, 3, 3, 3), b.weight(9), pads=(1, 1, 1, 1))
    y = b("Mul", y, b.weight(9, 1, 1))
    b.output(b("Mul", y, b("Clip", b("Add", y, 3.0), 0.0, 6.0)))
    return ["Conv + Mul + Add + Clip + Mul"]


def product(b: Builder) -> list[str]:
    """Products have no second result: their arithmetic hides the loads of another kernel."""
    y = b("Gemm", b.input("n", 11), b.weight(11, 14), b.weight(14))
    b.output(b("Tanh", y), y)
    return ["Gemm", "Tanh"]


def normalized(b: Builder) -> list[str]:
    """Rows are normalized, gated, and both are results."""
    x, gate = b.input("n", "length", 19), b.input("n", "length", 19)
    y = b("LayerNormalization", x, b.weight(19), b.weight(19), axis=-1)
    shares = b("Softmax", gate, axis=-1)
    b.output(y, b("Mul", y, shares), b("ReduceMax", shares, [2]))
    return ["LayerNormalization", "Softmax + Mul", "ReduceMax"]


def masks(b: Builder) -> list[str]:
    """Booleans and floats, and masks that are stored."""
    x, y = b.input("n", 21), b.input("n", 21)
    mask = b("Greater", x, y)
    chosen = b("Where", mask, b("Mul", x, y), b("Abs", y))
    b.output(b("Add", chosen, b("Cast", b("Not", mask), to=dtypes.float32)), mask, chosen)
    return ["Greater + Mul + Abs + Where + Not + Cast + Add"]


def integers(b: Builder) -> list[str]:
    """64-bit integers, one by one, with cheap work on floats."""
    x, y = (b.input("n", 6, dtype=dtypes.int64) for _ in range(2))
    total = b("Add", x, y)
    quotient = b("Div", b("Mul", total, total), y)
    even = b("Equal", b("Mod", total, np.int64(2) * np.ones((), np.int64)), np.zeros((), np.int64))
    b.output(quotient, b("Where", even, quotient, total), b("Cast", total, to=dtypes.float32))
    return ["Add + Mul + Div + Mod + Equal + Where + Cast"]


def needed_before(b: Builder) -> list[str]:
    """What a reduction reads is there before its result comes back."""
    x = b.input("n", 15)
    y = b("Exp", b("Sub", x, b.weight(15)))
    b.output(b("Mul", b("Sub", y, b("ReduceMax", y, [1])), y))
    return ["Sub + Exp", "ReduceMax", "Sub + Mul"]


def around_a_product(b: Builder) -> list[str]:
    """The operand of a product that is added to it again is no part of its epilogue."""
    x = b.input("n", 8)
    y = b("Relu", b("Sub", x, b.weight(8)))
    b.output(b("Add", b("MatMul", y, b.weight(8, 8)), b("Mul", y, y)))
    return ["Sub + Relu", "MatMul + Mul + Add"]


def two_products(b: Builder) -> list[str]:
    """Each product has its own activation in its epilogue, the second one the rest as well."""
    x = b.input("n", 8)
    gate, up = b("MatMul", x, b.weight(8, 9)), b("MatMul", x, b.weight(8, 9))
    b.output(b("Mul", b("Sigmoid", b("Add", gate, b.weight(9))), up))
    return ["MatMul + Add + Sigmoid", "MatMul + Mul"]


def joined(b: Builder) -> list[str]:
    """Both results lie in a concatenation."""
    x = b.input("n", 10)
    y = b("Tanh", b("Add", x, 1.0))
    b.output(b("Concat", y, b("Mul", y, x), axis=1))
    return ["Add + Tanh + Mul"]


def resized(b: Builder) -> list[str]:
    """A kernel that ends in no epilogue for this type of image leaves its result in memory."""
    x = b.input(2, 3, 4, 5, 6)
    y = b("Resize", x, None, None, [2, 3, 8, 5, 9], mode="nearest")
    b.output(y, b("Mul", y, b("Abs", y)))
    return ["Resize", "Resize", "Abs + Mul"]


GRAPHS: dict[str, Callable[[Builder], list[str]]] = {
    function.__name__: function
    for function in (
        *(activation, square, diamond, stored, several, variance, convolution, product),
        *(normalized, masks, integers, needed_before, around_a_product, two_products),
        *(joined, resized),
    )
}


def graph_of(name: str) -> Graph:
    b = Builder(name)
    GRAPHS[name](b)
    return b.graph


@pytest.mark.parametrize("name", GRAPHS)
def test_kernel_calls(name: str) -> None:
    b = Builder(name)
    assert GRAPHS[name](b) == labels(b.graph)


def test_values_that_are_no_tensors_are_refused_by_the_name_of_their_operator() -> None:
    text = """<ir_version: 8, opset_import: ["": 18]> g (float[n, 6] x) => (float[n, 6] z) {
        y = Relu(x)  o = Optional(y)  e = OptionalGetElement(o)  z = Tanh(e)
    }"""
    graph = infuse.load(parser.parse_model(text))
    with pytest.raises(UnsupportedOperatorError, match="operator Optional"):
        labels(graph)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("target", [*targets(()), *seldom("x86-64-v4")])
def test_results_are_those_of_witnesses(name: str, target: str) -> None:
    graph = graph_of(name)
    with compile_graph(graph, CompileOptions(target=target, threads=2)) as model:
        for sizes in (SIZES, {"n": 1, "length": 1}, {"n": 9, "length": 4}, {"n": 0, "length": 2}):
            feeds = feeds_of(graph, sizes)
            found = model.run(feeds)
            shapes = {name: array.shape for name, array in evaluate(graph, feeds).items()}
            assert {name: array.shape for name, array in found.items()} == shapes
            if sizes["n"]:
                agree(found, graph, feeds)


@needs_emulator
def test_results_on_another_machine(tmp_path: Path) -> None:
    for name in ("several", "masks", "variance"):
        graph = graph_of(name)
        model = compile_graph(graph, CompileOptions(target="aarch64"), output=tmp_path / name)
        feeds = feeds_of(graph)
        agree(run_foreign(model, feeds, tmp_path, 2), graph, feeds)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "x86-64-v4", "aarch64"])
def test_kernels_store_what_their_nodes_mean(name: str, target: str) -> None:
    graph = graph_of(name)
    run_lowered(graph, Target.resolve(target), feeds_of(graph))


# -- random graphs ---------------------------------------------------------------------------------


def random_chain(seed: int) -> Graph:
    """Elementwise work, reductions and products on a few values, which are read again and again."""
    rnd, b = random.Random(seed), Builder(f"random_{seed}", seed)
    whole: list[Value] = [b.input(4, 6), b.input(4, 6)]
    parts: list[Value] = [b.input(6), b.input(4, 1)]
    for _ in range(rnd.randint(4, 16)):
        x, y = (rnd.choice(whole[-5:]) for _ in range(2))
        kind = rnd.choice(["Add", "Mul", "Sub", "Max", "Tanh", "Relu", "Mask", "part", "other"])
        if kind == "Mask":
            whole.append(b("Where", b("Greater", x, y), x, rnd.choice(parts)))
        elif kind == "part":
            whole.append(b("Add", x, rnd.choice(parts)))
        elif kind == "other" and rnd.random() < 0.5:
            parts.append(b("ReduceMean", x, [1]))
        elif kind == "other":
            whole.append(b("MatMul", x, b.weight(6, 6)))
        else:
            whole.append(b(kind, x, y) if kind in ("Add", "Mul", "Sub", "Max") else b(kind, x))
    unread = [v for v in (*whole, *parts) if not v.uses and v.producer is not None]
    made = [v for v in whole if v.producer is not None]
    b.output(*dict.fromkeys([*unread, *rnd.sample(made, min(2, len(made)))]))
    return b.graph


@pytest.mark.parametrize("seed", range(60))
def test_random_chains_keep_their_meaning(seed: int) -> None:
    graph = random_chain(seed)
    program, memory = generate(graph, Target.resolve("x86-64-v3"))
    assert_plan_is_safe(program, memory)
    run_lowered(graph, Target.resolve("x86-64-v3"), feeds_of(graph))
