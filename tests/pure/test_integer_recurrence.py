"""Recurrent layers read weights of 8 bits as they are stored."""

import numpy as np
import pytest

from infuse import dtypes
from infuse.build.staged import generate
from infuse.dtypes import DType
from infuse.ir.graph import Graph, constant
from infuse.lowering.tensors import Tensor
from infuse.ops.core.evaluate import evaluate
from infuse.targets import Target
from tests.native.builder import Builder
from tests.native.recurrent_models import GATES, GRAINS, feeds_of, quantized, recurrent
from tests.pure.kernel_runs import TARGETS
from tests.support.lowered import run_lowered

pytestmark = pytest.mark.row("Z1")


def stored(graph: Graph) -> list[DType]:
    """The types of what the kernels read of the weight file, the largest first."""
    program, _ = generate(graph, Target.resolve("x86-64-v3"))
    tensors = {
        id(a.buffer): a
        for step in program.steps
        for a in step.arguments
        if isinstance(a, Tensor) and a.buffer.kind == "weight"
    }
    ordered = sorted(tensors.values(), key=lambda t: -int(str(t.size)))
    return [tensor.dtype for tensor in ordered]


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("grain", GRAINS)
@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
def test_kernels_get_integers_and_their_scales(kind: str, grain: str, direction: str) -> None:
    b = recurrent(kind, grain=grain, direction=direction)
    feeds, expected = feeds_of(b, 7, 3), None
    for target in TARGETS[:4]:
        run = run_lowered(b.graph, Target.resolve(target), feeds)
        expected = expected or evaluate(b.graph, feeds)
        assert run.calls >= 2
        for name, array in expected.items():
            np.testing.assert_allclose(run.outputs[name], array, 1e-5, 1e-5)
    passes = 2 if kind == "GRU" else 1
    assert stored(b.graph)[: 2 * passes] == [dtypes.int8] * 2 * passes


def test_other_readers_get_numbers() -> None:
    b = Builder()
    x, w = b.input(5, 2, 8, name="x"), quantized(b, 1, 8, 8, "blocks")
    y, last = b.several(2, "RNN", x, w, w, hidden_size=8)
    b.output(y, last, b("Relu", w))
    assert dtypes.int8 not in stored(b.graph)
    feeds = b.feeds()
    run = run_lowered(b.graph, Target.resolve("x86-64-v3"), feeds)
    for name, array in evaluate(b.graph, feeds).items():
        np.testing.assert_allclose(run.outputs[name], array, 1e-5, 1e-5)


@pytest.mark.parametrize(
    "how",
    [
        {"zero": np.full(8, 3, np.int8), "axis": 1},
        {"scale": np.full((1, 8, 2), 0.01, np.float32), "axis": 2, "block_size": 4},
        {"integers": np.arange(64, dtype=np.uint8).reshape(1, 8, 8)},
    ],
    ids=["zero points", "small blocks", "unsigned"],
)
def test_other_integers_become_numbers(how: dict[str, object]) -> None:
    b = Builder()
    given = {"scale": np.full(8, 0.01, np.float32), **how}
    integers = given.pop("integers", b.rng.integers(-9, 9, (1, 8, 8)).astype(np.int8))
    parts = [constant(np.asarray(a)) for a in (integers, given.pop("scale"))]
    zero = given.pop("zero", None)
    parts += [constant(np.asarray(zero))] if zero is not None else []
    w = b("DequantizeLinear", *parts, **{"axis": 1, **given})
    y, last = b.several(2, "RNN", b.input(5, 2, 8, name="x"), w, b.weight(1, 8, 8), hidden_size=8)
    b.output(y, last)
    assert stored(b.graph)[:2] == [dtypes.float32] * 2
    feeds = b.feeds()
    run = run_lowered(b.graph, Target.resolve("x86-64-v3"), feeds)
    for name, array in evaluate(b.graph, feeds).items():
        np.testing.assert_allclose(run.outputs[name], array, 1e-5, 1e-5)


def test_precision_fp16_leaves_integers_and_scales() -> None:
    b = recurrent("GRU")
    program, _ = generate(b.graph, Target.resolve("x86-64-v3"), precision="fp16")
    kinds = {
        a.dtype
        for step in program.steps
        for a in step.arguments
        if isinstance(a, Tensor) and a.buffer.kind == "weight"
    }
    assert kinds == {dtypes.int8, dtypes.float32}
