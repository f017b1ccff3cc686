"""What pages say of their snippets, held against the names that these leave behind."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from infuse import processing as p
from infuse.ops.core.evaluate import evaluate

Names = dict[str, Any]


def readme(names: Names, printed: str) -> None:
    (logits,) = names["outputs"].values()
    assert logits.shape == (1, 1000)
    assert re.search(r"\d+ → \d+ nodes", printed)


def prebuilt_answers(names: Names, printed: str) -> None:
    assert printed.startswith(("prebuilt", "compiled"))
    names["model"].close()


def frontends(names: Names, printed: str) -> None:
    assert "torch" not in names or {"graph", "model", "fast"} & names.keys()


def training(names: Names, printed: str) -> None:
    assert names["right"] > 0.97
    losses = names["report"].losses
    assert losses[-1] < 0.2 < losses[0]
    merged, adapted = (
        evaluate(names[name], {"x": names["points"]}) for name in ("merged", "adapted")
    )
    for name, scores in merged.items():
        # One product of the sum against the sum of two, in float32.
        np.testing.assert_allclose(scores, adapted[name], rtol=1e-3, atol=1e-4)


def training_reference(names: Names, printed: str) -> None:
    assert names["error"] < 1e-3


def processing_reference(names: Names, printed: str) -> None:
    expected = p.to_planes(p.normalize(names["small"]))
    np.testing.assert_allclose(names["planes"], expected, rtol=1e-4, atol=1e-4)
    assert names["small"].shape == (24, 32, 3) != names["photo"].shape


def serving_reference(names: Names, printed: str) -> None:
    assert all(each.shape[0] == 1 for each in names["scores"].values())
    assert names["response"].outputs[0].data.shape == (1, 5)


def estimators(names: Names, printed: str) -> None:
    assert names["names"] == (["x"], ["label", "probabilities"])
    assert (names["labels"] == names["pipeline"].predict(names["rows"])).all()


def inspect_and_compare(names: Names, printed: str) -> None:
    assert names["total"].seconds > 0
    assert names["comparison"].a.score > 0.9
    assert names["worst"] in names["comparison"].layers


def compression(names: Names, printed: str) -> None:
    assert re.search(r"the bound of 0.5% is met", printed)


def serving(names: Names, printed: str) -> None:
    """The answer of the server and that inside of the program are the same."""
    (output,) = names["answer"].outputs
    assert output.data.shape == (2, 5)


def processing(names: Names, printed: str) -> None:
    """Of each example; of the first one also that the boxes are right."""
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
