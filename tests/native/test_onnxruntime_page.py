"""What docs/migration/onnxruntime.md shows runs."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.native.session_models import info, model_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "migration" / "onnxruntime.md"


@pytest.mark.row("R9")
def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from onnx import helper

    node = helper.make_node("Relu", ["x"], ["y"])
    model = model_of([node], [info("x", ["n", 3])], [info("y", ["n", 3])])
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    assert blocks
    for block in blocks:
        variables: dict[str, object] = {}
        exec(compile(block, str(PAGE), "exec"), variables)
        np.testing.assert_array_equal(np.array(variables["outputs"]), np.ones((1, 2, 3)))
