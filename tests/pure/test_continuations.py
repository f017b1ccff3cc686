"""What follows branches whose results differ in rank goes into them, no further than it must."""

from typing import Any

import numpy as np
import onnx
import pytest

from infuse.errors import DataError
from infuse.exporters.onnx import to_model
from infuse.frontends.onnx import load
from infuse.ir.graph import Graph
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate
from infuse.passes import continuations
from infuse.passes.run import optimize_in_place
from infuse.passes.selection import Selection
from tests.branch_models import CASES, CHOSEN, names
from tests.models.onnx_tools import run

RULE = "ContinueInBranches"
pytestmark = pytest.mark.row("G24", "C7")


@names
def test_ranks_are_settled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFUSE_CHECK", "1")
    case = CASES[name]
    graph = load(case.proto)
    report = optimize_in_place(graph)
    verify(graph)
    assert report.fired[RULE] > 0
    assert tuple(node.kind for node in graph.nodes) == case.beside
    assert unknown_ranks(graph) == []
    for feeds in case.feeds:
        for found, expected in zip(
            evaluate(graph, feeds).values(), run(case.proto, feeds), strict=True
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-6, strict=True)
    for feeds in case.fails:
        with pytest.raises(DataError, match=case.why):
            evaluate(graph, feeds)


def unknown_ranks(graph: Graph) -> list[str]:
    """Values that are no tensors of one rank."""
    return [
        value.name
        for inner in graph.all_graphs()
        for node in inner.nodes
        for value in node.outputs
        if not continuations.is_settled(value.type)
    ]


@names
def test_it_can_be_switched_off(name: str) -> None:
    case = CASES[name]
    graph = load(case.proto)
    report = optimize_in_place(graph, Selection(disable=frozenset({RULE})))
    assert not report.fired[RULE]
    assert unknown_ranks(graph)


@names
def test_the_result_is_onnx(name: str) -> None:
    """Assertions, too, are written with operators that ONNX has."""
    case = CASES[name]
    graph = load(case.proto)
    optimize_in_place(graph)
    written = to_model(graph)
    onnx.checker.check_model(written)
    for feeds in case.feeds:
        used = {v.name: feeds[v.name] for v in graph.inputs}
        for found, expected in zip(run(written, used), run(case.proto, feeds), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6, strict=True)
    for feeds in case.fails:
        with pytest.raises(Exception, match="indices element out of data bounds"):
            run(written, feeds)


def test_copies_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuations, "MOST_COPIES", 3)
    case = CASES["ranks agree again"]
    graph = load(case.proto)
    report = optimize_in_place(graph)
    assert not report.fired[RULE]
    assert [note for note in report.notes if "3 are the most" in note]
    for feeds in CHOSEN:
        np.testing.assert_allclose(
            evaluate(graph, feeds)["y"], run(case.proto, feeds)[0], rtol=1e-6
        )


def chain(count: int) -> Any:
    """So many Ifs, each of which waits for the rank that the one before it gives."""
    steps = "".join(
        f"""
          s{i} = If (c{i}) <then_branch = t{i} () => (a{i}) {{ a{i} = Unsqueeze(s{i - 1}, first) }},
                            else_branch = e{i} () => (b{i}) {{ b{i} = Identity(s{i - 1}) }}>"""
        for i in range(1, count + 1)
    )
    inputs = ", ".join(f"bool c{i}" for i in range(1, count + 1))
    return onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21]> m ({inputs}, float[n] s0) => (float[n] y) {{
          first = Constant<value_ints = [0]>()  all = Constant<value_ints = [-1]>() {steps}
          y = Reshape(s{count}, all)
        }}"""
    )


@pytest.mark.parametrize("count", [3, 40])
def test_ifs_in_a_row_do_not_explode(count: int) -> None:
    proto = chain(count)
    graph = load(proto)
    report = optimize_in_place(graph)
    assert report.nodes_after <= 2 * continuations.MOST_COPIES
    assert (unknown_ranks(graph) == []) is (count == 3)
    assert bool(report.notes) is (count == 40)
    feeds = {f"c{i}": np.array(i % 2 == 0) for i in range(1, count + 1)} | {
        "s0": np.ones(3, np.float32)
    }
    np.testing.assert_array_equal(evaluate(graph, feeds)["y"], np.ones(3, np.float32))


def test_what_a_loop_may_never_run_proves_nothing() -> None:
    """Its body is ill-typed for one branch, and both branches may go on: nothing is changed."""
    proto = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]>
        m (bool c, int64 n, float[k] x, float[2, 2] w) => (float[j] y) {
          go = Constant<value = bool {1}>()
          s = If (c) <then_branch = t () => (a) { a = Identity(w) },
                      else_branch = e () => (b) { b = Neg(x) }>
          p = Loop (n, go, x) <body = b (int64 i, bool g, s0) => (h, q) {
            h = Identity(g)  d = Transpose<perm = [1, 0]>(s)  r = MatMul(d, w)
            u = ReduceMax<keepdims = 0>(r)  q = Add(s0, u) }>
          z = ReduceMax<keepdims = 0>(s)  y = Add(p, z)
        }"""
    )
    graph = load(proto)
    report = optimize_in_place(graph)
    verify(graph)
    assert not report.fired[RULE]
    assert [note for note in report.notes if "nobody knows whether its else_branch" in note]
    for truth, count in ((True, 3), (False, 0)):
        feeds = {
            **{"c": np.array(truth), "n": np.array(count), "x": np.ones(3, np.float32)},
            "w": np.eye(2, dtype=np.float32),
        }
        np.testing.assert_allclose(evaluate(graph, feeds)["y"], run(proto, feeds)[0], rtol=1e-6)


@pytest.mark.parametrize(("shape", "branches"), [("n, m, 2", 3), ("n, m, k", 0), ("n, 1, 2", 1)])
def test_axes_are_chosen_where_few_sizes_are_open(shape: str, branches: int) -> None:
    proto = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21]>
        m (float[{shape}] x) => (y) {{ y = Squeeze(x) }}"""
    )
    graph = load(proto)
    assert optimize_in_place(graph).fired["ChooseSqueezedAxes"] == bool(branches)
    assert sum(n.kind == "If" for g in graph.all_graphs() for n in g.nodes) == branches
    for sizes in ((3, 1, 2), (1, 1, 2)):
        feeds = {"x": np.ones(sizes, np.float32)}
        assert evaluate(graph, feeds)["y"].shape == run(proto, feeds)[0].shape
