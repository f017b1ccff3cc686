"""Sizes of one name in several inputs: equal where the model relies on it, and else as each input
has them.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx.helper import make_node as node

import infuse
from infuse.errors import InputError
from infuse.exporters.onnx import to_model
from infuse.serving.workers.build import described
from tests.models.onnx_tools import assert_close, model, run

pytestmark = pytest.mark.row("C1")


def towers(*more: Any) -> ModelProto:
    """Two chains that never meet, unless further nodes let them."""
    nodes = [
        node("Relu", ["a"], ["r"]),
        node("Shape", ["r"], ["sizes"]),
        node("ReduceSum", ["b"], ["t"], keepdims=0),
        node("Neg", ["b"], ["s"]),
        *more,
    ]
    outputs = ["sizes", "t", "s", *(name for each in more for name in each.output)]
    return model(nodes, {"a": ["N", 2], "b": ["N", "M"], "c": ["M"]}, outputs)


def feeds(a: int, b: int, m: int = 3, c: int = 3) -> dict[str, Any]:
    shapes = {"a": (a, 2), "b": (b, m), "c": (c,)}
    return {
        name: np.linspace(-1, 1, int(np.prod(s)), dtype=np.float32).reshape(s)
        for name, s in shapes.items()
    }


def test_inputs_that_never_meet_need_not_agree() -> None:
    proto = towers()
    graph = infuse.load(proto)
    assert [str(v.type) for v in graph.inputs] == [
        "float32[N, 2]",
        "float32[N_2, M]",
        "float32[M_2]",
    ]
    with infuse.compile(graph) as compiled:
        assert_close(list(compiled.run(feeds(4, 4)).values()), run(proto, feeds(4, 4)))
        with pytest.warns(
            RuntimeWarning, match="calls sizes of several inputs N, and they are 2, 5"
        ):
            results = compiled.run(feeds(2, 5))
        assert_close(list(results.values()), run(proto, feeds(2, 5)))
    written = to_model(graph).graph.input
    assert [
        [d.dim_param for d in v.type.tensor_type.shape.dim if d.dim_param] for v in written
    ] == [
        ["N"],
        ["N", "M"],
        ["M"],
    ]


def test_sizes_without_a_name_have_none_in_common() -> None:
    """Some exporters write empty names."""
    proto = model([node("Add", ["a", "b"], ["y"])], {"a": ["N", "M"], "b": ["M"]}, ["y"])
    sizes = [d for value in proto.graph.input for d in value.type.tensor_type.shape.dim]
    for size in sizes:
        size.dim_param = ""
    feeds = {"a": np.ones((2, 3), np.float32), "b": np.ones(3, np.float32)}
    with infuse.compile(infuse.load(proto)) as compiled, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_close(list(compiled.run(feeds).values()), run(proto, feeds))


def branch() -> Any:
    """A body that reads both."""
    bodies = {}
    for name, kind in (("then_branch", "Add"), ("else_branch", "Sub")):
        out = helper.make_tensor_value_info("o", TensorProto.FLOAT, None)
        inner = [node("ReduceSum", ["r"], ["i"], keepdims=0), node(kind, ["i", "s"], ["o"])]
        bodies[name] = helper.make_graph(inner, name, [], [out])
    return [
        node("Cast", ["t"], ["which"], to=TensorProto.BOOL),
        node("If", ["which"], ["y"], **bodies),
    ]


@pytest.mark.parametrize("meeting", [[node("Concat", ["r", "s"], ["y"], axis=1)], branch()])
def test_inputs_that_meet_must_agree(meeting: list[Any]) -> None:
    graph = infuse.load(towers(*meeting))
    assert [str(v.type) for v in graph.inputs][:2] == ["float32[N, 2]", "float32[N, M]"]
    with (
        infuse.compile(graph) as compiled,
        pytest.raises(InputError, match="N is 2 in a but 5 in b"),
    ):
        compiled.run(feeds(2, 5))


def test_a_server_counts_their_rows_once(tmp_path: Path) -> None:
    with infuse.compile(infuse.load(towers()), output=tmp_path / "made") as compiled:
        told = described(compiled)
    assert [row["shape"] for row in told["inputs"]] == [["N", 2], ["N", "M"], ["M"]]
    assert told["symbols"] == ["N", "M"]
