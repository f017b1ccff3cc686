"""Transposed convolutions whose phases have different taps, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import infuse
from infuse.build.staged import generate
from infuse.ir.graph import Array, Graph
from infuse.ops.core.evaluate import evaluate
from infuse.runtime.foreign import ForeignModel
from infuse.targets import Target
from tests.decoders import CASES as decoding, add_decoder, drawn, sizes_of
from tests.native.builder import Builder
from tests.native.foreign import needs_emulator, run_foreign

pytestmark = pytest.mark.row("R1")
X86 = ["x86-64", "x86-64-v3", "x86-64-v4"]
# Sums of up to 576 products of numbers up to 4, and of 16 of those.
NEAR = {"rtol": 1e-4, "atol": 5e-4}


class Case(NamedTuple):
    """`filters`: as ONNX has them, (C, M / group, taps …)."""

    filters: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...] | None = None
    group: int = 1
    pads: tuple[int, ...] | None = None
    output_padding: tuple[int, ...] | None = None
    bias: bool = True


CASES = {
    "uneven phases": Case((8, 16, 3, 3), (2, 2)),
    "cut": Case((8, 16, 3, 3), (2, 2), pads=(1, 1, 1, 1), output_padding=(1, 1)),
    "one axis uneven": Case((4, 17, 4, 5), (2, 2)),
    "phases without taps": Case((4, 16, 2, 2), (4, 3)),
    "phases without taps, no bias": Case((4, 16, 2, 1), (3, 3), bias=False),
    "gaps, few channels": Case((6, 3, 2, 3), (4, 3), group=2, pads=(1, 2, 0, 3)),
    "gaps behind": Case((5, 7, 2, 2), (5, 4), dilations=(4, 3), output_padding=(4, 3)),
    "gaps in lines": Case((8, 9, 2), (3,), pads=(2, 1)),
    "points with gaps": Case((3, 50, 1, 1), (2, 3)),
    "a phase in two": Case((4, 16, 3, 3), (2, 2), dilations=(2, 2)),
    "apart in the input": Case((4, 16, 5, 3), (2, 4), dilations=(3, 6), pads=(2, 3, 1, 4)),
    "output behind the windows": Case((4, 16, 2, 2), (5, 5), output_padding=(4, 4)),
    "depthwise": Case((20, 1, 3, 3), (2, 2), group=20, pads=(1, 1, 1, 1)),
    "depthwise, even phases": Case((20, 1, 4, 4), (2, 2), group=20),
    "groups": Case((8, 16, 3, 3), (2, 2), group=2),
    "groups, few channels": Case((8, 3, 3, 3), (2, 2), group=2),
    "few channels": Case((8, 3, 5, 5), (3, 3), dilations=(1, 2)),
    "even phases": Case((8, 16, 4, 2), (2, 2)),
    "lines": Case((8, 16, 5), (3,)),
    "volumes": Case((4, 16, 3, 2, 3), (2, 1, 2)),
}


def model(case: Case, size: list[Any], rng: np.random.Generator) -> onnx.ModelProto:
    filters = rng.standard_normal(case.filters).astype("f4")
    bias = rng.standard_normal(case.filters[1] * case.group).astype("f4")
    weights = {"w": filters, **({"b": bias} if case.bias else {})}
    names = ("strides", "dilations", "group", "pads", "output_padding")
    attributes = {n: getattr(case, n) for n in names if getattr(case, n) is not None}
    node = helper.make_node("ConvTranspose", ["x", *weights], ["y"], **attributes)
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", len(filters), *size])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    parts = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph([node], "transposed", [x], [y], parts)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_onnx_runtime(name: str, *, dynamic: bool) -> None:
    case, rng = CASES[name], np.random.default_rng(0)
    size = [5, 4, 3][: len(case.strides)]
    made = model(case, [f"s{i}" for i in range(len(size))] if dynamic else size, rng)
    theirs = onnxruntime.InferenceSession(made.SerializeToString())
    ours = infuse.compile(infuse.optimize(infuse.load(made)), infuse.CompileOptions(threads=2))
    for n in (1, 3):
        x = rng.standard_normal((n, case.filters[0], *size)).astype("f4")
        (expected,) = theirs.run(None, {"x": x})
        # Sums of up to 72 products of numbers around 1, in another order.
        np.testing.assert_allclose(ours.run({"x": x})["y"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", X86)
@pytest.mark.parametrize("size", [(3, 4), (60, 70)], ids=["small", "blocks"])
def test_windows_that_do_not_meet(target: str, size: tuple[int, int]) -> None:
    if not Target.resolve(target).is_runnable:
        pytest.skip(f"this machine does not run {target}")
    b = Builder("gaps")
    x = b.input(2, 30, *size, name="x")
    weights = (b.weight(30, 8, 2, 3), b.weight(24))
    made = b("ConvTranspose", x, *weights, strides=(5, 4), pads=(1, 2, 3, 0), group=3)
    added = b.input(*made.shape, name="added")
    b.output(b("Relu", b("Add", made, added)))
    feeds = {v.name: drawn(v) for v in b.graph.inputs}
    model = infuse.compile(b.graph, infuse.CompileOptions(target=target, threads=2))
    (expected,) = evaluate(b.graph, feeds).values()
    (found,) = model.run(feeds).values()
    # Sums of 10 products of numbers up to 4, in another order.
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def decoders(tail: str, sizes: tuple[str, ...] | None = None) -> Graph:
    """All decoders in one graph."""
    b = Builder("decoders")
    for case in decoding.values():
        add_decoder(b, case, sizes_of(case) if sizes is None else sizes[: len(case.strides)], tail)
    return b.graph


def by_onnx_runtime(graph: Graph, folder: Path, feeds: dict[str, Array]) -> dict[str, Any]:
    """What ONNX Runtime makes of a graph that was not optimized."""
    infuse.save(graph, folder / "decoders.onnx")
    session = onnxruntime.InferenceSession(folder / "decoders.onnx")
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds)))


def agree(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> None:
    assert ours.keys() == theirs.keys()
    for name, expected in theirs.items():
        np.testing.assert_allclose(ours[name], expected, **NEAR, err_msg=name)


@pytest.mark.parametrize("tail", ["normalization", "skip", "concatenation"])
@pytest.mark.parametrize("target", X86)
def test_decoders_are_those_of_onnx_runtime(target: str, tail: str, tmp_path: Path) -> None:
    resolved = Target.resolve(target)
    if not resolved.is_runnable:
        pytest.skip(f"this machine does not run {target}")
    graph = decoders(tail)
    feeds = {v.name: drawn(v, n=2) for v in graph.inputs}
    ours = infuse.compile(
        infuse.optimize(graph), infuse.CompileOptions(target=target, threads=2)
    ).run(feeds)
    agree(ours, by_onnx_runtime(graph, tmp_path, feeds))


@needs_emulator
def test_decoders_on_arm_are_those_of_onnx_runtime(tmp_path: Path) -> None:
    graph = decoders("skip")
    feeds = {v.name: drawn(v, n=1) for v in graph.inputs}
    model = infuse.compile(
        infuse.optimize(graph), infuse.CompileOptions(target="aarch64"), output=tmp_path / "model"
    )
    assert isinstance(model, ForeignModel)
    agree(run_foreign(model, feeds, tmp_path), by_onnx_runtime(graph, tmp_path, feeds))


def test_decoders_take_images_of_any_size(tmp_path: Path) -> None:
    graph = decoders("skip", ("h", "w", "d"))
    model = infuse.compile(infuse.optimize(graph), infuse.CompileOptions(threads=2))
    for sizes in ({"n": 1, "h": 1, "w": 1, "d": 1}, {"n": 2, "h": 3, "w": 8, "d": 2}):
        feeds = {v.name: drawn(v, **sizes) for v in graph.inputs}
        agree(model.run(feeds), by_onnx_runtime(graph, tmp_path, feeds))


def test_no_zeros_are_multiplied_where_phases_have_different_taps() -> None:
    graph = infuse.load(model(CASES["uneven phases"], [5, 4], np.random.default_rng(0)))
    program, _ = generate(graph, Target.resolve("x86-64-v3"))
    taps = program.weights.bytes // (8 * 16 * 4)
    assert taps == 9
