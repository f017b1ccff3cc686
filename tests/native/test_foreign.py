"""Models for 64-bit ARM: refused where they cannot run, and right where an emulator runs them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse import dtypes
from infuse.codegen.compile import compile_graph
from infuse.codegen.foreign import ForeignModel
from infuse.errors import CompiledModelError, OptionError
from infuse.ir.graph import Graph
from infuse.ops.evaluate import evaluate
from infuse.runtime.cpus import machine
from tests.native.builder import Builder
from tests.native.foreign import ForeignFailure, needs_emulator, run_foreign
from tests.native.test_op_table import GROUPS, check, members, native_cases

TARGET = "aarch64"
elsewhere = pytest.mark.skipif(machine() == TARGET, reason="this machine runs such models")
pytestmark = pytest.mark.row("R6")


def network() -> Graph:
    make = Builder()
    x = make.input("n", 5, 20, 20, name="x")
    y = make("Relu", make("Conv", x, make.weight(40, 5, 3, 3), make.weight(40), pads=(1, 1, 1, 1)))
    y = make("Swish", make("Conv", y, make.weight(40, 1, 3, 3), None, group=40, strides=(2, 2)))
    y = make("Add", make("Conv", y, make.weight(40, 40, 3, 3), None, pads=(1, 1, 1, 1)), y)
    y = make("GlobalAveragePool", y)
    y = make("Softmax", make("Gemm", make("Flatten", y), make.weight(40, 33), make.weight(33)))
    make.output(y, make("NonZero", make("Greater", y, np.float32(0.04))))
    return make.graph


def compiled(graph: Graph, folder: Path) -> ForeignModel:
    model = compile_graph(graph, target=TARGET, output=folder / "model")
    assert isinstance(model, ForeignModel)
    return model


@elsewhere
def test_a_model_for_another_machine_needs_a_folder_and_no_interpreter(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="name a folder"):
        infuse.compile(network(), target=TARGET)
    make = Builder()
    make.output(make("RandomNormal", shape=(3,), dtype=dtypes.float32))
    with pytest.raises(OptionError, match="RandomNormal"):
        infuse.compile(make.graph, target=TARGET, output=tmp_path / "model")
    assert not (tmp_path / "model").exists()


@needs_emulator
def test_a_network_runs_on_another_machine(tmp_path: Path) -> None:
    graph = network()
    model = compiled(graph, tmp_path)
    assert model.metadata["machine"] == TARGET
    with pytest.raises(OptionError, match="does not run here"):
        model.run({})
    with pytest.raises(CompiledModelError, match="built for aarch64"):
        infuse.load_compiled(model.folder)
    for count, threads in ((1, 1), (3, 2)):
        x = np.random.default_rng(count).standard_normal((count, 5, 20, 20)).astype(np.float32)
        wanted, found = evaluate(graph, {"x": x}), run_foreign(model, {"x": x}, tmp_path, threads)
        np.testing.assert_allclose(found["y0"], wanted["y0"], rtol=2e-4, atol=1e-6)
        np.testing.assert_array_equal(found["y1"], np.array(np.nonzero(found["y0"] > np.float32(0.04))))


@needs_emulator
def test_failures_cross_over(tmp_path: Path) -> None:
    make = Builder()
    x, index = make.input(4, 3, name="x"), make.input(1, dtype=dtypes.int64, name="index")
    make.output(make("Gather", x, index, axis=0))
    model = compiled(make.graph, tmp_path)
    x_rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_array_equal(
        run_foreign(model, {"x": x_rows, "index": np.array([-1])}, tmp_path)["y0"], x_rows[3:]
    )
    with pytest.raises(ForeignFailure, match="index lies outside"):
        run_foreign(model, {"x": x_rows, "index": np.array([4])}, tmp_path)


@pytest.mark.full
@needs_emulator
@pytest.mark.parametrize("group", GROUPS)
def test_operators_agree_on_another_machine(group: str, tmp_path: Path) -> None:
    """The short table of operators, emulated."""

    def run(graph: Graph, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        return run_foreign(compiled(graph, tmp_path), feeds, tmp_path, 1)

    check(native_cases(members(group), full=False), run=run)
