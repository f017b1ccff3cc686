"""`infuse show` and `infuse why`: what is told of a model and of a rule."""

import re
from pathlib import Path

import pytest

from infuse.passes.rules import ALL_RULES
from tests.cli_tools import Cli, small_network
from tests.pure.cli_stage import cli, network

__all__ = ["cli", "network"]


# -- show ------------------------------------------------------------------------------------------


def test_show_tells_what_a_model_is_made_of(cli: Cli, network: Path) -> None:
    facts = cli("show", network, "--json").json
    assert facts["inputs"] == [{"name": "image", "type": "float32[batch, 3, 8, 8]"}]
    assert facts["outputs"] == [{"name": "pooled [mean]", "type": "float32[batch, 4, 1, 1]"}]
    assert facts["dynamic_axes"] == ["batch"]
    assert facts["opsets"] == {"ai.onnx": 17}
    assert facts["nodes"] == 7
    assert facts["operators"]["Conv"] == 1
    assert facts["parameters"] == 4 * 3 * 3 * 3 + 4 * 4
    assert facts["weights_bytes"] == 4 * facts["parameters"]


def test_show_prints_names_as_they_are(cli: Cli, network: Path) -> None:
    answer = cli("show", network)
    assert answer.status == 0
    for text in (
        "pooled [mean]",
        "float32[batch, 3, 8, 8]",
        "124 parameters",
        "dynamic axes: batch",
    ):
        assert text in answer.out


def test_show_prints_the_text_form(cli: Cli, network: Path) -> None:
    text = cli("show", network, "--text").out
    assert text.startswith('graph "small" (%image: float32[batch, 3, 8, 8]) {')
    assert cli("show", network, "--text", "--json").json["text"] == text


@pytest.mark.row("G18")
@pytest.mark.row("G36")
def test_show_lists_the_kernel_calls(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    network = small_network(tmp_path / "fixed.onnx", batch=2)
    kernels = cli("show", network, "--kernels", "--target", "x86-64-v3", "--json").json["kernels"]
    (fused,) = (call for call in kernels["calls"] if "conv" in call["kernel"].lower())
    assert len(fused["nodes"]) > 1
    assert (
        kernels["arena_lower_bound"]
        <= kernels["arena_bytes"]
        <= 1.05 * kernels["arena_lower_bound"]
    )
    shown = cli("show", network, "--kernels", "--target", "x86-64-v3").out
    assert fused["kernel"] in shown
    assert "lower bound" in shown


@pytest.mark.row("R1")
def test_show_prints_the_lowered_program(cli: Cli, network: Path) -> None:
    """Where every tensor lies, for any processor, and the functions that are called."""
    options = ("show", network, "--kernels", "--text", "--target", "aarch64", "--threads", 1)
    text = cli(*options).out
    assert text.startswith("# small for aarch64, 1 thread\nprogram small\n  sizes batch\n")
    assert "  input 0 'image': float32[batch, 3, 8, 8]\n" in text
    assert "const float* p4 = 'image' input 0: float32[batch, 3, 8, 8]\n" in text
    called = re.findall(r"^    (\w+)$", text, re.MULTILINE)
    assert called
    assert set(called) == set(re.findall(r"^function (\w+)\(", text, re.MULTILINE))
    answer = cli(*options, "--json").json
    assert answer["kernels"]["text"] == text
    assert answer["text"].startswith('graph "small"')


def test_show_says_when_memory_is_planned_at_run_time(cli: Cli, network: Path) -> None:
    assert cli("show", network, "--kernels", "--json").json["kernels"]["arena_bytes"] is None
    assert "planned at run time" in cli("show", network, "--kernels").out


# -- why -------------------------------------------------------------------------------------------


def test_why_tells_that_a_rule_fires(cli: Cli, network: Path) -> None:
    facts = cli("why", network, "FuseConvBatchNormalization", "--json").json
    assert facts["level"] == "basic"
    assert "Conv" in facts["equation"]
    assert [match["fires"] for match in facts["matches"]] == [True]
    assert facts["fired"] == 1


@pytest.mark.row("G38")
def test_why_tells_what_stopped_a_rule(cli: Cli, network: Path) -> None:
    facts = cli("why", network, "FuseAttention", "--json").json
    (match,) = facts["matches"]
    assert not match["fires"]
    assert match["reason"]
    assert facts["fired"] == 0
    assert match["reason"].split()[0] in cli("why", network, "FuseAttention").out


def test_why_lists_every_rule_with_its_equation(cli: Cli) -> None:
    assert "leave the model out" in cli("why", "--list", "model.onnx").err
    listed = cli("why", "--list", "--json").json
    assert {rule["rule"] for rule in listed["rules"]} == {rule.name for rule in ALL_RULES}
    assert all(rule["equation"] and rule["level"] for rule in listed["rules"])
    assert {"FoldConstants", "EliminateCommonSubexpressions"} <= {
        each["pass"] for each in listed["passes"]
    }
    assert "FuseConvBatchNormalization" in cli("why", "--list").out
