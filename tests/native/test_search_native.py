"""Commands that compile take seconds for a search, say what it found, and the model computes the
same.
"""

from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse import ops
from infuse.dtypes import float32
from infuse.ir.expression import Variable
from infuse.ir.types import TensorType, tensor
from infuse.ops.contraction import MatMul
from infuse.ops.convolution import Conv
from infuse.ops.core.base import Op
from infuse.targets import Target
from infuse.targets.cpu.costs.estimates import kernel_seconds
from infuse.testing.patterns import graph_of
from tests.cli_tools import Cli

X, Y, Z = (Variable(name) for name in "xyz")
FOUND = "search: 1 improvement, which save"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A product of a row with a product of matrices."""
    graph = graph_of(ops.matmul(X, ops.matmul(Y, Z)), x=(1, 64), y=(64, 64), z=(64, 64))
    infuse.save(graph, tmp_path / "chain.onnx")
    return tmp_path / "chain.onnx"


@pytest.mark.row("G37")
def test_a_model_computes_the_same_after_a_search(model: Path) -> None:
    rng = np.random.default_rng(0)
    feeds = {
        v.name: rng.standard_normal(v.shape).astype(np.float32) for v in infuse.load(model).inputs
    }  # type: ignore[arg-type]
    with (
        infuse.compile(model) as plain,
        infuse.compile(model, rules=infuse.Rules(search=600)) as searched,
    ):
        (before,), (after,) = plain.run(feeds).values(), searched.run(feeds).values()
    x, y, z = (feeds[name].astype(np.float64) for name in feeds)
    for found in (before, after):
        np.testing.assert_allclose(found, x @ y @ z, atol=1e-4 * np.abs(x @ y @ z).max())


def test_every_command_takes_seconds(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(capsys)
    folder = tmp_path / "folder"
    for command in (
        ("compile", model, "-o", folder),
        ("run", model, "--random"),
        ("bench", model, "--rounds", 1),
        ("profile", model, "--runs", 1),
        ("show", model, "--kernels"),
    ):
        answer = cli(*command, "--search", 600, "--json")
        assert answer.status == 0, answer.err
        assert FOUND in answer.err, command
        assert "search:" not in cli(*command, "--json").err
    assert "add --kernels" in cli.refused("show", model, "--search", 1)
    assert "name the model file" in cli.refused("run", folder, "--random", "--search", 1)
    assert "search is -1.0" in cli.refused("run", model, "--random", "--search", "-1")


@pytest.mark.parametrize(
    ("op", "shapes"),
    [
        (MatMul(), ((3, 4), (4, 5), (3, 5))),
        (MatMul(), ((2, 3, 4), (2, 4, 5), (2, 3, 5))),
        (Conv(), ((1, 8, 6, 6), (4, 8, 1, 1), (1, 4, 6, 6))),
        (Conv(pads=(1, 1, 1, 1)), ((1, 32, 6, 6), (32, 32, 3, 3), (1, 32, 6, 6))),
        (Conv(group=8), ((1, 8, 6, 6), (8, 1, 3, 3), (1, 8, 4, 4))),
    ],
)
def test_products_have_prices_that_grow(op: Op, shapes: tuple[tuple[int, ...], ...]) -> None:
    seconds = kernel_seconds(Target.resolve("native").machine, 1)
    small, large = ([tensor(float32, times * s[0], *s[1:]) for s in shapes] for times in (1, 64))
    large[1] = small[1] if large[1].rank != 3 else large[1]
    prices = [seconds(op, types[:2], types[2], int) for types in (small, large)]  # type: ignore[arg-type]
    assert 0 < (prices[0] or 0) < (prices[1] or 0)


def test_what_the_cost_model_does_not_know_has_no_price() -> None:
    seconds = kernel_seconds(Target.resolve("native").machine, 1)
    vector, double = tensor(float32, 3), TensorType(infuse.dtypes.float64, (3, 3))
    assert seconds(MatMul(), [vector, vector], tensor(float32), int) is None  # type: ignore[arg-type]
    assert seconds(MatMul(), [double, double], double, int) is None  # type: ignore[arg-type]
