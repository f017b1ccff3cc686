"""Parts of models: what they compute is what the whole computes there."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import infuse
from infuse.errors import OptionError
from infuse.ir.printer import print_graph
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate
from tests.cli_tools import Cli, small_network


@pytest.fixture
def network(tmp_path: Path) -> Path:
    return small_network(tmp_path / "small.onnx")


IMAGE = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)


def inner(network: Path, name: str) -> np.ndarray:
    """What ONNX Runtime computes for a value inside."""
    model = onnx.load(network)
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (array,) = session.run([name], {"image": IMAGE})
    return np.asarray(array)


@pytest.mark.parametrize("suffix", [".onnx", ".infuse"])
def test_the_head_the_middle_and_the_tail(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    cli, out = Cli(capsys), tmp_path / f"part{suffix}"
    parts = {
        ("image", "b"): ["--output-value", "b"],
        ("b", "f"): ["--input", "b", "--output-value", "f"],
        ("d", "pooled [mean]"): ["--input", "d"],
    }
    for (start, end), options in parts.items():
        answer = cli("extract", network, "-o", out, *options, "--json")
        assert answer.status == 0, answer.err
        assert [each["name"] for each in answer.json["inputs"]] == [start]
        assert [each["name"] for each in answer.json["outputs"]] == [end]
        feed = IMAGE if start == "image" else inner(network, start)
        (found,) = evaluate(infuse.load(out), {start: feed}).values()
        np.testing.assert_allclose(found, inner(network, end), rtol=1e-4, atol=1e-5)
    assert "wrote" in cli("extract", network, "-o", out, "--output-value", "b").out


def test_an_opset_is_for_onnx(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(capsys)
    refused = cli.refused("extract", network, "-o", tmp_path / "part.infuse", "--opset", 17)
    assert "--opset is for .onnx files" in refused
    assert cli("extract", network, "-o", tmp_path / "part.onnx", "--opset", 18).status == 0
    assert onnx.load(tmp_path / "part.onnx").opset_import[0].version == 18


def test_the_original_stays(network: Path) -> None:
    graph = infuse.load(network)
    before = print_graph(graph)
    part = infuse.extract(graph, inputs="b", outputs=["f", "d"])
    verify(part)
    verify(graph)
    assert print_graph(graph) == before
    assert part.output_names == ["f", "d"]
    assert {node.kind for node in part.nodes} == {"Identity", "Relu", "Sigmoid", "Mul"}
    assert print_graph(infuse.extract(graph)) == before


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"outputs": "bb"}, "no value 'bb' for an output.*did you mean 'b'"),
        ({"inputs": ["zzz"]}, "no value 'zzz' for an input.*infuse show --text"),
        ({"inputs": ["e"]}, "also need the input 'image'"),
        ({"inputs": ["f"], "outputs": ["b"]}, "also need the input 'image'"),
        ({"inputs": ["image", "f"], "outputs": ["b"]}, "no output depends on 'f'"),
    ],
)
def test_what_is_no_part_is_refused(
    network: Path, names: dict[str, list[str]], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        infuse.extract(network, **names)  # type: ignore[arg-type]


def test_bodies_read_the_inputs_of_a_part() -> None:
    graph = infuse.trace(
        lambda x: infuse.cond(x[0] > 0, lambda: (x * 2.0) * 3.0, lambda: x * 2.0 - 1.0),
        {"x": infuse.Spec("float32", (3,))},
    )
    (branch,) = [node for node in graph.nodes if node.subgraphs]
    whole = infuse.extract(graph, outputs=[branch.output.name])
    for x in (np.ones(3, np.float32), -np.ones(3, np.float32)):
        (found,) = evaluate(whole, {"x": x}).values()
        (right,) = evaluate(graph, {"x": x}).values()
        np.testing.assert_array_equal(found, right)
