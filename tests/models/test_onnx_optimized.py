"""Optimized networks as ONNX files: valid in every opset, with the interface and the answers of the
original.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import GraphProto, ModelProto, helper, numpy_helper

import infuse
from benchmarks.architectures import NAMES, files
from benchmarks.inputs import make_inputs
from infuse.errors import UnsupportedOperatorError
from infuse.exporters.onnx import to_model
from infuse.exporters.onnx.lowering import LOWEST
from infuse.ir.clone import clone
from infuse.ir.graph import Graph
from infuse.passes.rules import ALL_RULES
from infuse.rewrite import Driver, Rule
from infuse.testing.rule_cases import cases
from tests.models.onnx_tools import assert_close, model, run

pytestmark = [pytest.mark.row("C1"), pytest.mark.row("C6")]
SMALL = {"squeezenet1_1", "shufflenet_v2", "mobilenet_v3_large", "minilm_l6"}
MARKS = {name: () if name in SMALL else pytest.mark.zoo for name in NAMES}
ZOO = [pytest.param(file, marks=MARKS[name], id=file) for name in NAMES for file in files(name)]
SIZES = {"batch": 2, "seq": 9}
LEVELS = ("none", "basic", "extended", "all")
OWN = "com.microsoft"
TOLERANCE = 1e-5
node = helper.make_node


def interface(proto: ModelProto) -> list[bytes]:
    """Inputs and outputs to the letter."""
    return [
        info.SerializeToString(deterministic=True)
        for info in (*proto.graph.input, *proto.graph.output)
    ]


def operators(graph: GraphProto) -> Iterator[str]:
    """The operators of a graph and its bodies, `domain::name` for foreign ones."""
    for each in graph.node:
        yield f"{each.domain}::{each.op_type}" if each.domain else each.op_type
        for attribute in each.attribute:
            yield from operators(attribute.g)


def written(graph: Graph, path: Path, opset: int | None = None) -> ModelProto:
    """The graph as a valid file; the message without external data."""
    infuse.save(graph, path, opset=opset)
    onnx.checker.check_model(path, full_check=True)
    return onnx.load(path, load_external_data=False)


def check(
    graph: Graph, source: Path, expected: list[np.ndarray], path: Path, opset: int | None = None
) -> ModelProto:
    """Write `graph` and compare the file with the original network; the message."""
    proto = written(graph, path, opset)
    original = onnx.load(source, load_external_data=False)
    assert interface(proto) == interface(original)
    names = [n.name for n in proto.graph.node]
    assert len(set(names)) == len(names)
    assert proto.opset_import[0].version == (opset or original.opset_import[0].version)
    assert_close(run(path, make_inputs(source, SIZES)), expected, TOLERANCE)
    return proto


@pytest.mark.parametrize("name", ZOO)
def test_an_optimized_network_is_a_valid_file(
    name: str, zoo_model: Callable[[str], Path], tmp_path: Path
) -> None:
    source = zoo_model(name)
    expected = run(source, make_inputs(source, SIZES))
    graph = infuse.load(source)
    for level in LEVELS[1:]:
        check(infuse.optimize(graph, level), source, expected, tmp_path / "m.onnx")


def combinations() -> Iterator[Any]:
    """Networks, opsets and levels; a few of them always."""
    for name in ("shufflenet_v2", "minilm_l6"):
        for opset in range(LOWEST, 25):
            for level in LEVELS:
                few = opset in (13, 24) and level == "extended"
                yield pytest.param(name, opset, level, marks=() if few else pytest.mark.full)


@pytest.mark.parametrize(("name", "opset", "level"), list(combinations()))
def test_every_level_is_written_in_every_opset(
    name: str, opset: int, level: str, zoo_model: Callable[[str], Path], tmp_path: Path
) -> None:
    source = zoo_model(name)
    expected = run(source, make_inputs(source, SIZES))
    check(infuse.optimize(infuse.load(source), level), source, expected, tmp_path / "m.onnx", opset)


def test_new_opsets_have_fewer_nodes(zoo_model: Callable[[str], Path], tmp_path: Path) -> None:
    graph = infuse.optimize(infuse.load(zoo_model("minilm_l6")), "extended")
    counts = {
        o: list(operators(written(graph, tmp_path / "m.onnx", o).graph)) for o in (13, 17, 20, 24)
    }
    assert sorted(map(len, counts.values()), reverse=True) == [*map(len, counts.values())]
    assert {"LayerNormalization", "Gelu", "Attention"} <= set(counts[24])
    assert "Attention" not in counts[20]
    assert "Gelu" not in counts[17]
    assert "LayerNormalization" not in counts[13]


# -- for ONNX Runtime ------------------------------------------------------------------------------


def by_runtime(source: Path, path: Path) -> ModelProto:
    """What ONNX Runtime itself makes of a model with its extended optimizations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 4
    options.add_session_config_entry(
        "session.optimized_model_external_initializers_file_name", f"{path.name}.data"
    )
    options.add_session_config_entry(
        "session.optimized_model_external_initializers_min_size_in_bytes", "1000"
    )
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return onnx.load(path, load_external_data=False)


@pytest.mark.row("G33")
@pytest.mark.parametrize("name", ZOO)
def test_no_more_nodes_than_the_runtime_leaves(
    name: str, zoo_model: Callable[[str], Path], tmp_path: Path
) -> None:
    source = zoo_model(name)
    expected = run(source, make_inputs(source, SIZES))
    graph = infuse.optimize(infuse.load(source), infuse.Rules("extended", runtime="onnxruntime"))
    ours = list(operators(check(graph, source, expected, tmp_path / "ours.onnx").graph))
    theirs = list(operators(by_runtime(source, tmp_path / "theirs.onnx").graph))
    assert len(ours) <= len(theirs)
    assert any(kind.startswith(OWN) for kind in ours)


@pytest.mark.parametrize("level", LEVELS)
def test_own_operators_come_only_on_request(level: str, zoo_model: Callable[[str], Path]) -> None:
    for name in ("squeezenet1_1", "minilm_l6"):
        graph = infuse.optimize(infuse.load(zoo_model(name)), level)
        assert not any(n.op.domain or n.kind == "SimplifiedLayerNormalization" for n in graph.nodes)


@pytest.mark.parametrize("name", ["squeezenet1_1", "minilm_l6.dynamo"])
def test_what_the_runtime_wrote_is_read(
    name: str, zoo_model: Callable[[str], Path], tmp_path: Path
) -> None:
    """Its own operators are known: they run here, and come out as they went in."""
    source = zoo_model(name)
    theirs = by_runtime(source, tmp_path / "theirs.onnx")
    graph = infuse.load(tmp_path / "theirs.onnx")
    again = written_unchecked(graph, tmp_path / "again.onnx")
    assert sorted(operators(again.graph)) == sorted(operators(theirs.graph))
    assert {o.domain for o in again.opset_import} == {"", OWN}
    feeds = make_inputs(source, SIZES)
    assert_close(run(tmp_path / "again.onnx", feeds), run(source, feeds), TOLERANCE)


def written_unchecked(graph: Graph, path: Path) -> ModelProto:
    """The graph as a file that ONNX's checker may not know all operators of."""
    infuse.save(graph, path)
    return onnx.load(path, load_external_data=False)


def test_root_mean_squares_have_a_name_in_the_runtime(tmp_path: Path) -> None:
    """ONNX Runtime keeps SimplifiedLayerNormalization among ONNX's own operators, in every
    opset.
    """
    rng = np.random.default_rng(0)
    x, s = (rng.standard_normal(shape).astype(np.float32) for shape in ((6, 8), (8,)))
    nodes: list[Any] = [
        *(node("Mul", ["x", "x"], ["xx"]), node("ReduceMean", ["xx"], ["m"], axes=[-1])),
        *(
            node("Add", ["m", "e"], ["v"]),
            node("Sqrt", ["v"], ["d"]),
            node("Div", ["x", "d"], ["n"]),
        ),
        node("Mul", ["n", "s"], ["y"]),
    ]
    original = model(nodes, {"x": x.shape}, ["y"], 17, {"s": s, "e": np.float32(1e-6)})
    graph = infuse.optimize(infuse.load(original), infuse.Rules("extended", runtime="onnxruntime"))
    proto = written_unchecked(graph, tmp_path / "m.onnx")
    assert list(operators(proto.graph)) == ["SimplifiedLayerNormalization"]
    assert_close(run(proto, {"x": x}), run(original, {"x": x}), TOLERANCE)
    again = infuse.load(proto)
    assert [n.kind for n in again.nodes] == ["SimplifiedLayerNormalization"]


def test_weights_are_stored_once_for_packed_attention(
    zoo_model: Callable[[str], Path], tmp_path: Path
) -> None:
    source = zoo_model("minilm_l6")
    graph = infuse.optimize(infuse.load(source), infuse.Rules("extended", runtime="onnxruntime"))
    infuse.save(graph, tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").stat().st_size < source.stat().st_size
    proto = onnx.load(tmp_path / "m.onnx")
    packed = {n.input[1] for n in proto.graph.node if n.op_type == "Attention"}
    shapes = [numpy_helper.to_array(t).shape for t in proto.graph.initializer if t.name in packed]
    assert shapes == [(384, 1152)] * 6


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "rule", [r for r in ALL_RULES if not r.runtime], ids=lambda rule: rule.name
)
def test_what_rules_build_can_be_written_in_old_opsets(
    rule: Rule, rng: np.random.Generator
) -> None:
    """A rule never raises the opset: what was expressible in the oldest one is so afterwards."""
    for case in cases(rule, rng):
        try:
            to_model(case.graph, LOWEST)
        except UnsupportedOperatorError:
            continue
        rewritten = clone(case.graph)
        Driver([rule]).run(rewritten)
        to_model(rewritten, LOWEST)
