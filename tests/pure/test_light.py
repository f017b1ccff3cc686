"""Light networks: the page in docs/ is that of the stored results, which name their origin."""

import copy
import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from benchmarks.figures_page import ROOT
from benchmarks.light import __main__ as light, instructions, page, quiet
from benchmarks.light.drawing import Box, label_box
from benchmarks.light.facts import Network, contradictions, front, networks, rank_correlation
from benchmarks.light.measuring import parts
from benchmarks.light.networks import NETWORKS, TORCHVISION
from infuse.ir.parser import parse
from tests import chinese

SOURCE = page.RESULTS.relative_to(ROOT).as_posix()
PUBLISHED = {"mcunet_320kb": (81.8, 0.74), "mobilenet_v1_025": (41, 0.47)}
"""Millions of MACs and of parameters, as their authors count them."""


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(page.RESULTS.read_text("utf-8"))
    return found


@pytest.mark.row("E2")
def test_the_page_is_that_of_the_results(results: dict[str, Any]) -> None:
    for name, text in page.pages(results, SOURCE).items():
        stored = chinese.STAMP.sub("", (page.DOCS / name).read_text("utf-8"))
        assert stored == text, f"run python -m benchmarks.light.page {SOURCE}"


@pytest.mark.row("E2")
def test_the_results_name_machine_and_command(results: dict[str, Any]) -> None:
    assert results["command"].startswith("python -m benchmarks.light ")
    assert SOURCE in results["command"]
    machine = results["machine"]
    assert machine["processor"]
    assert machine["cores"] > 0
    assert {"infuse", "onnxruntime", "openvino"} <= machine["versions"].keys()
    for text in (results["command"], machine["processor"], SOURCE):
        assert all(text in (page.DOCS / name).read_text() for name in ("light.md", "zh/light.md"))


@pytest.mark.row("E2")
def test_every_network_was_measured_in_every_engine(results: dict[str, Any]) -> None:
    assert [row["network"] for row in results["rows"]] == list(NETWORKS)
    for row in results["rows"]:
        assert row["errors"] == {}
        assert row["differences"]["infuse"] < 1e-4
        for engines in row["turns"].values():
            assert engines.keys() == set(results["engines"])
            assert all(len(turns) == results["rounds"] for turns in engines.values())


@pytest.mark.parametrize("name", PUBLISHED)
def test_networks_of_descriptions_cost_what_their_authors_say(
    results: dict[str, Any], name: str
) -> None:
    macs, parameters = PUBLISHED[name]
    network = {network.name: network for network in networks(results)}[name]
    assert network.macs == pytest.approx(macs, rel=0.002)
    assert network.parameters == pytest.approx(parameters, rel=0.02)


@pytest.mark.skipif(find_spec("torchvision") is None, reason="needs torchvision")
def test_accuracies_are_those_of_torchvision() -> None:
    from benchmarks.torchvision_schemas import make_importable

    make_importable()
    import torchvision

    for network in NETWORKS.values():
        if network.source == TORCHVISION:
            meta = torchvision.models.get_weight(network.weights).meta
            assert network.top1 == meta["_metrics"]["ImageNet-1K"]["acc@1"], network.title


def test_a_claim_that_the_results_do_not_show_is_refused(results: dict[str, Any]) -> None:
    changed = copy.deepcopy(results)
    for row in changed["rows"]:
        if row["network"] == "squeezenet1_0":
            row["counts"]["parameters"] *= 100
    with pytest.raises(page.FalseClaim, match="SqueezeNet has the parameters of"):
        page.pages(changed, SOURCE)


def test_a_target_has_columns_where_it_was_measured(results: dict[str, Any]) -> None:
    changed = copy.deepcopy(results)
    changed["rows"][0]["elsewhere"]["wasm32"] = {"instructions": 7_000_000, "library": 2048}
    lines = page.text(changed, SOURCE, "en").splitlines()
    head = next(line for line in lines if "Infuse, ms, 1 thread" in line)
    first, second = (
        next(line for line in lines[lines.index(head) :] if line.startswith(f"| {n.title} |"))
        for n in networks(changed)[:2]
    )
    assert head.endswith("| wasm32, M instructions | wasm32, library, KiB |")
    assert first.endswith("| 7 | 2 |")
    assert second.endswith("| – | – |")


def made(name: str, macs: int, ms: float) -> Network:
    """A network of which these two figures are known."""
    counts = {"macs": macs * 10**6}
    return Network(name, {"counts": counts, "seconds": {"1": {"infuse": ms / 1e3}}})


def test_networks_are_compared_by_accuracy_time_and_macs() -> None:
    slow = made("mobilenet_v1_025", 40, 3.0)  # 49.8 %
    fast = made("squeezenet1_0", 800, 1.0)  # 58.1 %
    best = made("efficientformer_l1", 900, 4.0)  # 80.5 %
    of = [slow, fast, best]
    assert front(of) == [fast, best]
    assert contradictions(of, 5) == [(slow, fast)]
    assert contradictions([*of, made("mcunet_320kb", 50, 2.0)], 5) == [(slow, fast)]
    assert rank_correlation(of, lambda n: n.macs, Network.ms) == pytest.approx(0.5)
    assert rank_correlation(of, Network.ms, Network.ms) == 1
    assert rank_correlation(of, lambda n: -n.ms(), Network.ms) == -1


def test_labels_do_not_cover_each_other() -> None:
    dots = [Box(x - 3, 97, x + 3, 103) for x in (100, 104)]
    first = label_box(100, 100, 40, dots)
    second = label_box(104, 100, 40, [*dots, first])
    assert not any(map(first.meets, [*dots, second]))
    assert not any(map(second.meets, dots))


GRAPH = """graph "layers" (
  %x: float32[1, 2, 2, 2], %f: float32[2, 1, 3, 3], %g: float32[1, 2, 1, 1]
) {
  %a = Conv(%x, %f, group=2, pads=(1, 1, 1, 1))
  %b = Conv(%a, %g)
  %c = Relu(%b)
  %d = Reshape(%c, int64[2]{1, 4})
  %y = MatMul(%d, float32[4, 1]{1.0, 2.0, 3.0, 4.0})
  %z = MatMul(%y, %y)
  return y = %z
}"""


def test_layers_are_counted_by_what_they_are() -> None:
    found = parts(parse(GRAPH))
    assert {name: part["macs"] for name, part in found.items()} == {
        "depthwise": 2 * 4 * 9,
        "convolution": 2 * 4,
        "elementwise": 0,
        "move": 0,
        "product": 4,
        "attention": 1,
    }
    assert found["elementwise"]["access"] == 2 * 4 * 4
    assert found["move"]["access"] == 0


def test_others_are_waited_for_no_longer_than_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 <= quiet.busy(0.01) <= 1
    monkeypatch.setattr(quiet, "busy", lambda: 1.0)
    assert not quiet.wait(0)
    monkeypatch.setattr(quiet, "busy", lambda: 0.0)
    assert quiet.wait(0)


def test_one_network_is_measured_and_stored(tmp_path: Path) -> None:
    """A small network in place of one that PyTorch exports."""
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 4])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 3])
    weights = onnx.numpy_helper.from_array(np.ones((4, 3), np.float32), "w")
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "small", [x], [y], [weights])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=opset, ir_version=8),
        tmp_path / "mcunet_320kb.onnx",
    )
    stored = tmp_path / "found.json"
    words = ["--models", "mcunet_320kb", "--zoo", str(tmp_path), "--threads", "1", "--rounds", "2"]
    words += ["--seconds", "0", "--quiet", "0", "--against", "onnxruntime", "--json", str(stored)]
    assert light.main(words) == 0
    found = json.loads(stored.read_text())
    (row,) = found["rows"]
    assert found["command"] == "python -m benchmarks.light " + " ".join(words)
    assert row["counts"]["macs"] == 12
    assert row["differences"] == {"infuse": 0.0}
    assert {name: len(turns) for name, turns in row["turns"]["1"].items()} == {
        "infuse": 2,
        "onnxruntime": 2,
    }
    assert row["compiled"].keys() == {"library", "weights", "arena", "access"}
    there = all(map(shutil.which, (instructions.EMULATOR, instructions.COMPILER, "cc")))
    assert (instructions.TARGET in row["errors"]) != there
    if there:
        assert 100 < row["elsewhere"]["aarch64"]["instructions"] < 100_000


def test_a_network_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        light.main(["--models", "mobilenet_v9"])
    assert "no network mobilenet_v9; there are mobilenet_v1_025, " in capsys.readouterr().err


def test_without_an_emulator_instructions_are_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(instructions.NoCounts, match="aarch64-linux-gnu-gcc is not installed"):
        instructions.built(tmp_path)
