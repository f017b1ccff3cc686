"""The examples of docs/processing.md and its Chinese page run, on a small network and a photo."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import safetensors.numpy
from onnx import TensorProto, helper
from PIL import Image

import infuse.processing as p
from examples.networks import Builder
from infuse.ops.core.evaluate import evaluate

pytestmark = pytest.mark.row("C10")

PAGE = (Path(__file__).parents[2] / "docs" / "processing.md").read_text(encoding="utf-8")
CHINESE = (Path(__file__).parents[2] / "docs" / "zh" / "processing.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CHINESE_EXAMPLES = re.findall(r"```python\n(.*?)```", CHINESE, re.DOTALL)
BLOCKS = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", PAGE, re.MULTILINE)


def yolo() -> onnx.ModelProto:
    """Boxes and scores [1, 84, 100] of images [1, 3, 320, 320], as exports of YOLOv8 give them."""
    make = Builder(seed=3)
    cells = make.op("AveragePool", "images", kernel_shape=[32, 32], strides=[32, 32])
    weights = make.weight(make.rng.standard_normal((84, 3, 1, 1), np.float32) * 4)
    shares = make.op("Sigmoid", make.op("Conv", cells, weights))
    scale = make.weight(np.array([320, 320, 90, 90] + [1] * 80).reshape(1, 84, 1, 1))
    numbers = make.op("Mul", shares, scale)
    shape = make.constant(np.array([1, 84, 100]))
    make.nodes.append(helper.make_node("Reshape", [numbers, shape], ["output0"]))
    graph = helper.make_graph(
        make.nodes,
        "yolo",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, 320, 320])],
        [helper.make_tensor_value_info("output0", TensorProto.FLOAT, [1, 84, 100])],
        make.weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def save_decoder(folder: Path) -> None:
    """A GPT-2 of one layer with random weights."""
    folder.mkdir()
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 1}
    config |= {"n_embd": 16, "n_head": 2, "n_positions": 64, "vocab_size": 50}
    config |= {"activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    shapes = {"wte": (50, 16), "wpe": (64, 16), "h.0.attn.c_attn": (16, 48)}
    shapes |= {"h.0.attn.c_proj": (16, 16), "h.0.mlp.c_fc": (16, 64), "h.0.mlp.c_proj": (64, 16)}
    rng = np.random.default_rng(0)
    weights = {f"transformer.{n}.weight": rng.normal(size=s) for n, s in shapes.items()}
    for name, (_, size) in shapes.items():
        weights |= {} if name[0] == "w" else {f"transformer.{name}.bias": np.zeros(size)}
    for name in ("h.0.ln_1", "h.0.ln_2", "ln_f"):
        weights[f"transformer.{name}.weight"] = np.ones(16)
        weights[f"transformer.{name}.bias"] = np.zeros(16)
    floats = {name: array.astype(np.float32) for name, array in weights.items()}
    safetensors.numpy.save_file(floats, folder / "model.safetensors")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """Runs an example in a folder with its files, and gives its names."""
    rng = np.random.default_rng(0)
    small = Image.fromarray(rng.integers(0, 256, (6, 9, 3), np.uint8))
    small.resize((450, 300), Image.Resampling.NEAREST).save(tmp_path / "photo.jpg")
    onnx.save(yolo(), tmp_path / "yolo.onnx")
    save_decoder(tmp_path / "decoder")
    monkeypatch.chdir(tmp_path)

    def run(code: str) -> dict[str, Any]:
        names: dict[str, Any] = {}
        exec(code, names)
        return names

    return run


@pytest.mark.parametrize("code", dict.fromkeys([*EXAMPLES, *CHINESE_EXAMPLES]))
def test_the_examples_run(code: str, run: Callable[[str], dict[str, Any]]) -> None:
    assert {"graph", "model", "results"} & run(code).keys()


def test_a_file_becomes_boxes(run: Callable[[str], dict[str, Any]]) -> None:
    names = run(EXAMPLES[0])
    results = names["results"]
    assert [step.split()[0] for step in names["model"].host_steps] == ["ImageDecoder"]
    file = np.fromfile("photo.jpg", np.uint8)
    for name, right in evaluate(names["graph"], {"file": file}).items():
        np.testing.assert_allclose(results[name], right, rtol=1e-4, atol=0.01)
    # The same step by step, with the blocks as functions of NumPy's arrays.
    image = p.decode_image(file)
    picture, placement = p.letterbox(image, 320)
    pixels = p.to_planes(p.normalize(picture))[None]
    rows = evaluate(names["network"], {"images": pixels})["output0"][0].T
    boxes = p.convert_boxes(np.ascontiguousarray(rows[:, :4]), "cxcywh", "xyxy")
    boxes, scores, classes = p.detections(boxes, rows[:, 4:], score=0.25, best_class=True)
    assert 5 < len(boxes) < 100
    np.testing.assert_array_equal(results["classes"], classes)
    np.testing.assert_allclose(results["scores"], scores, rtol=1e-4)
    right = p.scale_boxes(boxes, placement, image.shape[:2])
    np.testing.assert_allclose(results["boxes"], right, rtol=1e-4, atol=0.01)
    assert results["boxes"].min() >= 0
    assert (results["boxes"].max(axis=0) <= [450, 300, 450, 300]).all()


def test_the_page_names_what_there_is() -> None:
    listed = {name for row in BLOCKS for name in re.findall(r"`(\w+)`", row)}
    assert not listed - {*p.__all__}
    for page in (PAGE, CHINESE):
        assert not [name for name in p.__all__ if not re.search(rf"`{name}\b", page)]
    assert len(CHINESE_EXAMPLES) == len(EXAMPLES)
