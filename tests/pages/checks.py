"""What pages say of their snippets, held against what these leave behind and print."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

import numpy as np

from infuse import processing as p
from infuse.ops.core.evaluate import evaluate
from tests.pages import files
from tests.pages.reader import Reader


def readme(reader: Reader) -> None:
    (logits,) = reader.names["outputs"].values()
    assert logits.shape == (1, 1000)
    assert re.search(r"\d+ → \d+ nodes", reader.printed)


def prebuilt_answers(reader: Reader) -> None:
    assert reader.printed.startswith(("prebuilt", "compiled"))
    reader.names["model"].close()


def frontends(reader: Reader) -> None:
    assert "torch" not in reader.names or {"graph", "model", "fast"} & reader.names.keys()


def training(reader: Reader) -> None:
    names = reader.names
    assert names["right"] > 0.97
    losses = names["report"].losses
    assert losses[-1] < 0.2 < losses[0]
    merged, adapted = (
        evaluate(names[name], {"x": names["points"]}) for name in ("merged", "adapted")
    )
    for name, scores in merged.items():
        # One product of the sum against the sum of two, in float32.
        np.testing.assert_allclose(scores, adapted[name], rtol=1e-3, atol=1e-4)


def training_reference(reader: Reader) -> None:
    assert reader.names["error"] < 1e-3


def processing_reference(reader: Reader) -> None:
    expected = p.to_planes(p.normalize(reader.names["small"]))
    np.testing.assert_allclose(reader.names["planes"], expected, rtol=1e-4, atol=1e-4)
    assert reader.names["small"].shape == (24, 32, 3) != reader.names["photo"].shape


def serving_reference(reader: Reader) -> None:
    assert all(each.shape[0] == 1 for each in reader.names["scores"].values())
    assert reader.names["response"].outputs[0].data.shape == (1, 5)


def estimators(reader: Reader) -> None:
    names = reader.names
    assert names["names"] == (["x"], ["label", "probabilities"])
    assert (names["labels"] == names["pipeline"].predict(names["rows"])).all()


def inspect_and_compare(reader: Reader) -> None:
    names = reader.names
    assert names["total"].seconds > 0
    assert names["comparison"].a.score > 0.9
    assert names["worst"] in names["comparison"].layers


def compression(reader: Reader) -> None:
    """Bounds are met, where no test has replaced them (those of pruning)."""
    bounds = {
        bound[1]: output
        for command, output in reader.outputs.items()
        if (bound := re.search(r"--max-drop (\S+)", command)) and "--prune" not in command
    }
    assert len(bounds) >= 4
    for bound, output in bounds.items():
        assert f"the bound of {bound} is met" in output
    assert "the bound of 0.5% is met" in reader.printed


def rollout(reader: Reader) -> None:
    begun, back, again = list(reader.outputs.values())[-3:]
    assert "version 2: 5% of the traffic" in begun
    assert "version 1: 100% of the traffic" in back
    assert "rollout of version 2: running" in again


def serving(reader: Reader) -> None:
    """The calls are answered, and both configurations took effect."""
    (output,) = reader.names["answer"].outputs
    assert output.data.shape == (2, 5)
    answers = {
        command.split()[2]: text for command, text in reader.outputs.items() if "curl" in command
    }
    scores = json.loads(answers["localhost:8000/v2/models/scores/infer"])
    assert scores["outputs"][0]["data"] == [1, 2, 3, 4]
    server = reader.server
    assert server is not None
    assert server.get("/v2/models/resnet50/versions/stable/ready") == 200
    files.photo(Path("photo.jpg"))
    url = f"http://127.0.0.1:{server.http}/v2/models/photos/infer"
    headers = {"Inference-Header-Content-Length": "0"}
    request = urllib.request.Request(url, Path("photo.jpg").read_bytes(), headers)
    with urllib.request.urlopen(request) as response:
        text = response.read()
    names = re.findall(rb"([a-z]{3}):-?\d", text)
    assert sorted(names) == [b"cat", b"dog", b"fox", b"hen", b"owl"]


def processing(reader: Reader) -> None:
    """Of each example; of the first one also that the boxes are right."""
    names = reader.names
    assert {"graph", "model", "results"} & names.keys()
    if "placement" in names.get("specs", {}) or "results" not in names:
        return
    results, file = names["results"], np.fromfile("photo.jpg", np.uint8)
    assert [step.split()[0] for step in names["model"].host_steps] == ["ImageDecoder"]
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


def javascript(reader: Reader) -> None:
    """Program and module print the shape of the digits' scores."""
    texts = [text for command, text in reader.outputs.items() if command.startswith("node")]
    assert "[1,10]" in texts[0]
    assert "[ 1, 10 ]" in texts[1]
    assert "[1,10]" in texts[2]


def bindings(reader: Reader) -> None:
    """All programs print the same scores."""
    programs = ("c++", "(cd app_go", "cargo run", "java -cp", "mcs")
    scores = [
        [float(n) for n in re.findall(r"-?\d+\.\d{3}", text)]
        for command, text in reader.outputs.items()
        if command.startswith(programs)
    ]
    assert len(scores[0]) == 10
    assert all(each == scores[0] for each in scores)


def c(reader: Reader) -> None:
    """The example's outputs have their sizes, and one program has both models."""
    texts = {command: text for command, text in reader.outputs.items() if command.startswith("cc")}
    both = next(text for command, text in texts.items() if "main.c" in command)
    example = next(text for command, text in texts.items() if "model.so" in command)
    assert len(texts) == 5
    assert all(text == example for text in texts.values() if text != both)
    assert "outputs[0]: 8 4 1 1" in example
    ears, eyes = map(json.loads, both.splitlines())
    assert ears["inputs"][0]["shape"] == ["batch", 3, 224, 224]
    assert eyes["outputs"][0]["name"] == "logits"
