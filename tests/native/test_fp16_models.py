"""Models of precision fp16: right for rounded weights, half as large, and what halves do not hold
is told.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse import dtypes
from infuse.build.compile import compile_graph
from infuse.dtypes import DType
from infuse.errors import OptionError
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Value, constant
from infuse.onnxruntime import InferenceSession, SessionOptions
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.runtime.foreign import ForeignModel
from tests.cli_tools import Cli
from tests.native.builder import Builder
from tests.native.foreign import needs_emulator, run_foreign
from tests.native.kernel_tools import targets
from tests.native.test_precision_fp16 import HALVES

pytestmark = pytest.mark.row("R3")
Network = Callable[["Layers"], None]


class Layers(Builder):
    """A graph of float32, or the same of float64 with the weights rounded to halves."""

    def __init__(self, exact: bool = False, scale: float = 1.0) -> None:
        super().__init__()
        self.exact, self.scale, self.weights = exact, scale, 0

    def input(self, *shape: Dim | str, dtype: DType = dtypes.float32, name: str = "") -> Value:
        own = dtypes.float64 if self.exact and dtype == dtypes.float32 else dtype
        return super().input(*shape, dtype=own, name=name)

    def weight(self, *shape: int) -> Value:
        """Weights that the precision may round."""
        numbers = (self.rng.uniform(-1, 1, shape) * self.scale).astype(np.float32)
        self.weights += 1
        return constant(
            numbers.astype(np.float16).astype(np.float64) if self.exact else numbers,
            f"weight {self.weights}",
        )

    def bias(self, *shape: int) -> Value:
        """Constants that stay as they are."""
        numbers = self.rng.uniform(-1, 1, shape).astype(np.float32)
        return constant(numbers.astype(np.float64) if self.exact else numbers)


def graphs(network: Network) -> tuple[Layers, Layers]:
    """What is compiled, and what is evaluated."""
    made, exact = Layers(), Layers(exact=True)
    network(made)
    network(exact)
    return made, exact


def check(found: dict[str, Any], exact: Graph, feeds: dict[str, Any]) -> None:
    wide = {name: a.astype(np.float64) if a.dtype == np.float32 else a for name, a in feeds.items()}
    for name, expected in evaluate(exact, wide).items():
        assert found[name].dtype == np.float32
        size = np.abs(expected).max()
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=2e-6 * size, err_msg=name)


def products(make: Layers) -> None:
    x = make.input("rows", 37)
    hidden = make("Add", make("MatMul", x, make.weight(37, 70)), make.bias(70))
    turned = make(
        "Gemm",
        make("Tanh", hidden),
        make.weight(20, 70),
        make.bias(20),
        transB=1,
        alpha=0.5,
        beta=2.0,
    )
    make.output(turned, make("MatMul", make("Reshape", x, [-1, 1, 37]), make.weight(37, 3)))


def convolutions(make: Layers) -> None:
    x = make.input("n", 3, 20, 20)
    y = make(
        "Relu",
        make("Conv", x, make.weight(40, 3, 5, 5), make.bias(40), strides=(2, 2), pads=(2, 2, 2, 2)),
    )
    make.output(
        make("Conv", y, make.weight(17, 40, 1, 1)),
        make("Conv", y, make.weight(18, 40, 1, 1), strides=(2, 2)),
    )
    make.output(make("Conv", y, make.weight(33, 40, 3, 3), make.bias(33), strides=(2, 2)))
    make.output(
        make("Conv", y, make.weight(40, 10, 3, 3), group=4),
        make("Conv", y, make.bias(40, 1, 3, 3), group=40),
    )
    make.output(make("ConvTranspose", y, make.weight(40, 6, 2, 2), strides=(2, 2)))
    make.output(make("DeformConv", y, make.weight(9, 40, 2, 2), make.input("n", 8, 9, 9)))


def embedding(make: Layers) -> None:
    index = make.input("n", 5, dtype=dtypes.int64, name="index")
    make.output(
        make("Gather", make.weight(30, 21), index),
        make("Gather", make.weight(4, 30, 3), index, axis=1),
    )
    make.output(make("Gather", make.weight(30), index))


def recurrent(make: Layers) -> None:
    x, hidden = make.input(6, "batch", 11), 19
    for kind, gates, given in (
        ("LSTM", 4, {}),
        ("GRU", 3, {"linear_before_reset": 1}),
        ("GRU", 3, {}),
        ("RNN", 1, {}),
    ):
        w, r = make.weight(2, gates * hidden, 11), make.weight(2, gates * hidden, hidden)
        bias = make.bias(2, 2 * gates * hidden)
        given = {"hidden_size": hidden, "direction": "bidirectional", **given}
        make.output(*make.several(3 if kind == "LSTM" else 2, kind, x, w, r, bias, **given))


def feeds_of(make: Layers, sizes: dict[str, int]) -> dict[str, Any]:
    feeds = make.feeds(sizes)
    return {
        n: np.arange(a.size).reshape(a.shape) * 7 % 60 - 30 if n == "index" else a
        for n, a in feeds.items()
    }


NETWORKS = {
    "products": (products, [{"rows": n} for n in (1, 3, 11, 60)]),
    "convolutions": (convolutions, [{"n": 1}, {"n": 3}]),
    "embedding": (embedding, [{"n": 1}, {"n": 20}]),
    "recurrent": (recurrent, [{"batch": 1}, {"batch": 5}]),
}


@pytest.mark.parametrize(
    ("name", "target"),
    [("convolutions", "native"), *product(("products", "embedding", "recurrent"), targets())],
)
def test_the_rounding_of_weights_is_the_only_error(name: str, target: str) -> None:
    network, sizes = NETWORKS[name]
    made, exact = graphs(network)
    with infuse.compile(
        made.graph, infuse.CompileOptions(precision="fp16", target=target, threads=2)
    ) as model:
        assert model.metadata["precision"] == "fp16"
        assert model.metadata["kept_in_fp32"] == {}
        assert model.host_steps == []
        for size in sizes:
            feeds = feeds_of(made, size)
            check(model.run(feeds), exact.graph, feeds)


@pytest.mark.parametrize("tile", [False, True])
def test_a_convolution_of_3_by_3(tile: bool) -> None:
    """Also where transformed weights are stored, whose rounding is not that of the weights."""
    size = 28 if tile else 4
    made, exact = graphs(
        lambda make: make.output(
            make(
                "Conv",
                make.input(1, 64, size, size),
                make.weight(64, 64, 3, 3),
                make.bias(64),
                pads=(1, 1, 1, 1),
            )
        )
    )
    feeds = made.feeds()
    with infuse.compile(made.graph, infuse.CompileOptions(precision="fp16", threads=1)) as model:
        found = model.run(feeds)["y0"]
    expected = evaluate(exact.graph, {"x0": feeds["x0"].astype(np.float64)})["y0"]
    assert np.abs(found - expected).max() <= 2e-3 * np.abs(expected).max()


@needs_emulator
def test_on_another_machine(tmp_path: Path) -> None:
    for number, (network, sizes) in enumerate(
        [(products, {"rows": 60}), (products, {"rows": 2}), (embedding, {"n": 3})]
    ):
        made, exact = graphs(network)
        folder = tmp_path / str(number)
        folder.mkdir()
        better = infuse.optimize(made.graph)
        model = compile_graph(
            better, CompileOptions(target="aarch64", precision="fp16"), output=folder / "model"
        )
        assert isinstance(model, ForeignModel)
        feeds = feeds_of(made, sizes)
        check(run_foreign(model, feeds, folder), exact.graph, feeds)


@needs_emulator
def test_halves_are_exact_on_another_machine(tmp_path: Path) -> None:
    make = Builder()
    make.output(make("Cast", make.input("n", dtype=dtypes.float16), to=dtypes.float32))
    make.output(make("Cast", make.input("n"), to=dtypes.float16))
    model = compile_graph(
        infuse.optimize(make.graph), CompileOptions(target="aarch64"), output=tmp_path / "model"
    )
    assert isinstance(model, ForeignModel)
    wide = np.random.default_rng(0).integers(0, 1 << 32, HALVES.size, np.uint32).view(np.float32)
    with np.errstate(invalid="ignore"):
        wide[: 1 << 15] = HALVES[: 1 << 15].astype(np.float32) * np.float32(1 + 2.0**-11)
    found = run_foreign(model, {"x0": HALVES, "x1": wide}, tmp_path)
    np.testing.assert_array_equal(found["y0"], HALVES.astype(np.float32))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found["y1"], wide.astype(np.float16))


# ---- size, and what halves do not hold


def test_weights_take_half_of_the_memory(tmp_path: Path) -> None:
    make = Builder()
    x = make("Gather", make.weight(500, 128), make.input("n", dtype=dtypes.int64))
    make.output(
        make("MatMul", make("Relu", make("MatMul", x, make.weight(128, 256))), make.weight(256, 64))
    )
    for precision in ("fp32", "fp16"):
        infuse.compile(
            make.graph, infuse.CompileOptions(precision=precision), output=tmp_path / precision
        ).close()
    full, half = ((tmp_path / name / "weights.bin").stat().st_size for name in ("fp32", "fp16"))
    assert full == 4 * (500 * 128 + 128 * 256 + 256 * 64)
    assert half == full // 2


def test_stages_tell_what_stays_as_it_is(rng: np.random.Generator) -> None:
    """Also where the interpreter has a part of the model."""
    make = Builder()
    y = make(
        "MatMul",
        make.input(3, 8),
        constant(rng.uniform(-1e6, 1e6, (8, 8)).astype(np.float32), "large"),
    )
    make.output(make("Add", y, make("RandomUniform", shape=(3, 8), dtype=dtypes.float32)))
    with infuse.compile(make.graph, infuse.CompileOptions(precision="fp16")) as model:
        assert model.host_steps
        assert model.metadata["precision"] == "fp16"
        assert list(model.metadata["kept_in_fp32"]) == ["large"]


@pytest.mark.parametrize(
    ("scale", "reason"), [(1e6, "more than halves hold"), (1e-7, "halves lose bits")]
)
def test_tensors_that_do_not_fit_stay_as_they_are(scale: float, reason: str) -> None:
    def network(make: Layers) -> None:
        index = make.input(5, dtype=dtypes.int64, name="index")
        y = make("Gather", make.weight(30, 21), index)
        make.output(make("MatMul", y, make.weight(21, 40)))

    made = Layers(scale=scale)
    network(made)
    feeds = {"index": np.arange(5)}
    with (
        infuse.compile(made.graph, infuse.CompileOptions(precision="fp16")) as half,
        infuse.compile(made.graph) as full,
    ):
        kept = half.metadata["kept_in_fp32"]
        assert sorted(kept) == ["weight 1", "weight 2"]
        assert all(reason in why for why in kept.values())
        np.testing.assert_array_equal(half.run(feeds)["y0"], full.run(feeds)["y0"])
        assert half.metadata["weights_bytes"] == full.metadata["weights_bytes"]


def test_a_tensor_that_fits_is_rounded_beside_one_that_does_not() -> None:
    make = Builder()
    x = make.input(3, 64)
    large, small = (
        constant(make.rng.uniform(-1e5, 1e5, (64, 64)).astype(np.float32), "large"),
        make.weight(64, 64),
    )
    make.output(make("MatMul", x, large), make("MatMul", x, small))
    with infuse.compile(make.graph, infuse.CompileOptions(precision="fp16")) as model:
        assert list(model.metadata["kept_in_fp32"]) == ["large"]
        assert model.metadata["weights_bytes"] == 64 * 64 * (4 + 2)


# ---- where the precision is asked for


@pytest.fixture
def network(tmp_path: Path) -> Path:
    make = Builder()
    large = constant(make.rng.uniform(-1e5, 1e5, (64, 64)).astype(np.float32), "large")
    y = make(
        "MatMul", make("Softmax", make("MatMul", make.input(3, 64), make.weight(64, 64))), large
    )
    make.output(y)
    infuse.save(make.graph, tmp_path / "network.infuse")
    return tmp_path / "network.infuse"


def test_commands_take_the_precision(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(capsys)
    made = cli(
        "compile",
        network,
        "-o",
        tmp_path / "half",
        "--precision",
        "fp16",
        "--target",
        "x86-64-v3",
        "--json",
    ).json
    assert made["precision"] == "fp16"
    assert list(made["kept_in_fp32"]) == ["large"]
    assert made["files"]["weights.bin"] == 64 * 64 * (4 + 2)
    facts = cli(
        "bench", network, "--precision", "fp16", "--rounds", 1, "--seconds", 0, "--json"
    ).json
    assert facts["precision"] == "fp16"
    assert 1e-6 < facts["cases"][0]["difference_from_fp32"] < 2e-3
    assert cli("profile", network, "--precision", "fp16", "--runs", 1, "--json").json


def test_show_tells_the_kernels_of_a_precision(
    network: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(capsys)
    full, half = (
        cli("show", network, "--kernels", "--precision", name, "--json").json["kernels"]
        for name in ("fp32", "fp16")
    )
    assert full["packed_weights_bytes"] == 2 * 64 * 64 * 4
    assert half["packed_weights_bytes"] == 64 * 64 * (4 + 2)
    assert full["kept_in_fp32"] == {}
    assert list(half["kept_in_fp32"]) == ["large"]
    shown = cli("show", network, "--kernels", "--precision", "fp16").out
    assert "precision fp16" in shown
    assert "stays in float32: large: the magnitude" in shown
    assert "no precision 'fp8'" in cli.refused("show", network, "--kernels", "--precision", "fp8")


def test_sessions_take_the_precision(network: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    options = SessionOptions()
    options.precision = "fp16"
    with infuse.compile(network, infuse.CompileOptions(precision="fp16")) as model:
        expected = model.run({"x0": x})["y0"]
    for session in (
        InferenceSession(network, options),
        InferenceSession(network, precision="fp16"),
    ):
        np.testing.assert_array_equal(session.run(None, {"x0": x})[0], expected)
    assert not np.array_equal(InferenceSession(network).run(None, {"x0": x})[0], expected)
    with pytest.raises(OptionError, match="no precision 'half'"):
        InferenceSession(network, precision="half")
    infuse.compile(network, output=tmp_path / "folder").close()
    with pytest.raises(OptionError, match="compiled already"):
        InferenceSession(tmp_path / "folder", precision="fp16")
