"""Models for 64-bit ARM: refused where they cannot run, and right where an emulator runs them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse import dtypes
from infuse.build.collecting import collected
from infuse.build.compile import compile_graph
from infuse.build.prebuilt import make_prebuilt
from infuse.build.toolchain import Toolchain
from infuse.dtypes import DType
from infuse.errors import CompiledModelError, OptionError
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.runtime.cpus import architecture
from infuse.runtime.foreign import ForeignModel
from infuse.targets import Target
from tests.native.builder import Builder
from tests.native.foreign import ForeignFailure, as_program, needs_emulator, run_foreign
from tests.native.op_cases import GROUPS, check, members, native_cases
from tests.native.test_quantized import quantized_network

TARGET = "aarch64"
VECTORS = {"sve128": "max,sve128=on", "sve256": "max,sve256=on"}
"""Processors of the emulator whose vectors have the length that a target states."""
elsewhere = pytest.mark.skipif(architecture() == TARGET, reason="this machine runs such models")
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


def compiled(
    graph: Graph, folder: Path, target: str = TARGET, precision: str = "fp32"
) -> ForeignModel:
    model = compile_graph(
        graph, CompileOptions(target=target, precision=precision), output=folder / "model"
    )
    assert isinstance(model, ForeignModel)
    return model


@elsewhere
def test_a_model_for_another_machine_needs_a_folder_and_no_interpreter(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="name a folder"):
        infuse.compile(network(), infuse.CompileOptions(target=TARGET))
    make = Builder()
    make.output(make("RandomNormal", shape=(3,), dtype=dtypes.float32))
    with pytest.raises(OptionError, match="RandomNormal"):
        infuse.compile(make.graph, infuse.CompileOptions(target=TARGET), output=tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("name", ["wasm32", "windows", "linux-armv7", "linux-x86_64-musl"])
def test_prebuilt_kernels_need_linux_and_addresses_of_64_bits(name: str, tmp_path: Path) -> None:
    target = Target.resolve(name)
    with pytest.raises(OptionError, match=f"no libraries of prebuilt kernels for .*{name}"):
        make_prebuilt(collected(target, (), []), target, tmp_path / "kernels.so")


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
        np.testing.assert_array_equal(
            found["y1"], np.array(np.nonzero(found["y0"] > np.float32(0.04)))
        )


@needs_emulator
@pytest.mark.parametrize("vectors", ["", "sve256"])
def test_special_numbers_become_the_same_integers(
    vectors: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clipped to the range of their type, or as x86 converts them."""
    monkeypatch.setenv("QEMU_CPU", VECTORS.get(vectors, "max"))
    special = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.5,
        126.5,
        127.5,
        -128.5,
        254.5,
        255.5,
        300.0,
        -300.0,
        32768.0,
    ]
    special += [1e-40, -1e-40, 2147483520.0, 2147483648.0, -2147483648.0, -2147483904.0, 3e38]
    special += [np.inf, -np.inf, np.nan]
    x = np.tile(np.array(special, np.float32), 3)
    make = Builder()
    value = make.input(len(x), name="x")
    scale = np.float32(1)
    points = [np.uint8(0), np.uint8(3), np.int8(0), np.int8(-5)]
    quantized = [make("QuantizeLinear", value, scale, np.asarray(point)) for point in points]
    clipped = make("Clip", value, np.float32(-128), np.float32(127))
    casts = [
        make("Cast", value, to=t) for t in (dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.int32)
    ]
    make.output(*quantized, *casts, make("Cast", clipped, to=dtypes.int8))
    target = f"{TARGET}+{vectors}" if vectors else TARGET
    results = run_foreign(compiled(make.graph, tmp_path, target), {"x": x}, tmp_path)
    for name, expected in evaluate(make.graph, {"x": x}).items():
        np.testing.assert_array_equal(results[name], expected, err_msg=name)


ROWS, DEPTHS, COLUMNS = (
    (1, 2, 3, 5, 7, 8, 9, 11, 13, 17, 23, 40),
    (1, 2, 3, 4, 5, 7, 16, 18, 19, 67, 601),
    (1, 3, 4, 5, 8, 9, 12, 13, 16, 17, 20, 33, 50),
)


@needs_emulator
@pytest.mark.parametrize("vectors", ["", "sve256"])
def test_products_of_all_sizes(
    vectors: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Tiles of fewer rows, depths that four do not divide, parts of a vector."""
    monkeypatch.setenv("QEMU_CPU", VECTORS.get(vectors, "max"))
    make, feeds, expected, bounds = Builder(), {}, [], []
    sizes = [
        (ROWS[i % len(ROWS)], DEPTHS[i % len(DEPTHS)], COLUMNS[i % len(COLUMNS)]) for i in range(40)
    ]
    outputs = []
    for number, (m, k, n) in enumerate(sizes):
        name = f"x{number}"
        feeds[name] = rng.uniform(-1, 1, (m, k)).astype(np.float32)
        weight = rng.uniform(-1, 1, (k, n)).astype(np.float32)
        outputs.append(make("MatMul", make.input(m, k, name=name), weight))
        left, right = feeds[name].astype(np.float64), weight.astype(np.float64)
        expected.append(left @ right)
        bounds.append((k + 2) * 2.0**-24 * (np.abs(left) @ np.abs(right)))
    make.output(*outputs)
    target = f"{TARGET}+{vectors}" if vectors else TARGET
    results = run_foreign(compiled(make.graph, tmp_path, target), feeds, tmp_path)
    for number, (value, bound) in enumerate(zip(expected, bounds)):
        assert (np.abs(results[f"y{number}"] - value) <= bound).all(), sizes[number]


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


@needs_emulator
@pytest.mark.parametrize("dtype", [dtypes.uint8, dtypes.int8], ids=str)
@pytest.mark.parametrize("unit", ["asimddp", "i8mm", "sve256"])
def test_integers_are_multiplied_by_units_for_dot_products(
    unit: str, dtype: DType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products, windows and filters of one channel, beside the same code without the units, which
    is exact.
    """
    monkeypatch.setenv("QEMU_CPU", VECTORS.get(unit, "max"))
    quantized = quantized_network(dtype)
    graph, feeds = infuse.optimize(quantized.graph), quantized.feeds()
    model = compiled(graph, tmp_path / unit, f"{TARGET}+{unit}")
    assert unit in model.metadata["cpu_features"]
    assert "U8S8x4" in (model.folder / "model.cpp").read_text()
    plain = compiled(graph, tmp_path / "plain")
    results = [run_foreign(one, feeds, tmp_path) for one in (model, plain)]
    for name, expected in results[1].items():
        np.testing.assert_array_equal(results[0][name], expected)


@needs_emulator
@pytest.mark.parametrize("vectors", ["", "+sve256"])
def test_bfloat16_is_multiplied_by_its_unit(
    vectors: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QEMU_CPU", VECTORS.get(vectors[1:], "max"))
    graph, rng = network(), np.random.default_rng(0)
    model = compiled(graph, tmp_path, f"{TARGET}+bf16{vectors}", "bf16")
    x = rng.standard_normal((3, 5, 20, 20)).astype(np.float32)
    expected, actual = evaluate(graph, {"x": x})["y0"], run_foreign(model, {"x": x}, tmp_path)["y0"]
    assert np.abs(actual - expected).max() < 0.02 * np.abs(expected).max()
    with pytest.raises(OptionError, match="bf16 needs a processor"):
        compiled(graph, tmp_path / "plain", precision="bf16")


@needs_emulator
@pytest.mark.parametrize(
    ("name", "precision"),
    [("sve128", "fp32"), ("sve256", "fp32"), ("sve256", "fp16"), ("sve2+sve256", "fp32")],
)
def test_vectors_have_the_length_that_a_target_states(
    name: str, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QEMU_CPU", VECTORS[name.rpartition("+")[2]])
    graph = network()
    model = compiled(graph, tmp_path, f"{TARGET}+{name}", precision)
    x = np.random.default_rng(0).standard_normal((3, 5, 20, 20)).astype(np.float32)
    x[0, 0, :2, :3] = [[np.inf, -0.0, 1e-40], [-np.inf, np.nan, -1e-40]]
    expected, actual = evaluate(graph, {"x": x})["y0"], run_foreign(model, {"x": x}, tmp_path)["y0"]
    near = 2e-4 if precision == "fp32" else 5e-2
    np.testing.assert_allclose(actual, expected, rtol=near, atol=1e-6)


@needs_emulator
@pytest.mark.parametrize("processor", [VECTORS["sve128"], "max,sve512=on", "max,sve=off"])
def test_vectors_of_another_length_are_refused(
    processor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QEMU_CPU", processor)
    make = Builder()
    make.output(make("Relu", make.input(3, name="x")))
    model = compiled(make.graph, tmp_path, f"{TARGET}+sve256")
    with pytest.raises(ForeignFailure, match=r"SVE vectors of 256 bits|has no sve"):
        run_foreign(model, {"x": np.ones(3, np.float32)}, tmp_path)


@pytest.mark.full
@needs_emulator
@pytest.mark.parametrize("name", ["", *VECTORS])
@pytest.mark.parametrize("group", GROUPS)
def test_operators_agree_on_another_machine(
    group: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The short table of operators, emulated."""
    monkeypatch.setenv("QEMU_CPU", VECTORS.get(name, "max"))
    target = f"{TARGET}+{name}" if name else TARGET

    def run(graph: Graph, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        return run_foreign(compiled(graph, tmp_path, target), feeds, tmp_path, 1)

    check(native_cases(members(group), full=False), run=run)


@needs_emulator
@pytest.mark.row("X1")
@pytest.mark.parametrize("target", [TARGET, f"{TARGET}+asimddp+i8mm"])
def test_prebuilt_kernels_run_a_program(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    graph, resolved = infuse.optimize(network()), Target.resolve(target)
    kernels, functions = tmp_path / "kernels.so", collected(resolved, (), [graph])
    make_prebuilt(functions, resolved, kernels, toolchain=Toolchain.portable())
    model = as_program(graph, kernels, target, tmp_path / "model", monkeypatch)
    for n in (2, 1):
        feeds = {"x": rng.standard_normal((n, 5, 20, 20)).astype(np.float32)}
        results = run_foreign(model, feeds, tmp_path, kernels=kernels)
        for name, expected in evaluate(graph, feeds).items():
            np.testing.assert_allclose(results[name], expected, rtol=2e-5, atol=1e-6)
