"""Programs that a library of prebuilt kernels runs: the same answers as compiled code, and nothing
that belongs to one model alone.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

import infuse
from infuse.build.compile import Compilation, compile_graph
from infuse.build.prebuilt import make_prebuilt
from infuse.errors import DataError
from infuse.ir.graph import Graph
from infuse.ir.parser import parse
from infuse.lowering.emitter import ClosedFunctions, emitter_of
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.runtime.program import FOLDER_VARIABLE
from infuse.targets import Target
from infuse.testing.blocks import Block
from tests.branch_models import CASES, names
from tests.models.onnx_tools import run as onnxruntime
from tests.native import dynamic_models
from tests.native.op_cases import GROUPS, Case, check, members, native_cases
from tests.native.random_models import together
from tests.native.test_cancelling import counting, is_ended_and_goes_on
from tests.native.test_random_graphs import differences

NEVER = CompileOptions(compile="never", threads=2)
SAMPLED = 3
"""Of the rows of the short form, one in so many."""
pytestmark = [
    pytest.mark.row("X1"),
    # NumPy warns of means of nothing and of casts of what is not a number: both have a result.
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


def functions_of(graphs: Iterable[Graph], *, usual: bool = False) -> ClosedFunctions:
    """The closed functions of all native stages of these graphs; `usual` as `ClosedFunctions.add`
    has it.
    """
    functions = emitter_of(Target.resolve().machine).closed()
    for graph in graphs:
        for part in Compilation(graph, CompileOptions(threads=2)).stages().parts:
            if isinstance(part, tuple):
                functions.add(*part, usual=usual)
    return functions


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a library of the functions of graphs, which models are then run by."""

    def make(graphs: Iterable[Graph]) -> None:
        # The loader takes a library of a known name for the one that it has.
        folder = tmp_path / uuid4().hex
        make_prebuilt(functions_of(graphs), Target.resolve(), folder / f"{folder.name}.so")
        monkeypatch.setenv(FOLDER_VARIABLE, str(folder))

    return make


def rows_of(group: str, full: bool) -> list[Case]:
    rows = native_cases(members(group), full)
    return rows if full else rows[::SAMPLED]


def run(graph: Graph, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    with compile_graph(graph, NEVER) as model:
        return model.run(feeds)


@pytest.mark.parametrize("group", GROUPS)
def test_operators_agree_with_their_meaning(group: str, library: Any) -> None:
    def made(graph: Graph, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        library([graph])
        return run(graph, feeds)

    check(rows_of(group, full=False), run=made)


def test_random_networks_of_any_sizes(library: Any) -> None:
    graph, runs = together(range(30), 10)
    library([graph])
    with compile_graph(graph, NEVER) as model:
        for feeds in runs:
            assert not differences(model.run(feeds), graph, feeds)


@names
def test_branches_answer_as_onnxruntime(name: str, library: Any) -> None:
    case = CASES[name]
    graph = infuse.optimize(infuse.load(case.proto))
    library([graph])
    with compile_graph(graph, NEVER) as model:
        taken = {spec.name for spec in model.inputs}
        for feeds in [*case.feeds, case.feeds[0]]:
            results = model.run({k: v for k, v in feeds.items() if k in taken}).values()
            for actual, expected in zip(results, onnxruntime(case.proto, feeds), strict=True):
                np.testing.assert_allclose(actual, expected, rtol=2e-6, strict=True)


@pytest.mark.parametrize("name", dynamic_models.CASES)
def test_sizes_that_a_run_finds_and_loops(name: str, library: Any) -> None:
    make, every = dynamic_models.CASES[name]
    graph = infuse.load(make())
    library([graph])
    with compile_graph(graph, NEVER) as model:
        for feeds in [*every, every[0]]:
            results = model.run(feeds)
            for output, expected in evaluate(graph, feeds).items():
                if expected.size:  # the sizes of what a loop without iterations stacks are open
                    np.testing.assert_allclose(results[output], expected, rtol=2e-6, strict=True)


def test_what_fails_in_a_body_is_told(library: Any) -> None:
    case = next(case for case in CASES.values() if case.fails)
    graph = infuse.optimize(infuse.load(case.proto))
    library([graph])
    with compile_graph(graph, NEVER) as prebuilt, compile_graph(graph) as compiled:
        taken = {spec.name for spec in prebuilt.inputs}
        for feeds in case.fails:
            own = {k: v for k, v in feeds.items() if k in taken}
            with pytest.raises(DataError) as expected:
                compiled.run(own)
            with pytest.raises(DataError) as found:
                prebuilt.run(own)
            assert found.value.what == expected.value.what


def test_unsigned_numbers_of_64_bits_are_whole(library: Any) -> None:
    largest = 2**64 - 1
    graph = parse(f"""graph "net" (%x: uint64[3], %n: int64[1]) {{
      %a = Add(%x, uint64[]{{{largest}}})
      %b = ConstantOfShape(%n, value={largest}, dtype=uint64)
      return a = %a, b = %b
    }}""")
    library([graph])
    feeds = {"x": np.array([1, 5, largest], np.uint64), "n": np.array([2])}
    for name, array in evaluate(graph, feeds).items():
        np.testing.assert_array_equal(run(graph, feeds)[name], array, strict=True)


SHARED = {
    "padding": (
        "%x: uint8[4, 5]",
        'Pad(%x, int64[4]{1, 1, 1, 1}, mode="reflect")',
        "%x: int8[7]",
        'Pad(%x, int64[2]{2, 3}, mode="wrap")',
    ),
    "scatter": (
        "%x: int64[4, 5], %i: int64[2, 2], %u: int64[2, 2]",
        "ScatterElements(%x, %i, %u, axis=0)",
        "%x: float64[3, 4, 2], %i: int64[2, 2, 2], %u: float64[2, 2, 2]",
        "ScatterElements(%x, %i, %u, axis=2)",
    ),
    "tuples of indices": (
        "%x: float32[4, 5], %i: int64[3, 1]",
        "GatherND(%x, %i)",
        "%x: int32[2, 3, 4], %i: int64[2, 3]",
        "GatherND(%x, %i)",
    ),
    "batches": (
        "%x: float64[3, 4, 5], %y: float64[5, 6]",
        "MatMul(%x, %y)",
        "%x: float64[2, 1, 4, 5], %y: float64[1, 3, 5, 6]",
        "MatMul(%x, %y)",
    ),
    "running sums": (
        "%x: float32[4, 5]",
        "CumSum(%x, int64[]{1})",
        "%x: float32[3, 4, 5]",
        "CumSum(%x, int64[]{0}, exclusive=1, reverse=1)",
    ),
    "largest elements": (
        "%x: float32[4, 5]",
        "ArgMax(%x, axis=0)",
        "%x: float32[2, 3, 4]",
        "ArgMax(%x, axis=-1, select_last_index=1)",
    ),
    "triangles": (
        "%x: float32[4, 5]",
        "Trilu(%x, upper=0)",
        "%x: int32[2, 3, 4]",
        "Trilu(%x, int64[]{1}, upper=1)",
    ),
    "pooling": (
        "%x: float64[1, 2, 9]",
        "MaxPool(%x, kernel_shape=(2,))",
        "%x: float64[1, 2, 5, 6]",
        "MaxPool(%x, kernel_shape=(2, 3), storage_order=1)",
    ),
}
"""By what is shared: the inputs and the operator that a library is made for, and those that it runs
besides.
"""


def of_operator(inputs: str, text: str) -> Graph:
    return parse(f'graph "net" ({inputs}) {{ %r = {text} return r = %r }}')


@pytest.mark.parametrize("name", SHARED)
def test_functions_for_one_rank_and_mode_run_others(name: str, library: Any) -> None:
    inputs, text, other_inputs, other = SHARED[name]
    library([of_operator(inputs, text)])
    graph = of_operator(other_inputs, other)
    rng = np.random.default_rng(0)
    feeds = {
        value.name: rng.integers(0, 2, tuple(map(int, map(str, value.shape)))).astype(
            value.dtype.numpy
        )
        for value in graph.inputs
    }
    for output, expected in evaluate(graph, feeds).items():
        np.testing.assert_array_equal(run(graph, feeds)[output], expected, strict=True)


@pytest.mark.parametrize("functions", [("Relu", "Softsign"), ("HardSigmoid", "Affine")])
def test_cells_of_any_functions_share_their_kernel(
    functions: tuple[str, str], library: Any
) -> None:
    def layer(names: tuple[str, str], **how: Any) -> Graph:
        block = Block("gru", (4, 2, 3))
        weights = [np.full((1, 12, k), 0.1, np.float32) for k in (3, 4)]
        attributes = {"hidden_size": 4, "activations": names, **how}
        return block.end(block.add("GRU", block.input, *weights, **attributes))

    library([layer(("Elu", "Tanh"))])
    graph = layer(functions, clip=0.5, direction="reverse")
    feeds = {"x": np.random.default_rng(0).standard_normal((4, 2, 3), np.float32)}
    for output, expected in evaluate(graph, feeds).items():
        np.testing.assert_allclose(run(graph, feeds)[output], expected, rtol=1e-5, atol=1e-6)


def test_a_run_is_ended_by_another_thread(library: Any) -> None:
    library([infuse.optimize(infuse.load(counting()))])
    is_ended_and_goes_on(NEVER)
