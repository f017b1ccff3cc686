"""Branches whose results differ in rank as native code, beside ONNX Runtime."""

import dataclasses
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest

import infuse
from infuse.errors import DataError
from infuse.ops.core.evaluate import evaluate
from infuse.runtime.model import CompiledModel
from tests.branch_models import CASES, RETURNED, names
from tests.models.onnx_tools import run

pytestmark = pytest.mark.row("G24", "C7")


@names
def test_nothing_is_left_to_the_interpreter(name: str) -> None:
    case = CASES[name]
    with infuse.compile(
        infuse.optimize(infuse.load(case.proto)), infuse.CompileOptions(threads=1)
    ) as compiled:
        assert not compiled.host_steps
        given = {spec.name for spec in compiled.inputs}
        for feeds in [*case.feeds, case.feeds[0]]:
            results = compiled.run({k: v for k, v in feeds.items() if k in given}).values()
            for found, expected in zip(results, run(case.proto, feeds), strict=True):
                np.testing.assert_allclose(found, expected, rtol=2e-6, strict=True)
        for feeds in case.fails:
            with pytest.raises(DataError, match=case.why):
                compiled.run(feeds)


@pytest.mark.parametrize("level", ["none", "all"])
@pytest.mark.parametrize("name", RETURNED)
def test_a_run_finds_out_the_rank_of_a_result(name: str, level: str, tmp_path: Path) -> None:
    case = RETURNED[name]
    graph = infuse.optimize(infuse.load(case.proto), level)
    infuse.compile(graph, infuse.CompileOptions(threads=1), output=tmp_path / "model").close()
    with infuse.load_compiled(tmp_path / "model") as compiled:
        if level == "all":
            assert isinstance(compiled, CompiledModel)
        assert [spec.name for spec in compiled.outputs] == graph.output_names
        assert str(compiled.outputs[0]).endswith("[?]")
        for feeds in [*case.feeds, case.feeds[0]]:
            for found, expected in zip(
                compiled.run(feeds).values(), run(case.proto, feeds), strict=True
            ):
                np.testing.assert_allclose(found, expected, rtol=2e-6, strict=True)


def test_stages_return_any_rank_too() -> None:
    """Beside a host step, a native stage gives a result of any rank."""
    text = RETURNED["a result of any rank"].text
    one = "one = Constant<value = int64 {1}>()  q = SplitToSequence<axis = 0>(x, one)"
    text = text.replace("float[n, m] z)", "int64 count)").replace(
        "z = Neg(x)", f"{one} count = SequenceLength(q)"
    )
    case = dataclasses.replace(RETURNED["a result of any rank"], text=text)
    with infuse.compile(
        infuse.optimize(infuse.load(case.proto)), infuse.CompileOptions(threads=1)
    ) as compiled:
        assert {step.split()[0] for step in compiled.host_steps} == {
            "SplitToSequence",
            "SequenceLength",
        }
        for feeds in case.feeds:
            for found, expected in zip(
                compiled.run(feeds).values(), run(case.proto, feeds), strict=True
            ):
                np.testing.assert_allclose(found, expected, rtol=2e-6, strict=True)


@pytest.mark.parametrize("stated", ["", "[]", "[batch]", "[batch, 7]"])
@pytest.mark.parametrize(("columns", "rows"), [(1, 1), (1, 2), (3, 1), (3, 2)])
def test_a_stated_shape_is_not_believed(stated: str, columns: int, rows: int) -> None:
    """Whether a Squeeze without axes drops the rows only the run tells; a file that was exported
    with one row says more than that, and each other shape is warned of.
    """
    proto = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        m (float[batch, 4] x, float[4, {columns}] w) => (float{stated} y) {{
          p = MatMul(x, w)  s = Squeeze(p)  y = Sigmoid(s) }}"""
    )
    feeds = {"x": np.ones((rows, 4), np.float32), "w": np.ones((4, columns), np.float32)}
    expected = np.full([n for n in (rows, columns) if n > 1], 0.98201376, np.float32)
    wrong = {"": expected.ndim > 0, "[]": False, "[batch]": expected.ndim != 1, "[batch, 7]": True}
    for level in ("none", "all"):
        graph = infuse.optimize(infuse.load(proto), level)
        found = evaluate(graph, feeds)["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-6, strict=True)
        with infuse.compile(graph, infuse.CompileOptions(threads=1)) as compiled:
            for known in (False, True):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    result = compiled.run(feeds)["y"]
                np.testing.assert_allclose(result, expected, rtol=1e-6, strict=True)
                assert bool(caught) is (wrong[stated] and not known), caught
                assert all("states the shape" in str(w.message) for w in caught)
