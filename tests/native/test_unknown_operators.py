"""Operators that nobody can run are refused when a model is compiled or loaded, with their names,
not when it runs.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto, helper, save

import infuse
from infuse.errors import UnsupportedOperatorError
from tests.cli_tools import Cli

pytestmark = pytest.mark.row("C1")


@pytest.fixture
def strange(tmp_path: Path) -> Path:
    """A model with an unknown operator, and another one inside of a branch."""
    info = helper.make_tensor_value_info
    x, y = (info(name, TensorProto.FLOAT, [2]) for name in "xy")
    inner = helper.make_node("Inner", ["a"], ["t"], name="hidden", domain="my.own")
    branches = [
        helper.make_graph([node], "branch", [], [info("t", TensorProto.FLOAT, [2])])
        for node in (inner, helper.make_node("Relu", ["a"], ["t"]))
    ]
    nodes = [
        helper.make_node("Strange", ["x"], ["a"], name="odd", domain="my.own"),
        helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    graph = helper.make_graph(nodes, "g", [x, info("c", TensorProto.BOOL, [])], [y])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my.own", 1)]
    path = tmp_path / "strange.onnx"
    save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
    return path


@pytest.mark.filterwarnings("ignore:the model does not state the types:RuntimeWarning")
def test_a_model_is_refused_where_it_would_run(strange: Path) -> None:
    for begin in (infuse.compile, infuse.InferenceSession):
        with pytest.raises(UnsupportedOperatorError) as caught:
            begin(strange)
        for name in ("my.own::Strange", "'odd'", "my.own::Inner", "'hidden'", "infuse.ops.Op"):
            assert name in str(caught.value)


@pytest.mark.filterwarnings("ignore:the model does not state the types:RuntimeWarning")
def test_it_is_still_optimized_and_shown(
    strange: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(capsys)
    infuse.save(infuse.optimize(strange), tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").exists()
    answer = cli("show", strange, "--kernels")
    assert answer.status == 0
    assert "unsupported, infuse compile refuses" in answer.out + answer.err
    assert "my.own::Strange" in cli.refused("compile", strange, "-o", tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
