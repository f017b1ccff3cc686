"""The table of faults, the record of calls, and the command that shows them."""

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

import infuse
from infuse import dtypes
from infuse.doctor.examine import Diagnostic, numbers, table
from infuse.doctor.page import page
from infuse.doctor.recorded import NODE, STACK, Reference, recorded_call, source_line
from infuse.errors import OptionError
from tests.cli_tools import Cli

ROOT = Path(__file__).parents[2]


def call_text(arguments: str, named: str = "{}", target: str = "torch.ops.aten.mul.Tensor") -> str:
    head = f"%y : [num_users=1] = call_function[target={target}]"
    return f"{head}(args = ({arguments}), kwargs = {named})"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("%x, 2", [Reference("x"), 2]),
        ("%x,", [Reference("x")]),
        ("", []),
        ("[2, 2], [], None, True", [[2, 2], [], None, True]),
        ("[%a, [%b]], mean", [[Reference("a"), [Reference("b")]], "mean"]),
        ("0.1, 1e-05, -inf, -3", [0.1, 1e-05, -float("inf"), -3]),
        ("torch.float32, torch.strided", [dtypes.float32, "torch.strided"]),
        ("'ij,jk->ik', cpu", ["ij,jk->ik", "cpu"]),
    ],
)
def test_arguments_are_read(arguments: str, expected: list[Any]) -> None:
    call = recorded_call({NODE: call_text(arguments)})
    assert call is not None
    assert list(call.positional) == expected
    assert (call.target, call.result) == ("aten.mul.Tensor", "y")


def test_arguments_have_the_names_of_the_schema() -> None:
    text = call_text("%x, [2, 2]", "{divisor_override: 3}", "torch.ops.aten.avg_pool2d.default")
    call = recorded_call({NODE: text})
    assert call is not None
    assert call.argument("kernel_size") == [2, 2]
    assert call.argument("divisor_override") == 3
    assert call.argument("ceil_mode", "absent") == "absent"
    assert call.references == ["x"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing",
        call_text("%x")[:-9],
        call_text("[%x"),
        call_text("%x]"),
        call_text("%x", "{dim"),
        call_text("%x", "{dim 1}"),
        call_text("%x", "[1]"),
        call_text("[" * 200 + "]" * 200),
        call_text("%x, " * 10_000),
        call_text("<locals>"),
    ],
)
def test_what_is_no_call_is_none(text: str) -> None:
    assert recorded_call({NODE: text}) is None


@pytest.mark.parametrize(
    ("stack", "line"),
    [
        ("", ""),
        ('File "/home/a.py", line 3, in forward\n    return x', "/home/a.py:3"),
        (
            'File "/home/a.py", line 3, in forward\nFile "/lib/torch/nn/f.py", line 9, in g',
            "/home/a.py:3",
        ),
        ('File "/lib/torch/nn/f.py", line 9, in g', "/lib/torch/nn/f.py:9"),
    ],
)
def test_the_line_is_the_innermost_of_the_user(stack: str, line: str) -> None:
    assert source_line(stack) == line
    call = recorded_call({NODE: call_text("%x"), STACK: stack})
    assert call is not None
    assert call.line == line


@pytest.mark.parametrize("fault", table(), ids=lambda fault: fault.name)
def test_a_row_says_all(fault: Any) -> None:
    assert (ROOT / fault.proof).is_file()
    assert fault.versions == tuple(sorted(fault.versions, key=numbers))
    assert fault.gone is None or numbers(fault.gone) > numbers(fault.versions[-1])
    for text in (fault.right, fault.wrong, fault.when, fault.advice):
        assert text
        assert not text.endswith(".")


def test_the_page_is_that_of_the_table() -> None:
    expected = page()
    assert (ROOT / "docs" / "faults.md").read_text("utf-8") == expected, (
        "python -m infuse.doctor.page docs/faults.md"
    )


def test_versions_are_compared_by_number() -> None:
    assert numbers("2.13.0+cpu") == (2, 13, 0)
    assert numbers("1.9") < numbers("1.10.1")
    fault = next(fault for fault in table() if fault.by == "torch.onnx")
    untested = {v: Diagnostic(fault, "n", "Log", version=v).untested for v in ("99.0", None)}
    assert untested == {"99.0": True, None: False}
    assert not Diagnostic(fault, "n", "Log", version=fault.versions[-1]).untested


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model that shows a fault of ONNX Runtime, a note of it, and one of a tool."""
    inputs, outputs = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4, 1, 1])] for name in "xy"
    )
    nodes = [
        helper.make_node("LRN", ["x"], ["a"], "even", size=2),
        helper.make_node("ReduceMax", ["a"], ["b"], "largest", keepdims=1),
        helper.make_node("Round", ["b"], ["r"], "rounded"),
        helper.make_node("Add", ["a", "r"], ["y"], "sum"),
    ]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
    return path


def test_the_command_shows_faults_and_counts_notes(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(capsys)
    answer = cli("doctor", model)
    assert answer.status == 1
    assert "LRN even: onnxruntime-refuses-normalization-over-even-windows" in answer.out
    assert "openvino-normalizes-even-windows-elsewhere" in answer.out
    assert "largest" not in answer.out
    assert "1 note on special numbers" in answer.out
    answer = cli("doctor", model, "--for", "mnn")
    assert "mnn-converter-overlooks-round" in answer.out
    assert "LRN" not in answer.out
    answer = cli("doctor", model, "--for", "onnxruntime==1.32.0,openvino", "--notes", "--json")
    facts = answer.json
    assert [(each["by"], each["node"]) for each in facts["faults"]] == [
        ("onnxruntime", "even"),
        ("openvino", "even"),
    ]
    assert [each["node"] for each in facts["notes"]] == ["largest"]
    assert facts["faults"][0]["untested"] is None
    answer = cli("doctor", model, "--for", "onnxruntime==99.0")
    assert "not tried with 99.0" in answer.out


def test_a_clean_model_is_said_to_be_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    infuse.save(infuse.trace(lambda x: x + 1, [infuse.Spec("float32", (2,))]), tmp_path / "m.onnx")
    answer = Cli(capsys)("doctor", tmp_path / "m.onnx")
    assert answer.status == 0
    assert "no known fault of its exporter, and none of onnxruntime, openvino" in answer.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--for", "onnxrutime"], "onnxruntime"),
        (["--for", "tensorrt"], "it has"),
        (["--repair", "out.txt"], ".onnx or .infuse"),
        (["--list"], "leave the model out"),
    ],
)
def test_wrong_usage_is_said(
    arguments: list[str], said: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = Cli(capsys)("doctor", model, *arguments)
    assert answer.status
    assert said in answer.err


def test_the_list_has_every_fault(capsys: pytest.CaptureFixture[str]) -> None:
    rows = Cli(capsys)("doctor", "--list", "--json").json
    assert [row["fault"] for row in rows] == [fault.name for fault in table()]


def test_a_runtime_that_nobody_knows_is_an_error(model: Path) -> None:
    with pytest.raises(OptionError, match="tensorrt"):
        infuse.diagnose(model, ["tensorrt"])
    assert infuse.diagnose(model, "onnxruntime").faults
