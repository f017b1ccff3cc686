"""The benchmark of layers: which layers networks have, their models, and what is summed up."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import infuse
from benchmarks.gemm import (
    Eviction,
    Layer,
    Row,
    Torch,
    collect,
    engine_names,
    summary,
    table,
    timed,
)
from benchmarks.measure import Timing

CONV = Layer(
    "Conv",
    (1, 8, 10, 12),
    (6, 4, 3, 2),
    (
        ("dilations", (1, 1)),
        ("group", 2),
        ("kernel_shape", (3, 2)),
        ("pads", (1, 0, 1, 0)),
        ("strides", (2, 1)),
    ),
)
PRODUCT = Layer("MatMul", (10, 16), (16, 5))


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """Two equal products of (batch · 5) rows, a turned one, and a convolution."""
    rng = np.random.default_rng(0)
    weights = {
        "a": rng.uniform(-1, 1, (16, 16)),
        "b": rng.uniform(-1, 1, (16, 16)),
        "c": rng.uniform(-1, 1, (3, 16)),
        "f": rng.uniform(-1, 1, (4, 5, 1)),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["p"]),
        helper.make_node("Relu", ["p"], ["q"]),
        helper.make_node("MatMul", ["q", "b"], ["r"]),
        helper.make_node("Conv", ["r", "f"], ["s"]),
        helper.make_node("Relu", ["s"], ["t"]),
        helper.make_node("Flatten", ["t"], ["u"], axis=2),
        helper.make_node("Gemm", ["u", "c"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 5, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
    )
    path = tmp_path / "network.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_layers_of_a_network_are_counted_once(network: Path) -> None:
    layers = collect([network], {"batch": 2, "seq": 128})
    assert {layer.label: (count, places) for layer, count, places in layers} == {
        "10×16×16": (2, ["network"]),
        "2×5×16 → 4 by 1": (1, ["network"]),
        "8×16×3": (1, ["network"]),
    }


@pytest.mark.parametrize("layer", [CONV, PRODUCT], ids=lambda layer: layer.kind)
def test_a_layer_is_a_model_of_one_operator(layer: Layer) -> None:
    graph = infuse.load(layer.model())
    assert [node.kind for node in graph.nodes] == [layer.kind]
    (result,) = graph.outputs
    flops = 2 * int(np.prod(result.shape)) * (24 if layer is CONV else 16)
    assert layer.flops() == flops
    assert layer.feeds()["x"].shape == layer.x


def test_labels_tell_what_differs() -> None:
    assert CONV.label == "1×8×10×12 → 6 by 3×2, strides 2×1, 2 groups"
    assert PRODUCT.label == "10×16×5"


@pytest.mark.parametrize("layer", [CONV, PRODUCT], ids=lambda layer: layer.kind)
def test_torch_computes_the_layer(layer: Layer) -> None:
    pytest.importorskip("torch")
    (expected,) = ReferenceEvaluator(layer.model()).run(None, layer.feeds())
    found = Torch(layer, 1, "fp32").answer(layer.feeds())["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_only_what_runs_is_timed_and_all_of_it() -> None:
    calls: list[str] = []
    times = timed(lambda: calls.append("run"), lambda: calls.append("before"), 0.0)
    assert len(times) == calls.count("before") == 1
    assert calls[-2:] == ["before", "run"]


def test_eviction_reads_more_than_the_caches_hold() -> None:
    evict = Eviction(2)
    evict(PRODUCT.feeds())
    assert len(evict.buffers) == 2
    assert all(buffer.nbytes >= 1 << 20 for buffer in evict.buffers)


def row(ours: float, peer: float, count: int) -> Row:
    return Row(
        PRODUCT,
        count,
        ["n"],
        roof=0.001,
        times={"infuse": Timing(ours, ours, 3), "torch": Timing(peer, peer, 3)},
    )


def test_what_loses_most_comes_first_and_is_summed_up() -> None:
    rows = [row(0.002, 0.004, 2), row(0.004, 0.003, 5), row(0.01, 0.008, 1)]
    told = summary(rows)
    assert told["slower"] == 2
    assert told["lowest"] == 0.75
    assert told["lost_ms"] == pytest.approx(5 + 2)
    assert told["of_roof"] == pytest.approx(0.008 / (0.004 + 0.02 + 0.01))
    assert list(table(rows, ["infuse", "torch"], 2).columns[2].cells) == ["+5.00", "+2.00"]


def test_a_layer_without_a_peer_is_no_loss() -> None:
    alone = Row(PRODUCT, 1, ["n"], roof=0.001, times={"infuse": Timing(1, 1, 1)})
    assert alone.lost == 0
    assert alone.ratio is None
    assert summary([alone]) == {}


def test_torch_is_an_engine_here() -> None:
    assert engine_names("onnxruntime,torch") == ["onnxruntime", "torch"]
    with pytest.raises(Exception, match="no such engine: oneDNN"):
        engine_names("oneDNN,torch")
