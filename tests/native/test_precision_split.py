"""Models of precision bf16x2: products of operands that are split into two bfloat16 each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import infuse
from infuse.build.staged import generate
from infuse.errors import OptionError
from infuse.ir.graph import Value
from infuse.lowering.choice import Chooser, Key
from infuse.lowering.precisions import supported
from infuse.targets import Target
from infuse.targets.cpu.emit.functions import kernels_in
from tests.cli_tools import Cli
from tests.native.auto_precision import Clock, compiled, precisions, random_rows, sensitive
from tests.native.builder import Builder
from tests.native.kernel_tools import Doubles, has_target
from tests.native.test_precision_bf16 import Operation
from tests.support.emulation import NEWEST, emulated, obstacle, resolve as emulated_target

pytestmark = pytest.mark.row("R3")
UNIT = 2.0**-16


def forced(key: Key) -> str | None:
    return next((name for name in key.names if "bf16" in name), None)


@pytest.fixture
def tile_processor(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The target "native" has tile registers, or emulates them, and every product that may be split
    is, also where float32 would be as fast.
    """
    if not has_target(NEWEST):
        pytest.skip(f"this processor has no AMX; {obstacle()}")

    monkeypatch.setattr("infuse.build.compile.Chooser", partial(Chooser, forced=forced))
    with emulated(*(emulated_target(NEWEST).features - Target.resolve("x86-64-v4").features)):
        yield


def kernels(make: Builder, precision: str) -> list[str]:
    """What the steps call that multiply."""
    target = Target.resolve()
    chooser = Chooser(target.machine, forced=forced)
    program, _ = generate(infuse.optimize(make.graph), target, precision=precision, chooser=chooser)
    names = [kernels_in(step.function) for step in program.steps]
    return [name for name in names if name.startswith(("gemm", "conv", "matmul"))]


def check_model(
    make: Builder, product: Operation, w: Value, c: Value | None, sizes: list[dict[str, int]]
) -> None:
    """y0 is the product of x0 and w, plus c, as near as what the kernel promises, and nearer than
    operands rounded to bfloat16 would be.
    """
    assert w.const is not None
    weights = w.const.astype(np.float64)
    addend = np.zeros(1) if c is None or c.const is None else c.const.astype(np.float64)
    with infuse.compile(make.graph, infuse.CompileOptions(precision="bf16x2", threads=2)) as model:
        assert model.metadata["precision"] == "bf16x2"
        for size in sizes:
            feeds = make.feeds(size)
            x, result = feeds["x0"].astype(np.float64), model.run(feeds)["y0"]
            magnitude = product(np.abs(x), np.abs(weights), np.abs(addend))
            error = np.abs(result - product(x, weights, addend))
            assert result.dtype == np.float32
            assert np.all(error <= 4 * UNIT * magnitude)
            assert error.max() > 2.0**-24 * magnitude.max(), "nothing was split"


@pytest.mark.usefixtures("tile_processor")
@pytest.mark.parametrize(("k", "n"), [(7, 5), (64, 33), (31, 96), (768, 40)])
def test_matmul(k: int, n: int) -> None:
    make = Builder()
    x, w = make.input("batch", "rows", k), make.weight(k, n)
    make.output(make("MatMul", x, w))
    sizes = [{"batch": 1, "rows": 1}, {"batch": 2, "rows": 3}, {"batch": 3, "rows": 17}]
    check_model(make, lambda x, w, c: x @ w + c, w, None, sizes)


@pytest.mark.usefixtures("tile_processor")
def test_gemm_of_a_turned_matrix() -> None:
    make = Builder()
    x, w, c = make.input("rows", 37), make.weight(20, 37), make.weight(20)
    make.output(make("Gemm", x, w, c, transB=1, alpha=0.5, beta=2.0))
    check_model(make, lambda x, w, c: 0.5 * (x @ w.T) + 2 * c, w, c, [{"rows": 1}, {"rows": 29}])


@pytest.mark.usefixtures("tile_processor")
@pytest.mark.parametrize("channels", [9, 32, 64])
@pytest.mark.parametrize(("kernel", "stride"), [((1, 1), 1), ((1, 1), 2), ((5, 3), 1), ((3, 3), 2)])
def test_convolution(kernel: tuple[int, int], stride: int, channels: int) -> None:
    """Where channels are no whole blocks, windows stay in float32."""
    make = Builder()
    x, w = make.input("n", channels, 12, 12), make.weight(18, channels, *kernel)
    c = make.weight(18)
    make.output(make("Conv", x, w, c, strides=(stride, stride)))

    def product(x: Doubles, w: Doubles, c: Doubles) -> Doubles:
        windows = sliding_window_view(x, kernel, axis=(2, 3))[:, :, ::stride, ::stride]
        addend = c if c.size > 1 else np.zeros(18)
        result: Doubles = np.einsum("nchwij,ocij->nohw", windows, w) + addend[:, None, None]
        return result

    splits = any("bf16x2" in kernel for kernel in kernels(make, "bf16x2"))
    assert splits or channels == 9
    if splits:
        check_model(make, product, w, c, [{"n": 1}, {"n": 2}])


@pytest.mark.usefixtures("tile_processor")
@pytest.mark.parametrize(("precision", "unit"), [("bf16", 2.01 * 2.0**-8), ("bf16x2", 4 * UNIT)])
def test_elementwise_work_before_points_is_done_as_rows_are_packed(
    precision: str, unit: float
) -> None:
    """As in networks that normalize before they convolve (DenseNet)."""
    make = Builder()
    scale, shift = make.weight(40, 1, 1), make.weight(40, 1, 1)
    x = make("Relu", make("Add", make("Mul", make.input("n", 40, 6, 7), scale), shift))
    weights = make.weight(33, 40, 1, 1)
    make.output(make("Conv", x, weights))
    feeds = make.feeds({"n": 2})
    (kernel,) = kernels(make, precision)
    assert kernel == f"gemm_made_{precision}"
    with infuse.compile(make.graph, infuse.CompileOptions(precision=precision, threads=1)) as model:
        result = model.run(feeds)["y0"]
    assert scale.const is not None
    assert shift.const is not None
    assert weights.const is not None
    rows = feeds["x0"].astype(np.float64) * scale.const + shift.const
    rows, filters = np.maximum(rows, 0), weights.const[:, :, 0, 0].astype(np.float64)
    exact = np.einsum("nchw,oc->nohw", rows, filters)
    magnitude = np.einsum("nchw,oc->nohw", rows, np.abs(filters))
    assert (np.abs(result - exact) <= unit * magnitude + 1e-6).all()


@pytest.mark.usefixtures("tile_processor")
def test_products_without_terms_are_zeros() -> None:
    make = Builder()
    make.output(make("MatMul", make.input(3, 0), np.zeros((0, 5), np.float32)))
    with infuse.compile(make.graph, infuse.CompileOptions(precision="bf16x2")) as model:
        result = model.run({"x0": np.zeros((3, 0), np.float32)})["y0"]
    np.testing.assert_array_equal(result, np.zeros((3, 5), np.float32))


@pytest.mark.usefixtures("tile_processor")
@pytest.mark.parametrize(("precision", "unit"), [("bf16", 2.01 * 2.0**-8), ("bf16x2", 4 * UNIT)])
@pytest.mark.parametrize("turned", [False, True])
def test_products_of_computed_operands(precision: str, unit: float, turned: bool) -> None:
    """Of batches that broadcast, whose sizes only the run tells, with an activation behind."""
    make = Builder()
    x = make.input("batch", 1, "rows", "depth")
    y = make.input(*(1, 3), *(("columns", "depth") if turned else ("depth", "columns")))
    right = make("Transpose", y, perm=(0, 1, 3, 2)) if turned else y
    make.output(make("Relu", make("MatMul", x, right)))
    assert kernels(make, precision) == [f"matmul_{precision}"]
    with infuse.compile(make.graph, infuse.CompileOptions(precision=precision, threads=2)) as model:
        for batch, rows, depth, columns in ((2, 40, 70, 33), (1, 100, 7, 64), (3, 3, 40, 1)):
            sizes = {"batch": batch, "rows": rows, "depth": depth, "columns": columns}
            feeds = make.feeds(sizes)
            a, b = (feeds[name].astype(np.float64) for name in ("x0", "x1"))
            b = b.transpose(0, 1, 3, 2) if turned else b
            error = np.abs(model.run(feeds)["y0"] - np.maximum(a @ b, 0))
            assert np.all(error <= unit * (np.abs(a) @ np.abs(b)))


@pytest.mark.usefixtures("tile_processor")
def test_everything_else_stays_in_float32() -> None:
    make = Builder()
    x = make.input(4, 33)
    normal = make("LayerNormalization", x, np.ones(33, np.float32), np.zeros(33, np.float32))
    make.output(make("Softmax", make("Add", normal, x)))
    feeds = make.feeds()
    with (
        infuse.compile(make.graph, infuse.CompileOptions(precision="bf16x2")) as split,
        infuse.compile(make.graph) as full,
    ):
        np.testing.assert_array_equal(split.run(feeds)["y0"], full.run(feeds)["y0"])


@pytest.mark.usefixtures("tile_processor")
@pytest.mark.parametrize(("bound", "delicate"), [(1e-1, "bf16x2"), (1e-7, "fp32")])
def test_it_is_found_where_bfloat16_loses_too_much(bound: float, delicate: str) -> None:
    make = sensitive()
    clock = Clock(bf16=0.97, fp16=0.97, bf16x2=0.5)
    with compiled(make.graph, bound, random_rows(make), clock) as model:
        assert precisions(model)["delicate"] == delicate
        report = model.metadata["precision_report"]
    assert clock.asked[0] == ["fp32", "bf16x2", "bf16", "fp16"]
    assert 0 < report["differences"]["bf16x2"] < report["differences"]["bf16"] / 50


@pytest.mark.usefixtures("tile_processor")
def test_commands_take_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make = Builder()
    make.output(make("Softmax", make("MatMul", make.input(3, 64), make.weight(64, 64))))
    network, cli = tmp_path / "network.infuse", Cli(capsys)
    infuse.save(make.graph, network)
    times = "--rounds", 1, "--seconds", 0, "--json"
    facts = cli("bench", network, "--precision", "bf16x2", *times).json
    assert facts["precision"] == "bf16x2"
    assert 0 < facts["cases"][0]["difference_from_fp32"] < 1e-4
    profile = cli("profile", network, "--precision", "bf16x2", "--json").json
    assert "gemm_bf16x2" in {row["kernel"] for row in profile["rows"]}


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v4", "x86-64-v4+avx512_bf16"])
def test_targets_without_tile_registers_are_refused(target: str) -> None:
    make = Builder()
    make.output(make("Relu", make.input(3)))
    with pytest.raises(OptionError, match="bf16x2 needs a processor whose tile registers"):
        infuse.compile(make.graph, infuse.CompileOptions(precision="bf16x2", target=target))
    assert "bf16x2" not in supported(Target.resolve(target))
    assert "bf16x2" in supported(Target.resolve(NEWEST))
