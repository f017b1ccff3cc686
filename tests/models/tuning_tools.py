"""Answers of ONNX Runtime to hold kernels against, and the choices that a program made."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest

import infuse
from infuse.ir.graph import Graph
from infuse.lowering.choice import Choice
from infuse.lowering.program import Program
from infuse.ops.core.feeds import input_symbols
from tests.native.choice_graphs import sizes_of

Arrays = dict[str, Any]
TOLERANCE = {"fp32": 3e-5, "bf16x2": 1e-4, "bf16": 4e-2}
"""Of the largest element."""


def feeds_of(graph: Graph) -> Arrays:
    rng = np.random.default_rng(5)
    sizes = sizes_of(input_symbols(graph))
    shapes = {v.name: v.tensor.substitute(sizes).shape or () for v in graph.inputs}
    return {
        name: rng.uniform(-1, 1, [int(str(d)) for d in shape]).astype(np.float32)
        for name, shape in shapes.items()
    }


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Graph], Arrays]:
    """What ONNX Runtime computes of `feeds_of(graph)`."""
    known: dict[str, Arrays] = {}

    def answer(graph: Graph) -> Arrays:
        if graph.name not in known:
            path = tmp_path_factory.mktemp("peer") / "model.onnx"
            infuse.save(graph, path)
            session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
            names = [output.name for output in session.get_outputs()]
            known[graph.name] = dict(zip(names, session.run(None, feeds_of(graph))))
        return known[graph.name]

    return answer


def agree(found: Arrays, expected: Arrays, precision: str = "fp32") -> None:
    assert list(found) == list(expected)
    for name, wanted in expected.items():
        largest = np.abs(wanted).max()
        assert np.abs(found[name] - wanted).max() <= TOLERANCE[precision] * largest, name


def chosen_in(program: Program) -> list[Choice]:
    return list({id(s.choice): s.choice for s in program.steps if s.choice is not None}.values())
