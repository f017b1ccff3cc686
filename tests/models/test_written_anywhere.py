"""Files that verbs write are opened by ONNX Runtime at all of its levels and by OpenVINO, which
give what Infuse gives.
"""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import infuse
from infuse.cli.main import main
from tests.native.builder import Builder

pytestmark = pytest.mark.row("Z2")
EXACT, STEP, ROUNDED = 2e-4, 5e-3, 3e-2
"""How far results may be from ours. Where a sum lies between two bytes, another order of sums gives
the other. Activations that have more than 8 bits are rounded to 8 where weights have few, by ONNX
Runtime from `extended` on (`session.qdq_matmulnbits_accuracy_level` is 4) and by OpenVINO.
"""
FORMS = {
    "--int8": STEP,
    "--int8 --equalize": STEP,
    "--int8 --int4": ROUNDED,
    "--int16-activations": ROUNDED,
    "--int8-dynamic": ROUNDED,
    "--int8-weights": ROUNDED,
    "--int4": ROUNDED,
    "--int4 --rotate": ROUNDED,
    "--int3": ROUNDED,
    "--int2": ROUNDED,
    "--prune 50%": EXACT,
    "--sparse 50%": EXACT,
}
USUAL = ("--int8", "--int8-weights", "--int4", "--sparse 50%")
NOT_OF_OPENVINO = ("--int2",)
"""OpenVINO 2026.4 has no ONNX element type of 2 bits."""
LEVELS = ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_ALL")


def network(path: Path) -> np.ndarray:
    """A model file of convolutions and products, whose numbers keep their size; its input."""
    rng = np.random.default_rng(0)
    build = Builder("layers")

    def weight(*shape: int) -> np.ndarray:
        spread = np.sqrt(2 / np.prod(shape[1:] if len(shape) == 4 else shape[:1]))
        return (rng.standard_normal(shape) * spread).astype(np.float32)

    x = build.input("batch", 3, 16, 16, name="x")
    hidden = build("Relu", build("Conv", x, weight(16, 3, 3, 3), pads=(1, 1, 1, 1)))
    more = build("Relu", build("Conv", hidden, weight(16, 16, 3, 3), pads=(1, 1, 1, 1)))
    hidden = build("MaxPool", build("Add", hidden, more), kernel_shape=(4, 4), strides=(4, 4))
    hidden = build("Relu", build("MatMul", build("Flatten", hidden), weight(256, 512)))
    build.output(build("MatMul", hidden, weight(512, 256)))
    infuse.save(build.graph, path)
    return rng.standard_normal((16, 3, 16, 16)).astype(np.float32)


def check(path: Path, x: np.ndarray, tolerance: float, openvino: bool) -> None:
    """Both runtimes open a file; they give what Infuse does."""
    expected = infuse.compile(infuse.load(path)).run({"x": x})["y0"]
    most = np.abs(expected).max()
    for level in LEVELS:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(
            onnxruntime.GraphOptimizationLevel, f"ORT_{level}"
        )
        (found,) = onnxruntime.InferenceSession(str(path), options).run(None, {"x": x})
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * most, err_msg=level)
    if openvino:
        core = pytest.importorskip("openvino").Core()
        model = core.compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        np.testing.assert_allclose(model([x])[0], expected, rtol=0, atol=tolerance * most)


@pytest.mark.parametrize(
    "form",
    [form if form in USUAL else pytest.param(form, marks=pytest.mark.full) for form in FORMS],
)
def test_compressed_files(form: str, tmp_path: Path) -> None:
    source, output = tmp_path / "model.onnx", tmp_path / "small.onnx"
    x = network(source)
    np.savez(tmp_path / "data.npz", x=x)
    paths = [str(source), "-o", str(output), "--data", str(tmp_path / "data.npz")]
    assert main(["compress", *paths, *form.split(), "--allow-slower"]) == 0
    if "int" in form:
        names = {node.op.name for node in infuse.load(output).nodes}
        assert names & {"DequantizeLinear", "DynamicQuantizeLinear"}
    check(output, x, FORMS[form], form not in NOT_OF_OPENVINO)


@pytest.mark.parametrize("verb", ["optimize --level all", "convert"])
def test_other_verbs(verb: str, tmp_path: Path) -> None:
    source, output = tmp_path / "model.onnx", tmp_path / "written.onnx"
    x = network(source)
    name, *options = verb.split()
    assert main([name, str(source), "-o", str(output), *options]) == 0
    check(output, x, EXACT, True)
