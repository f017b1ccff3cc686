"""The optimizer on well-known networks from both of PyTorch's exporters: what is recognised, what
is left, how fast.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import infuse
from benchmarks.architectures import NAMES, files
from benchmarks.inputs import make_inputs
from benchmarks.measure import difference
from infuse.exporters.onnx import to_model
from infuse.ir.equality import equal
from infuse.ir.graph import Graph
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate
from infuse.passes.run import optimize_in_place
from infuse.passes.selection import Selection

ZooModel = Callable[[str], Path]
SMALL = {"squeezenet1_1", "shufflenet_v2", "mobilenet_v3_large", "minilm_l6"}
TOLERANCE = 1e-5  # of the largest output
LIMIT = 1.5  # seconds

# Network → what must be recognised at level extended, and the most nodes that may be left of either
# exporter's file.
ENCODER = {"Attention": 12, "Gelu": 12, "LayerNormalization": 25, "Softmax": 0, "Erf": 0}
EXPECTED: dict[str, tuple[dict[str, int], int]] = {
    "resnet18": ({"BatchNormalization": 0, "Identity": 0}, 49),
    "resnet50": ({"BatchNormalization": 0, "Identity": 0}, 122),
    "vgg16": ({"Dropout": 0}, 37),
    "mobilenet_v2": ({"BatchNormalization": 0, "Clip": 35}, 100),
    "mobilenet_v3_large": ({"HardSwish": 21, "HardSigmoid": 8}, 140),
    "efficientnet_b0": ({"Swish": 49, "Sigmoid": 16}, 190),
    "squeezenet1_1": ({"Dropout": 0}, 65),
    "shufflenet_v2": ({"Split": 13, "Slice": 0, "Shape": 0}, 173),
    "densenet121": ({"BatchNormalization": 62}, 368),
    "inception_v3": ({"Concat": 11, "BatchNormalization": 0}, 215),
    "ghostnet": ({"HardSigmoid": 7, "Slice": 0}, 209),
    "mobilevit_s": (
        {"Attention": 9, "Swish": 34, "LayerNormalization": 21, "Softmax": 0, "Shape": 0},
        296,
    ),
    "convnext_tiny": ({"Gelu": 18, "LayerNormalization": 23, "Erf": 0, "Shape": 0}, 221),
    "swin_t": ({**ENCODER, "LayerNormalization": 29, "Shape": 0}, 387),
    "vit_b_16": ({**ENCODER, "Shape": 0}, 344),
    "bert_base": (ENCODER, 271),
    "minilm_l6": (
        {"Attention": 6, "Gelu": 6, "LayerNormalization": 13, "Softmax": 0, "Erf": 0},
        151,
    ),
    "gpt2": (ENCODER, 272),
}


def networks(names: list[str] = NAMES) -> list[object]:
    """Parameters: every file of these networks; the large ones need the zoo."""
    marks = {name: [] if name in SMALL else [pytest.mark.zoo] for name in names}
    return [pytest.param(file, marks=marks[name]) for name in names for file in files(name)]


def optimized(path: Path, level: str) -> Graph:
    graph = infuse.load(path)
    optimize_in_place(graph, Selection(level))
    verify(graph)
    return graph


def reference(model: Path | bytes, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


@pytest.mark.row("G4", "G5", "G6", "G8", "G11", "G12", "G18", "G27", "G33")
@pytest.mark.parametrize("name", networks())
def test_blocks_are_recognised_and_little_is_left(name: str, zoo_model: ZooModel) -> None:
    wanted, most = EXPECTED[name.removesuffix(".dynamo")]
    graph = optimized(zoo_model(name), "extended")
    left = Counter(node.kind for node in graph.unordered_nodes)
    assert {kind: left[kind] for kind in wanted} == wanted
    assert len(graph) <= most


@pytest.mark.row("G1", "G10", "G13", "G15")
@pytest.mark.parametrize("level", ["basic", "extended", "all"])
@pytest.mark.parametrize("name", networks())
def test_results_stay(name: str, level: str, zoo_model: ZooModel) -> None:
    """What is left, evaluated in NumPy, gives the answer of ONNX Runtime on the original."""
    path = zoo_model(name)
    graph, inputs = optimized(path, level), make_inputs(path, {"batch": 2, "seq": 9})
    assert difference(evaluate(graph, inputs), reference(path, inputs)) <= TOLERANCE


@pytest.mark.row("C6", "G27", "G33")
@pytest.mark.parametrize("name", networks())
def test_the_portable_stage_runs_elsewhere(name: str, zoo_model: ZooModel) -> None:
    """Exported to standard ONNX, the graph of level extended gives the same answer in ONNX
    Runtime.
    """
    path = zoo_model(name)
    inputs = make_inputs(path, {"batch": 2, "seq": 9})
    model = to_model(optimized(path, "extended"), opset=17).SerializeToString()
    assert difference(reference(model, inputs), reference(path, inputs)) <= TOLERANCE


@pytest.mark.parametrize("name", networks(["minilm_l6", "shufflenet_v2", "swin_t"]))
def test_the_same_model_gives_the_same_graph_and_a_second_run_changes_nothing(
    name: str, zoo_model: ZooModel
) -> None:
    path = zoo_model(name)
    first, second = optimized(path, "all"), optimized(path, "all")
    assert equal(first, second) is None
    assert not optimize_in_place(second, Selection("all")).rewrites
