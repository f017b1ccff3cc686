"""What compiled weights may take beside the model's: `weights="small"`, "balanced" and "fast"."""

from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse.build.autotune.measurement import tuned
from infuse.errors import OptionError
from infuse.ir.graph import Graph
from infuse.lowering.choice import Chooser
from infuse.lowering.program import Program
from infuse.lowering.weight_budget import FREE
from infuse.lowering.weights import constant_bytes
from infuse.options.compiling import WEIGHTS
from infuse.targets import Target
from tests.cli_tools import Cli
from tests.native.builder import Builder

CHANNELS = 64
# Sums of 576 products of numbers near one that are added in another order, three times: 2⁻²⁴ · 24²,
# and the factor of the tiles that the fast kernels take.
TOLERANCE = 1e-3


@pytest.fixture(scope="module")
def network() -> Graph:
    """Three 3 × 3 convolutions, which go by Winograd's tiles."""
    rng = np.random.default_rng(0)
    build = Builder()
    x = build.input(1, CHANNELS, 32, 32)
    for _ in range(3):
        filters = rng.standard_normal((CHANNELS, CHANNELS, 3, 3)).astype(np.float32)
        x = build("Relu", build("Conv", x, filters / 24, pads=(1, 1, 1, 1)))
    build.output(x)
    return build.graph


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


def test_weights_are_as_large_as_the_option_allows(network: Graph, tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((1, CHANNELS, 32, 32)).astype(np.float32)
    feeds = {network.inputs[0].name: x}
    results, files = {}, {}
    for weights in WEIGHTS:
        folder = tmp_path / weights
        with infuse.compile(
            network, infuse.CompileOptions(threads=1, weights=weights), output=folder
        ) as model:
            assert model.metadata["weights"] == weights
            assert ("limited_kernels" in model.metadata) == (weights == "balanced")
            (results[weights],) = model.run(feeds).values()
        files[weights] = (folder / "weights.bin").stat().st_size
    constants = constant_bytes(network)
    assert constants == 3 * CHANNELS * CHANNELS * 9 * 4
    assert files["small"] <= 1.1 * constants
    assert files["fast"] > constants + FREE
    assert 1.1 * constants < files["balanced"] <= constants + FREE
    for weights in ("small", "balanced"):
        np.testing.assert_allclose(results[weights], results["fast"], atol=TOLERANCE)


def test_each_has_a_place_in_the_cache(network: Graph) -> None:
    folders = []
    for weights in (*WEIGHTS, "balanced"):
        with infuse.compile(network, infuse.CompileOptions(threads=1, weights=weights)) as model:
            folders.append(model.folder)
    assert folders[0] == folders[3]
    assert len(set(folders)) == len(WEIGHTS)


def test_measured_kernels_are_small_too() -> None:
    target = Target.resolve("native")
    seen: list[bool] = []

    def lowered(trial: Chooser) -> list[Program]:
        seen.append(trial.compact)
        return []

    result = tuned(lowered, Chooser(target.machine, compact=True), target, "fp32")
    assert result.compact
    assert seen
    assert all(seen)


def test_another_name_is_refused(network: Graph, tmp_path: Path, cli: Cli) -> None:
    with pytest.raises(OptionError, match="one of: balanced, fast, small"):
        infuse.compile(network, infuse.CompileOptions(weights="tiny"))
    infuse.save(network, tmp_path / "net.infuse")
    arguments = ("compile", tmp_path / "net.infuse", "-o", tmp_path / "out", "--weights", "tiny")
    assert "one of: balanced, fast, small" in cli.refused(*arguments)
    assert not (tmp_path / "out").exists()
    assert "add --kernels" in cli.refused("show", tmp_path / "net.infuse", "--weights", "small")


def test_sizes_are_told(network: Graph, tmp_path: Path, cli: Cli) -> None:
    path, constants = tmp_path / "net.infuse", constant_bytes(network)
    infuse.save(network, path)
    common = ("--threads", 1, "--weights", "small")
    facts = cli("compile", path, "-o", tmp_path / "out", *common, "--json").json
    assert (facts["weights"], facts["constants_bytes"]) == ("small", constants)
    assert facts["weights_bytes"] == (tmp_path / "out" / "weights.bin").stat().st_size
    assert cli("show", tmp_path / "out", "--json").json["weights"] == "small"
    kernels = cli("show", path, "--kernels", *common, "--json").json["kernels"]
    assert kernels["packed_weights_bytes"] == facts["weights_bytes"]
    assert kernels["constants_bytes"] == constants
    shown = cli("show", path, "--kernels", "--threads", 1, "--weights", "fast").out
    times = float(shown.split("packed weights (fast): ")[1].split(" ×")[0].split()[-1])
    assert times > 1.5


def test_kernels_that_the_budget_leaves_out_are_told(
    network: Graph, tmp_path: Path, cli: Cli
) -> None:
    path = tmp_path / "net.infuse"
    infuse.save(network, path)
    kernels = cli("show", path, "--kernels", "--threads", 1, "--json").json["kernels"]
    assert kernels["weights"] == "balanced"
    limited = kernels["limited_kernels"]
    choices = [call["choice"] for call in kernels["calls"] if call["choice"] is not None]
    assert [choice["by"] for choice in choices].count("budget") == len(limited) > 0
    told = cli("show", path, "--kernels", "--threads", 1).out
    for node, own in limited.items():
        assert f"{node} ({own['chosen']}, not {own['fastest']})" in told
    facts = cli("compile", path, "-o", tmp_path / "out", "--threads", 1, "--json").json
    assert facts["limited_kernels"] == limited
    assert cli("show", tmp_path / "out", "--json").json["limited_kernels"] == limited
    assert "not the fastest" in cli("show", tmp_path / "out").out
