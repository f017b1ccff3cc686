"""The target "c": programs as plain C, which shows that nothing above the targets knows C++."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse import dtypes
from infuse.build.compile import Compilation, compile_graph
from infuse.build.staged import generate
from infuse.errors import DataError, OptionError, UnsupportedOperatorError
from infuse.ir.parser import parse
from infuse.ops.core.base import Op
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.profiling.lowered import Lowered
from infuse.targets import Target
from tests.branch_models import CASES, names
from tests.models.onnx_tools import run
from tests.native import dynamic_models
from tests.native.builder import Builder
from tests.native.op_cases import GROUPS, NOT_NATIVE, OPS, Case, cases, check, members, name
from tests.native.test_foreign import network

TARGET = "c"
OPTIONS = CompileOptions(target=TARGET, threads=1)
SAMPLED = 3
"""Of the rows of the short form, one in so many."""
NOT_IN_C = {
    "AffineGrid",
    "CausalConvWithState",
    "Col2Im",
    "DFT",
    "DeformConv",
    "Det",
    "GRU",
    "GridSample",
    "GatherBlocks",
    "GroupQueryAttention",
    "KnownElements",
    "MatMulBlocks",
    "PagedAttention",
    "LSTM",
    "LabelEncoder",
    "LinearAttention",
    "MaxRoiPool",
    "MaxUnpool",
    "MelWeightMatrix",
    "NonMaxSuppression",
    "RNN",
    "Resize",
    "RoiAlign",
    "STFT",
    "SquareDistances",
    "TensorScatter",
    "TfIdfVectorizer",
    "TreeEnsemble",
    "TreeEnsembleClassifier",
    "TreeEnsembleRegressor",
    "TreeScores",
    "Unique",
}
"""Operators that the interpreter runs on this target, and that are native elsewhere."""
pytestmark = pytest.mark.row("R6")


def native(case: Case) -> bool:
    """Whether a row has code on this target; its inputs that are no constants may have symbols."""
    try:
        generate(case.alone(), Target.resolve(TARGET))
    except UnsupportedOperatorError:
        return False
    return True


@pytest.mark.parametrize("op", OPS, ids=name)
def test_operators_without_code_are_known(op: type[Op]) -> None:
    if op.name not in NOT_NATIVE:
        assert any(map(native, cases(op, full=False))) == (op.name not in NOT_IN_C)


@pytest.mark.parametrize("group", GROUPS)
def test_operators_agree_with_their_meaning(group: str) -> None:
    rows = [case for op in members(group) for case in cases(op, full=False)]
    check([case for case in rows[::SAMPLED] if native(case)], TARGET)


@pytest.mark.full
@pytest.mark.parametrize("group", GROUPS)
def test_operators_agree_with_their_meaning_in_every_row(group: str) -> None:
    rows = [case for op in members(group) for case in cases(op, full=True)]
    check(list(filter(native, rows)), TARGET)


@names
def test_branches_are_native(name: str) -> None:
    case = CASES[name]
    with infuse.compile(infuse.optimize(infuse.load(case.proto)), OPTIONS) as compiled:
        assert not compiled.host_steps
        given = {spec.name for spec in compiled.inputs}
        for feeds in [*case.feeds, case.feeds[0]]:
            results = compiled.run({k: v for k, v in feeds.items() if k in given}).values()
            for actual, expected in zip(results, run(case.proto, feeds), strict=True):
                np.testing.assert_allclose(actual, expected, rtol=2e-6, strict=True)


@pytest.mark.parametrize("name", dynamic_models.CASES)
def test_sizes_that_a_run_finds_and_loops_are_native(name: str) -> None:
    make, every = dynamic_models.CASES[name]
    graph = infuse.load(make())
    with infuse.compile(graph, OPTIONS) as compiled:
        assert {step.split()[0] for step in compiled.host_steps} <= {"OneHot"}
        for feeds in [*every, every[0]]:
            results = compiled.run(feeds)
            for output, expected in evaluate(graph, feeds).items():
                if expected.size:  # the sizes of what a loop without iterations stacks are open
                    np.testing.assert_allclose(results[output], expected, rtol=2e-6, strict=True)


@pytest.mark.parametrize("size", [0, 1, 7])
def test_a_product_without_axes(size: int) -> None:
    graph = parse("""graph "dot" (%a: float32[n], %b: float32[n]) {
      %c = MatMul(%a, %b)
      %y = Relu(%c)
      return y = %y
    }""")
    rng = np.random.default_rng(size)
    feeds = {name: rng.random(size, np.float32) for name in ("a", "b")}
    with compile_graph(graph, OPTIONS) as compiled:
        result = compiled.run(feeds)["y"]
    np.testing.assert_allclose(result, feeds["a"] @ feeds["b"], rtol=1e-6)
    assert result.shape == ()


@pytest.mark.parametrize("batch", [1, 3])
def test_a_network_of_any_batch(batch: int) -> None:
    graph = network()
    x = np.random.default_rng(batch).normal(size=(batch, 5, 20, 20)).astype(np.float32)
    with compile_graph(graph, OPTIONS) as compiled:
        results = compiled.run({"x": x})
    for output, expected in evaluate(graph, {"x": x}).items():
        np.testing.assert_allclose(results[output], expected, rtol=1e-5, atol=1e-6, strict=True)


def test_a_compiler_of_c_builds_the_model_alone(tmp_path: Path) -> None:
    """Without warnings, undefined behaviour, or accesses outside of memory."""
    folder = tmp_path / "model"
    compile_graph(network(), OPTIONS, output=folder).close()
    flags = [
        *("-std=c11", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Werror"),
        *("-Wno-type-limits", "-Wno-unused-parameter", "-fsanitize=address,undefined"),
    ]
    compiler = shutil.which("cc") or pytest.skip("there is no compiler called cc")
    program = [compiler, *flags, "model.c", "example.c", "-o", "example", "-lm"]
    built = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)
    assert not built.returncode, built.stderr[:3000]
    done = subprocess.run(["./example"], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("outputs[0]: 8 33\n")


def test_what_elements_forbid_is_reported() -> None:
    make = Builder()
    table, index = make.input(5, 2, name="x"), make.input(3, dtype=dtypes.int64, name="i")
    make.output(make("Gather", table, index), make("Div", index, index))
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    with compile_graph(make.graph, OPTIONS) as compiled:
        rows, _ = compiled.run({"x": x, "i": np.array([4, -5, 1])}).values()
        np.testing.assert_array_equal(rows, x[[4, 0, 1]])
        with pytest.raises(DataError, match="5 of 5 elements"):
            compiled.run({"x": x, "i": np.array([1, 5, 1])})
        with pytest.raises(DataError, match="division of integers by zero"):
            compiled.run({"x": x, "i": np.array([1, 0, 1])})


@pytest.mark.parametrize("length", [-1, 4])
def test_lines_are_turned_within_their_length(length: int) -> None:
    make = Builder()
    x, lengths = make.input(2, 3, name="x"), make.input(2, dtype=dtypes.int64, name="n")
    make.output(make("ReverseSequence", x, lengths, batch_axis=0, time_axis=1))
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    with compile_graph(make.graph, OPTIONS) as compiled:
        (actual,) = compiled.run({"x": values, "n": np.array([3, 2])}).values()
        np.testing.assert_array_equal(actual, [[2, 1, 0], [4, 3, 5]])
        with pytest.raises(DataError, match=f"{length} of 3 elements"):
            compiled.run({"x": values, "n": np.array([3, length])})


def test_narrow_types_and_many_axes_are_left_to_the_interpreter() -> None:
    make = Builder()
    x, deep = make.input(4, name="x"), make.input(*[1] * 15, 2, 3, name="deep")
    narrow = make("Cast", make("Cast", x, to=dtypes.float8e4m3fn), to=dtypes.float32)
    make.output(narrow, make("Transpose", deep, perm=(*range(15), 16, 15)))
    feeds = {
        "x": np.float32([1, 1.06, -3.3, 500]),
        "deep": np.arange(6, dtype=np.float32).reshape([1] * 15 + [2, 3]),
    }
    with compile_graph(make.graph, OPTIONS) as compiled:
        assert {step.split()[0] for step in compiled.host_steps} >= {"Cast", "Transpose"}
        results = compiled.run(feeds)
        for output, expected in evaluate(make.graph, feeds).items():
            np.testing.assert_array_equal(results[output], expected)


@pytest.mark.parametrize("target", [TARGET, "native"])
def test_copies_along_more_axes_than_loops_have(target: str) -> None:
    make, rank = Builder(), 18
    x = make.input(*[2] * rank, name="x")
    make.output(make("Transpose", x, perm=tuple(range(rank))[::-1]))
    values = np.arange(2**rank, dtype=np.float32).reshape([2] * rank)
    with compile_graph(make.graph, CompileOptions(target=target, threads=1)) as compiled:
        (actual,) = compiled.run({"x": values}).values()
    np.testing.assert_array_equal(actual, values.transpose())


def test_what_plain_code_does_not_do_is_refused() -> None:
    make = Builder()
    make.output(make("Relu", make.input(4, name="x")))
    with pytest.raises(OptionError, match="the target c computes in fp32"):
        infuse.compile(make.graph, CompileOptions(target=TARGET, precision="bf16"))
    with pytest.raises(OptionError, match="does not record"):
        infuse.profile(make.graph, options=CompileOptions(target=TARGET))


SOFTMAX = """graph "softmax" (%x: float32[n, 8]) {
  %y = Softmax(%x)
  return y = %y
}"""


def test_the_listing_is_of_the_functions_in_the_source() -> None:
    compilation = Compilation(parse(SOFTMAX), OPTIONS)
    lowered = Lowered(compilation, compilation.stages(), None)
    (part,) = lowered.parts
    source = lowered.emitter.print_sources(*part, {"name": "whole"})["model.c"]
    lines = lowered.text().splitlines()
    heads = [line.split()[1].partition("(")[0] for line in lines if line.startswith("function ")]
    assert len(heads) == lowered.describe()["functions"] > 1
    assert all(f" {head}(Context* c" in source for head in heads)
