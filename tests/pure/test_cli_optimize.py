"""`infuse optimize`: what is written, reported, verified and explained."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import infuse
from infuse import ops
from infuse.ops.core.evaluate import evaluate
from infuse.rewrite import Rule
from tests.cli_tools import Cli
from tests.pure.cli_stage import cli, network

__all__ = ["cli", "network"]


# -- optimize --------------------------------------------------------------------------------------


@pytest.mark.row("G11")
@pytest.mark.parametrize("ending", [".onnx", ".infuse"])
def test_optimize_writes_a_smaller_model_that_computes_the_same(
    cli: Cli, network: Path, ending: str
) -> None:
    out = network.with_suffix(f".small{ending}")
    facts = cli("optimize", network, "-o", out, "--json").json
    assert facts["nodes"]["after"] < facts["nodes"]["before"] == 7
    assert {"FuseConvBatchNormalization", "RemoveIdentity"} <= facts["fired"].keys()
    assert facts["verification"]["checked"]
    assert facts["verification"]["difference"] < 1e-5
    assert facts["output"]["bytes"] == out.stat().st_size
    feeds = {"image": np.random.default_rng(1).standard_normal((2, 3, 8, 8), np.float32)}
    (expected,) = evaluate(infuse.load(network), feeds).values()
    (found,) = evaluate(infuse.load(out), feeds).values()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.row("G38")
def test_optimize_prints_what_it_did(cli: Cli, network: Path, tmp_path: Path) -> None:
    text = cli("optimize", network, "-o", tmp_path / "out.onnx").out
    for part in (
        "BatchNormalization",
        "FuseConvBatchNormalization",
        "verified on random inputs with batch = 1",
        "wrote",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("options", "fired"),
    [
        (["--level", "none"], set()),
        (["--only", "RemoveIdentity"], {"RemoveIdentity"}),
        (
            ["--only", "RemoveIdentity,FuseConvBatchNormalization"],
            {"RemoveIdentity", "FuseConvBatchNormalization"},
        ),
    ],
)
def test_rules_are_chosen(cli: Cli, network: Path, options: list[str], fired: set[str]) -> None:
    facts = cli("optimize", network, "-o", network.with_suffix(".infuse"), "--json", *options).json
    assert set(facts["fired"]) == fired


@pytest.mark.parametrize(
    ("ending", "options", "level"),
    [
        (".infuse", [], "all"),
        (".onnx", [], "basic"),
        (".onnx", ["--opset", 23], "extended"),
        (".onnx", ["--for", "onnxruntime"], "extended"),
        (".onnx", ["--level", "all"], "all"),
    ],
)
def test_the_level_serves_whoever_reads_the_file(
    cli: Cli, network: Path, tmp_path: Path, ending: str, options: list[object], level: str
) -> None:
    assert (
        cli("optimize", network, "-o", tmp_path / f"o{ending}", "--json", *options).json["level"]
        == level
    )


def test_rules_are_left_out(cli: Cli, network: Path) -> None:
    out = network.with_suffix(".infuse")
    facts = cli(
        "optimize", network, "-o", out, "--json", "--disable", "FuseConvBatchNormalization"
    ).json
    assert (
        "BatchNormalization" in facts["operators"]["after"]
        or "FuseConvBatchNormalization" not in facts["fired"]
    )
    assert "FuseConvBatchNormalization" not in facts["fired"]


def test_the_opset_is_chosen(cli: Cli, network: Path, tmp_path: Path) -> None:
    assert cli("optimize", network, "-o", tmp_path / "out.onnx", "--opset", 13).status == 0
    assert onnx.load(tmp_path / "out.onnx").opset_import[0].version == 13
    assert "--opset is for .onnx" in cli.refused(
        "optimize", network, "-o", tmp_path / "out.infuse", "--opset", 13
    )


def test_optimize_may_write_over_its_input(cli: Cli, network: Path) -> None:
    assert cli("optimize", network, "-o", network).status == 0
    assert len(infuse.load(network)) < 7


# -- verification ----------------------------------------------------------------------------------


def test_a_skipped_verification_says_why(
    cli: Cli, network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = network.with_suffix(".infuse")
    assert "not verified: --no-verify" in cli("optimize", network, "-o", out, "--no-verify").out
    monkeypatch.setattr("infuse.cli.optimize.LIMIT", 10)
    assert "not verified: it takes" in cli("optimize", network, "-o", out).out
    assert "verified on random inputs" in cli("optimize", network, "-o", out, "--verify").out


class Unfolds(Rule):
    """Relu(x) → |x|, which is wrong"""

    def match(self, x: object) -> object:
        return ops.relu(x)

    def build(self, x: object) -> object:
        return ops.abs(x)


@pytest.mark.row("G39")
def test_a_wrong_rule_is_left_out_and_a_right_model_is_written(cli: Cli, network: Path) -> None:
    infuse.register(Unfolds)
    try:
        out = network.with_suffix(".infuse")
        facts = cli("optimize", network, "-o", out, "--json").json
        assert facts["verification"]["checked"]
        assert [g["rule"] for g in facts["verification"]["guilty"]] == ["Unfolds"]
        feeds = {"image": np.random.default_rng(1).standard_normal((2, 3, 8, 8), np.float32)}
        (expected,) = evaluate(infuse.load(network), feeds).values()
        (found,) = evaluate(infuse.load(out), feeds).values()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        assert "Unfolds is wrong on this model" in cli("optimize", network, "-o", out).out
        wrong = cli("optimize", network, "-o", out, "--json", "--no-verify").json
        assert "Unfolds" in wrong["fired"]
    finally:
        infuse.unregister("Unfolds")


@pytest.mark.row("G39")
def test_verification_takes_given_inputs(cli: Cli, network: Path, tmp_path: Path) -> None:
    out, inputs = network.with_suffix(".infuse"), tmp_path / "inputs.npz"
    np.savez(inputs, image=np.ones((3, 3, 8, 8), np.float32))
    assert (
        "verified on the given inputs"
        in cli("optimize", network, "-o", out, "--inputs", inputs).out
    )
    np.savez(inputs, picture=np.ones((3, 3, 8, 8), np.float32))
    assert "'image' missing" in cli.refused("optimize", network, "-o", out, "--inputs", inputs)
    assert "--no-verify" in cli.refused(
        "optimize", network, "-o", out, "--inputs", inputs, "--no-verify"
    )


def test_sizes_of_random_inputs_need_some(cli: Cli, network: Path, tmp_path: Path) -> None:
    out, inputs = tmp_path / "o.onnx", tmp_path / "x.npz"
    np.savez(inputs, image=np.ones((1, 3, 8, 8), np.float32))
    command = ("optimize", network, "-o", out, "--dim", "batch=2")
    for others in (("--no-verify",), ("--inputs", inputs)):
        assert "--dim sets sizes of random inputs" in cli.refused(*command, *others)
        page = ("--report", tmp_path / "report.json")
        assert cli(*command, *others, *page).status == 0
    assert cli(*command).status == 0


@pytest.mark.row("R4")
def test_symbolic_dimensions_are_fixed(cli: Cli, network: Path, tmp_path: Path) -> None:
    out = tmp_path / "fixed.onnx"
    assert cli("optimize", network, "-o", out, "--set-dim", "batch=2").status == 0
    assert str(infuse.load(out).inputs[0].type) == "float32[2, 3, 8, 8]"
    twice = cli.refused(
        "optimize", network, "-o", out, "--set-dim", "batch=2", "--set-dim", "batch=3"
    )
    assert "gives batch the sizes 2 and 3" in twice
    assert "its dynamic axes are batch" in cli.refused(
        "optimize", network, "-o", out, "--set-dim", "seq=2"
    )


@pytest.mark.row("G38")
def test_every_rewrite_is_explained(cli: Cli, network: Path, tmp_path: Path) -> None:
    text = cli("optimize", network, "-o", tmp_path / "o.onnx", "--explain").out
    assert "rewrites in order" in text
    assert "BatchNormalization(norm)" in text
    facts = cli(
        "optimize", network, "-o", tmp_path / "o.onnx", "--explain", "--level", "basic", "--json"
    ).json
    assert all(miss.keys() == {"rule", "node", "reason"} for miss in facts["near_misses"])


@pytest.mark.row("G38")
def test_a_report_is_written_beside_the_model(cli: Cli, network: Path, tmp_path: Path) -> None:
    page, out = tmp_path / "report.html", tmp_path / "o.onnx"
    facts = cli("optimize", network, "-o", out, "--report", page, "--json").json
    assert facts["report"] == {"path": str(page), "bytes": page.stat().st_size}
    text = page.read_text("utf-8")
    assert "small.onnx" in text
    assert "FuseConvBatchNormalization" in text
    data = tmp_path / "report.json"
    assert f"wrote {data}" in " ".join(
        cli("optimize", network, "-o", out, "--report", data).out.split("\n")
    )
    assert json.loads(data.read_text("utf-8"))["rewrites"]
    assert "does not end in .html" in cli.refused(
        "optimize", network, "-o", out, "--report", tmp_path / "r.pdf"
    )
