"""What tests of kernels that compute several operators share."""

from collections.abc import Iterator
from typing import Any

import onnxruntime

from infuse.build.staged import generate
from infuse.exporters.onnx import to_model
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate
from infuse.targets import Target
from tests.native.builder import assert_plan_is_safe

SIZES = {"n": 3, "length": 5}


def labels(graph: Graph) -> list[str]:
    """What each kernel call computes."""
    program, memory = generate(graph, Target.resolve("native"))
    if not program.symbols:
        assert_plan_is_safe(program, memory)
    return [step.label for step in program.steps if step.sources]


def witnessed(graph: Graph, feeds: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every output by name as the operators mean it, then as ONNX Runtime computes it."""
    session = onnxruntime.InferenceSession(
        to_model(graph).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    meant = evaluate(graph, feeds)
    yield from meant.items()
    yield from zip(meant, session.run(list(meant), feeds))
