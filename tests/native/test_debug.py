"""Compiled models for debuggers and profilers."""

from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse.ir.parser import parse

GRAPH = """graph "net" (%x: float32[n, 8]) {
  %half = Mul(%x, float32[]{0.5})
  %y = Softmax(%half)
  return y = %y
}"""


@pytest.mark.parametrize("target", ["native", "c"])
def test_a_library_for_debuggers_has_lines(target: str, tmp_path: Path) -> None:
    graph = parse(GRAPH)
    x = np.linspace(-4, 4, 24, dtype=np.float32).reshape(3, 8)
    results = []
    for debug in (False, True):
        folder = tmp_path / f"debug-{debug}"
        options = infuse.CompileOptions(target=target, threads=1, debug=debug)
        with infuse.compile(graph, options, output=folder) as model:
            results.append(model.run({"x": x})["y"])
        assert (b".debug_line" in (folder / "model.so").read_bytes()) == debug
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6)
