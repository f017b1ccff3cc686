"""Models of precision bf16: products of operands rounded to bfloat16."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import infuse
from infuse import dtypes
from infuse.build.staged import generate
from infuse.errors import OptionError
from infuse.ir.graph import Value
from infuse.lowering.choice import Chooser, Key
from infuse.lowering.tensors import Tensor
from infuse.targets import Target
from tests.cli_tools import Cli
from tests.native.builder import Builder
from tests.native.kernel_tools import Doubles, rounded
from tests.native.test_kernels_attention import reference

pytestmark = pytest.mark.row("R3")
Rng = np.random.Generator


# ---- models

Operation = Callable[[Doubles, Doubles, Doubles], Doubles]


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every product that may be rounded is, also where float32 would be as fast."""

    def forced(key: Key) -> str | None:
        return next((name for name in key.names if name.endswith("bf16")), None)

    monkeypatch.setattr("infuse.build.compile.Chooser", partial(Chooser, forced=forced))


def check_model(
    make: Builder, product: Operation, w: Value, c: Value | None, sizes: list[dict[str, int]]
) -> None:
    """y0 is the product of x0 and w, plus c: right for rounded operands, and near to what exact
    operands give.

    Two rounded operands of relative error 2⁻⁸ each make one of twice that in every product.
    """
    assert w.const is not None
    weights = w.const.astype(np.float64)
    addend = np.zeros(1) if c is None or c.const is None else c.const.astype(np.float64)
    with infuse.compile(make.graph, infuse.CompileOptions(precision="bf16", threads=2)) as model:
        assert model.metadata["precision"] == "bf16"
        for size in sizes:
            feeds = make.feeds(size)
            x, found = feeds["x0"].astype(np.float64), model.run(feeds)["y0"]
            magnitude = product(np.abs(x), np.abs(weights), np.abs(addend))
            assert found.dtype == np.float32
            near = product(rounded(x), rounded(weights), addend)
            assert np.all(np.abs(found - near) <= 2.0**-17 * magnitude)
            true = product(x, weights, addend)
            assert np.all(np.abs(found - true) <= 2.01 * 2.0**-8 * magnitude)
            assert np.abs(found - true).max() > 2.0**-20 * magnitude.max(), "nothing was rounded"


@pytest.mark.usefixtures("bf16_processor", "rounds")
@pytest.mark.parametrize(("k", "n"), [(1, 1), (7, 5), (64, 33), (31, 96), (768, 40)])
def test_matmul(k: int, n: int) -> None:
    make = Builder()
    x, w = make.input("batch", "rows", k), make.weight(k, n)
    make.output(make("MatMul", x, w))
    sizes = [{"batch": 1, "rows": 1}, {"batch": 2, "rows": 3}, {"batch": 3, "rows": 17}]
    check_model(make, lambda x, w, c: x @ w + c, w, None, sizes)


@pytest.mark.usefixtures("bf16_processor", "rounds")
def test_gemm_of_a_turned_matrix() -> None:
    make = Builder()
    x, w, c = make.input("rows", 37), make.weight(20, 37), make.weight(20)
    make.output(make("Gemm", x, w, c, transB=1, alpha=0.5, beta=2.0))
    check_model(make, lambda x, w, c: 0.5 * (x @ w.T) + 2 * c, w, c, [{"rows": 1}, {"rows": 29}])


@pytest.mark.usefixtures("bf16_processor", "rounds")
def test_matmul_of_columns() -> None:
    make = Builder()
    x, w = make.input("rows", 30, 8), make.weight(30, 11)
    make.output(make("MatMul", make("Transpose", x, perm=(0, 2, 1)), w))
    check_model(
        make, lambda x, w, c: x.transpose(0, 2, 1) @ w + c, w, None, [{"rows": 1}, {"rows": 4}]
    )


@pytest.mark.usefixtures("bf16_processor", "rounds")
@pytest.mark.parametrize(("kernel", "stride"), [((1, 1), 1), ((1, 1), 2), ((5, 3), 1)])
def test_convolution(kernel: tuple[int, int], stride: int) -> None:
    make = Builder()
    x, w, c = make.input("n", 9, 12, 12), make.weight(18, 9, *kernel), make.weight(18)
    make.output(make("Conv", x, w, c, strides=(stride, stride)))

    def product(x: Doubles, w: Doubles, c: Doubles) -> Doubles:
        windows = sliding_window_view(x, kernel, axis=(2, 3))[:, :, ::stride, ::stride]
        result: Doubles = np.einsum("nchwij,ocij->nohw", windows, w) + c[:, None, None]
        return result

    check_model(
        make,
        lambda x, w, c: product(x, w, c if c.size > 1 else np.zeros(18)),
        w,
        c,
        [{"n": 1}, {"n": 2}],
    )


@pytest.mark.usefixtures("bf16_processor")
def test_windows_with_gaps_have_no_tiles(rng: Rng) -> None:
    """They would be read as if they had none, and would cost least."""
    make = Builder()
    x, w = make.input(1, 64, 28, 28), make.weight(64, 64, 3, 3)
    make.output(make("Conv", x, w, pads=(2, 2, 2, 2), dilations=(2, 2)))
    image = rng.standard_normal((1, 64, 28, 28), np.float32)
    padded = np.pad(image, ((0, 0), (0, 0), (2, 2), (2, 2))).astype(np.float64)
    windows = sliding_window_view(padded, (5, 5), axis=(2, 3))[..., ::2, ::2]
    assert w.const is not None
    exact = np.einsum("nchwij,ocij->nohw", windows, w.const.astype(np.float64), optimize=True)
    with infuse.compile(make.graph, infuse.CompileOptions(precision="bf16", threads=1)) as model:
        found = model.run({"x0": image})["y0"]
    assert np.abs(found - exact).max() <= 0.01 * np.abs(exact).max()


@pytest.mark.usefixtures("bf16_processor")
def test_attention_in_a_model(rng: Rng) -> None:
    make = Builder()
    q, k, v = (make.input("rows", 24, 64) for _ in range(3))
    make.output(make("Attention", q, k, v, q_num_heads=4, kv_num_heads=4))
    feeds = make.feeds({"rows": 2})
    heads = [x.reshape(2, 24, 4, 16).transpose(0, 2, 1, 3) for x in feeds.values()]
    exact = (
        reference(*heads, 0.25, None, np.ones((24, 24), bool))
        .transpose(0, 2, 1, 3)
        .reshape(2, 24, 64)
    )
    with infuse.compile(make.graph, infuse.CompileOptions(precision="bf16")) as model:
        found = model.run(feeds)["y0"]
    assert 2.0**-14 < np.abs(found - exact).max() < 2.0**-4


@pytest.mark.usefixtures("bf16_processor")
@pytest.mark.parametrize("hidden", [31, 64, 2048])
def test_values_that_only_products_read_are_stored_rounded(hidden: int) -> None:
    """What two products in a row give is what each of them gives alone, bit by bit."""
    first, second, both = Builder(), Builder(), Builder()
    weights, bias = first.weight(24, hidden), first.weight(hidden)
    last, shape = first.weight(hidden, 40), ("batch", "rows")

    def start(make: Builder) -> Value:
        return make("Gelu", make("Add", make("MatMul", make.input(*shape, 24), weights), bias))

    first.output(start(first))
    second.output(second("MatMul", second.input(*shape, hidden), last))
    both.output(both("MatMul", start(both), last))
    program, _ = generate(infuse.optimize(both.graph), Target.resolve(), precision="bf16")
    stored = [
        tensor.dtype.name
        for step in program.steps
        for tensor in step.arguments
        if isinstance(tensor, Tensor)
    ]
    assert len(program.steps) == 2
    assert stored.count("bfloat16") == (4 if hidden % 2 == 0 else 2)
    feeds = both.feeds({"batch": 3, "rows": 11})
    options = infuse.CompileOptions(precision="bf16", threads=2)
    with (
        infuse.compile(first.graph, options) as one,
        infuse.compile(second.graph, options) as two,
    ):
        expected = two.run({"x0": one.run(feeds)["y0"]})["y0"]
    with infuse.compile(both.graph, options) as model:
        np.testing.assert_array_equal(model.run(feeds)["y0"], expected)


@pytest.mark.usefixtures("bf16_processor")
def test_fused_work_reads_and_writes_other_types() -> None:
    make = Builder()
    x, mask = make.input("rows", 50), make.input("rows", 64, dtype=dtypes.bool_)
    whole, narrow = (
        make.input("rows", 64, dtype=dtypes.int32),
        make.input("rows", 64, dtype=dtypes.float16),
    )
    w = make.weight(50, 64)
    product = make("MatMul", x, w)
    other = make(
        "Add", make("Cast", whole, to=dtypes.float32), make("Cast", narrow, to=dtypes.float32)
    )
    make.output(make("Greater", make("Where", mask, product, other), np.zeros(1, np.float32)))
    assert w.const is not None
    with infuse.compile(make.graph, infuse.CompileOptions(precision="bf16", threads=1)) as model:
        for rows in (1, 13, 40):
            feeds = make.feeds({"rows": rows})
            expected = np.where(
                feeds["x1"],
                rounded(feeds["x0"]) @ rounded(w.const),
                feeds["x2"] + feeds["x3"].astype(np.float64),
            )
            clear = np.abs(expected) > 1e-3
            found = model.run(feeds)["y0"]
            assert found.dtype == np.bool_
            np.testing.assert_array_equal(found[clear], expected[clear] > 0)


@pytest.mark.usefixtures("bf16_processor")
def test_everything_else_stays_in_float32(rng: Rng) -> None:
    make = Builder()
    x = make.input(4, 33)
    normal = make("LayerNormalization", x, np.ones(33, np.float32), np.zeros(33, np.float32))
    make.output(make("Softmax", make("Add", normal, x)))
    feeds = make.feeds()
    with (
        infuse.compile(make.graph, infuse.CompileOptions(precision="bf16")) as half,
        infuse.compile(make.graph) as full,
    ):
        np.testing.assert_array_equal(half.run(feeds)["y0"], full.run(feeds)["y0"])
        assert full.metadata["precision"] == "fp32"


@pytest.mark.usefixtures("bf16_processor")
def test_a_compiled_folder_keeps_its_precision(tmp_path: Path) -> None:
    make = Builder()
    make.output(make("MatMul", make.input(3, 64), make.weight(64, 64)))
    feeds = make.feeds()
    with infuse.compile(
        make.graph, infuse.CompileOptions(precision="bf16"), output=tmp_path / "half"
    ) as model:
        expected = model.run(feeds)["y0"]
    with infuse.compile(make.graph) as full:
        assert not np.array_equal(full.run(feeds)["y0"], expected)
        assert full.metadata["weights_bytes"] == 64 * 64 * 4
    with infuse.load_compiled(tmp_path / "half") as model:
        assert model.metadata["weights_bytes"] == 64 * 64 * 2
        np.testing.assert_array_equal(model.run(feeds)["y0"], expected)


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_targets_without_the_instruction_are_refused(target: str) -> None:
    make = Builder()
    make.output(make("Relu", make.input(3)))
    with pytest.raises(OptionError, match=f"{target} has none"):
        infuse.compile(make.graph, infuse.CompileOptions(precision="bf16", target=target))


def test_unknown_precisions_are_refused() -> None:
    make = Builder()
    make.output(make("Relu", make.input(3)))
    with pytest.raises(OptionError, match="no precision 'fp8'"):
        infuse.compile(make.graph, infuse.CompileOptions(precision="fp8"))


# ---- the command line


@pytest.fixture
def network(tmp_path: Path) -> Path:
    make = Builder()
    make.output(make("Softmax", make("MatMul", make.input(3, 64), make.weight(64, 64))))
    infuse.save(make.graph, tmp_path / "network.infuse")
    return tmp_path / "network.infuse"


@pytest.mark.usefixtures("bf16_processor")
def test_commands_take_a_precision(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(capsys)
    facts = cli(
        "bench", network, "--precision", "bf16", "--rounds", 1, "--seconds", 0, "--json"
    ).json
    assert facts["precision"] == "bf16"
    assert 1e-5 < facts["cases"][0]["difference_from_fp32"] < 0.1
    assert (
        "largest difference of bf16 from fp32"
        in cli("bench", network, "--precision", "bf16", "--seconds", 0).out
    )
    assert (
        cli("compile", network, "-o", tmp_path / "half", "--precision", "bf16", "--json").json[
            "precision"
        ]
        == "bf16"
    )
    assert infuse.load_compiled(tmp_path / "half").metadata["precision"] == "bf16"
    assert cli("run", network, "--random", "--precision", "bf16", "--json").json["outputs"]
    assert "compiled already" in cli.refused(
        "run", tmp_path / "half", "--random", "--precision", "bf16"
    )
    assert (
        cli("bench", tmp_path / "half", "--rounds", 1, "--seconds", 0, "--json").json["precision"]
        == "bf16"
    )


def test_commands_refuse_what_cannot_be_had(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(capsys)
    options = ["-o", tmp_path / "half", "--precision", "bf16", "--target", "x86-64-v3"]
    assert "x86-64-v3 has none" in cli.refused("compile", network, *options)
    assert "no precision 'half'" in cli.refused("run", network, "--random", "--precision", "half")
