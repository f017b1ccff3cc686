"""Models that other optimizers got wrong, and how they are checked.

Where a report comes without its model, the graph is one on which a careless pass of that name goes
wrong. Every model is optimized at every level, written as ONNX, and run by ONNX Runtime (without
its optimizations) beside the original.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import ModelProto, numpy_helper

import infuse
from infuse.exporters.onnx import to_model
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate
from tests.models.onnx_tools import assert_close, run

LEVELS = ("basic", "extended", "all")
RANDOM = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RANDOM.uniform(-2, 2, shape).astype(np.float32)


def parsed(
    text: str, opset: int = 18, constants: Mapping[str, Any] | None = None, ir_version: int = 8
) -> ModelProto:
    """A model from its text; `constants` are added as initializers."""
    if not text.lstrip().startswith("<"):
        text = f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>\n{text}'
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in (constants or {}).items()
    )
    return model


def agree(
    model: ModelProto | str, *runs: Mapping[str, Any], tolerance: float = 1e-5, **options: Any
) -> Graph:
    """Check that optimized models compute what the original does on these inputs; the graph of
    level all.
    """
    proto = parsed(model, **options) if isinstance(model, str) else model
    original = infuse.load(proto)
    for level in LEVELS:
        better = infuse.optimize(original, level)
        written = to_model(better)
        if all(
            v.tensor.shape is not None for v in better.outputs
        ):  # the checker knows no unknown ranks
            onnx.checker.check_model(written)
        assert [v.name for v in written.graph.output] == [v.name for v in proto.graph.output]
        assert {v.name for v in written.graph.input} == {v.name for v in original.inputs}
        for feeds in runs:
            expected = run(proto, feeds)
            assert_close(list(evaluate(better, feeds).values()), expected, tolerance)
            assert_close(run(written, feeds), expected, tolerance)
    return better


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.nodes]
