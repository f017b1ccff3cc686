"""Every form in which an exporter writes an operator is recognised, or refused with the reason."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import infuse
from infuse.ops.core.evaluate import evaluate
from tests.models.onnx_tools import assert_close, run
from tests.spellings.__main__ import main
from tests.spellings.catalog import FORMS
from tests.spellings.form import Form, operators

pytestmark = pytest.mark.row("G27")


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_form_is_recognised_or_refused_with_the_reason(form: Form) -> None:
    """The operators that are left are those that the form states, and compute what ONNX Runtime
    does on the original.
    """
    graph = form.optimized()
    assert operators(graph) == form.left
    results = list(evaluate(graph, form.feeds()).values())
    assert_close(results, run(form.model(), form.feeds()), form.tolerance)
    if form.refused_by:
        assert any(form.reason in reason for reason in form.refusals()), form.refusals()


def test_forms_are_told_apart() -> None:
    names = [str(form) for form in FORMS]
    assert len(set(names)) == len(names)


def test_a_form_that_is_not_recognised_is_noticed() -> None:
    """A form whose operator Infuse does not have stays as it is written."""
    form = Form("Swish", "nobody", "x[4]", "y = x * Sigmoid(x + 1.0)", "Swish")
    graph = infuse.load(form.model().SerializeToString())
    assert operators(graph) == operators(form.optimized()) == "Add Sigmoid Mul" != form.left
    x = form.feeds()["x"]
    (y,) = evaluate(graph, {"x": x}).values()
    np.testing.assert_allclose(y, x / (1 + np.exp(-x - 1)), rtol=1e-5)


def test_the_command_prints_what_becomes_of_each_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["Mish", "Zero times"]) == 0
    printed = capsys.readouterr().out
    recognised = sum(form.operator == "Mish" for form in FORMS)
    assert f"{recognised} recognised, 1 refused, 0 missed" in printed


def test_enough_forms_are_written() -> None:
    assert len(FORMS) >= 200


MOVED = [form for form in FORMS if "Transpose(" in form.text and not form.runtime]


@pytest.mark.parametrize("form", MOVED, ids=str)
def test_basic_leaves_no_more_transposes_than_onnxruntime(form: Form, tmp_path: Path) -> None:
    """Its basic level, in whose result only standard operators stand, is the witness."""
    model = form.model()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(tmp_path / "basic.onnx")
    onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    theirs = [node.op_type for node in onnx.load(tmp_path / "basic.onnx").graph.node]
    ours = infuse.optimize(infuse.load(model.SerializeToString()), "basic")
    assert operators(ours).split().count("Transpose") <= theirs.count("Transpose")
