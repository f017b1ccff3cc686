"""Tokenizer of com.microsoft, as text pipelines of scikit-learn have it, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import infuse
from infuse.errors import ShapeError
from infuse.frontends.onnx import load
from infuse.ops.core.evaluate import evaluate
from tests.models.onnx_tools import run

pytestmark = pytest.mark.row("C1")
TEXTS = (
    np.array(["hello world", "a,b  c", "", "é xx y"], object),
    np.array([["A-b c"], ["zz top"]], object),
    np.array([""], object),
)


def model(shape: tuple[int, ...], **attributes: Any) -> onnx.ModelProto:
    node = helper.make_node(
        "Tokenizer", ["x"], ["y"], domain="com.microsoft", pad_value="#", **attributes
    )
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.STRING, shape)]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize("x", TEXTS, ids=["list", "rows", "nothing"])
@pytest.mark.parametrize("mark", [0, 1])
@pytest.mark.parametrize(
    "how",
    [
        {"separators": [""]},
        {"separators": [" "]},
        {"separators": [",", "\\s+"], "mincharnum": 2},
        {"separators": ["[^a-z]"]},
        {"tokenexp": "[a-zA-Z]+"},
        {"tokenexp": "\\w\\w+"},
        {"tokenexp": "a*", "mincharnum": 2},
    ],
    ids=str,
)
def test_tokens_are_those_of_the_runtime(how: dict[str, Any], mark: int, x: np.ndarray) -> None:
    pytest.importorskip("re2")
    proto = model(x.shape, mark=mark, **{"mincharnum": 1, **how})
    (exact,) = run(proto, {"x": x})
    found = evaluate(load(proto), {"x": x})["y"]
    assert found.shape == exact.shape
    assert found.tolist() == exact.tolist()


def test_a_model_of_texts_runs() -> None:
    proto = model((2,), mark=0, mincharnum=1, separators=[""])
    with infuse.compile(infuse.load(proto)) as compiled:
        found = compiled.run({"x": np.array(["ab", "c"], object)})["y"]
    assert found.tolist() == [["a", "b"], ["c", "#"]]


def test_characters_have_one_character() -> None:
    with pytest.raises(ShapeError, match="mincharnum is too large"):
        load(model((2,), mark=0, mincharnum=2, separators=[""]))
