"""ONNX files with weights of few bits are opened by ONNX Runtime at all of its levels, which give
what Infuse gives.
"""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import infuse
from infuse.cli.main import main
from tests.native.builder import Builder

pytestmark = pytest.mark.row("Z2")
FORMS = ("--int8-weights", "--int4", "--int3", "--int2")
LEVELS = {"DISABLE_ALL": 2e-4, "ENABLE_BASIC": 2e-4, "ENABLE_EXTENDED": 2e-2, "ENABLE_ALL": 2e-2}
"""Levels, and how far results may be from the exact ones: from `extended` on, ONNX Runtime rounds
what it multiplies by such weights to 8 bits (`session.qdq_matmulnbits_accuracy_level` is 4).
"""


@pytest.mark.parametrize(
    "form",
    [*FORMS[:2], *(pytest.param(form, marks=pytest.mark.full) for form in FORMS[2:])],
)
def test_every_level_opens_them(form: str, tmp_path: Path) -> None:
    build = Builder("layers")
    x = build.input("batch", 64, name="x")
    hidden = build("Relu", build("MatMul", x, build.weight(64, 1024)))
    build.output(build("MatMul", hidden, build.weight(1024, 512)))
    infuse.save(build.graph, tmp_path / "model.onnx")
    data = np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=data)
    source, output = tmp_path / "model.onnx", tmp_path / "small.onnx"
    paths = [str(source), "-o", str(output), "--data", str(tmp_path / "data.npz")]
    assert main(["compress", *paths, form, "--allow-slower"]) == 0
    graph = infuse.load(output)
    assert any(node.op.name == "DequantizeLinear" for node in graph.nodes)
    expected = infuse.compile(graph).run({"x": data})["y0"]
    for level, tolerance in LEVELS.items():
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(
            onnxruntime.GraphOptimizationLevel, f"ORT_{level}"
        )
        session = onnxruntime.InferenceSession(str(output), options)
        (found,) = session.run(None, {"x": data})
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())
