"""Models with their channels last, whose last kernels write the outputs, beside ONNX Runtime."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import infuse
from infuse.ir.graph import Array, Graph
from infuse.runtime.foreign import ForeignModel
from infuse.targets import Target
from tests.channels_last import all_networks
from tests.decoders import drawn
from tests.native.foreign import needs_emulator, run_foreign

pytestmark = pytest.mark.row("R1")


def check(ours: dict[str, Any], graph: Graph, folder: Path, feeds: dict[str, Array]) -> None:
    """The outputs are those of ONNX Runtime for the graph as it was before anything was
    optimized.
    """
    infuse.save(graph, folder / "model.onnx")
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    names = [output.name for output in session.get_outputs()]
    assert ours.keys() == set(names)
    for name, expected in zip(names, session.run(names, feeds)):
        # Sums of up to 189 products of numbers below 10.
        np.testing.assert_allclose(ours[name], expected, rtol=1e-4, atol=1e-3, err_msg=name)


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_outputs_are_those_of_onnx_runtime(target: str, tmp_path: Path) -> None:
    if not Target.resolve(target).is_runnable:
        pytest.skip(f"this machine does not run {target}")
    graph = all_networks("n", "h", "w")
    model = infuse.compile(infuse.optimize(graph), infuse.CompileOptions(target=target, threads=2))
    for n, h, w in ((1, 2, 2), (3, 9, 6)):
        feeds = {v.name: drawn(v, n=n, h=h, w=w) for v in graph.inputs}
        check(dict(model.run(feeds)), graph, tmp_path, feeds)


@needs_emulator
def test_outputs_on_arm_are_those_of_onnx_runtime(tmp_path: Path) -> None:
    graph = all_networks(2, 6, 5)
    model = infuse.compile(
        infuse.optimize(graph), infuse.CompileOptions(target="aarch64"), output=tmp_path / "model"
    )
    assert isinstance(model, ForeignModel)
    feeds = {v.name: drawn(v) for v in graph.inputs}
    check(dict(run_foreign(model, feeds, tmp_path)), graph, tmp_path, feeds)
