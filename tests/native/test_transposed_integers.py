"""Transposed convolutions between DequantizeLinear and QuantizeLinear are computed on integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import infuse
from infuse.build.staged import generate
from infuse.ir.graph import Array
from infuse.lowering.program import Program
from infuse.targets import Target
from tests.native.kernel_tools import targets

pytestmark = pytest.mark.row("R3")
ATTRIBUTES = (
    *("strides", "dilations", "group", "pads"),
    *("output_padding", "output_shape", "auto_pad"),
)


class Case(NamedTuple):
    """`filters`: as ONNX has them, (C, M / group, taps …). `zero`, `weight_zero`: zero points.
    `per_channel`: a scale for each of the M / group.
    """

    filters: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...] | None = None
    output_padding: tuple[int, ...] | None = None
    dilations: tuple[int, ...] | None = None
    group: int = 1
    bias: bool = True
    zero: Any = np.uint8(131)
    weight_zero: Any = None
    per_channel: bool = True
    output_shape: tuple[int, ...] | None = None
    auto_pad: str | None = None

    @property
    def weight_type(self) -> Any:
        return np.int8 if self.weight_zero is None else np.asarray(self.weight_zero).dtype


CASES = {
    "blocks": Case((8, 32, 2, 2), (2, 2)),
    "blocks, signed": Case((8, 32, 2, 2), (2, 2), zero=np.int8(-7)),
    "blocks, no bias": Case((24, 16, 2, 2), (2, 2), bias=False, per_channel=False),
    "blocks of three": Case((9, 16, 3, 3), (3, 3), zero=np.uint8(0)),
    "no vector is filled": Case((5, 19, 2, 2), (2, 2)),
    "different taps": Case((8, 16, 3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    "different taps, odd size": Case((8, 24, 3, 3), (2, 2), (1, 1, 1, 1), zero=np.int8(90)),
    "different taps, not cut": Case((8, 16, 3, 3), (2, 2), output_padding=(1, 0)),
    "windows overlap": Case((12, 16, 4, 4), (2, 2), (1, 1, 1, 1)),
    "windows overlap, not cut": Case((12, 48, 4, 4), (2, 2)),
    "windows overlap, cut unevenly": Case((12, 32, 4, 6), (2, 3), (2, 1, 0, 3)),
    "a step of one": Case((6, 16, 3, 3), (1, 1), (1, 1, 1, 1)),
    "along one axis": Case((6, 16, 3, 4), (1, 2), (1, 1, 1, 1)),
    "few channels": Case((16, 1, 2, 2), (2, 2)),
    "few channels, different taps": Case((8, 3, 3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    "few channels, large windows": Case((8, 5, 5, 5), (3, 3), (1, 1, 2, 2), zero=np.int8(3)),
    "taps apart": Case((8, 16, 3, 3), (2, 2), (1, 1, 1, 1), dilations=(3, 3)),
    "taps apart, phases without any": Case((4, 16, 3, 3), (2, 2), dilations=(2, 2)),
    "output behind the windows": Case((4, 16, 4, 4), (2, 2), output_padding=(1, 1)),
    "behind, few channels": Case((8, 3, 4, 4), (2, 2), output_padding=(1, 1)),
    "groups": Case((32, 16, 2, 2), (2, 2), group=2),
    "groups, different taps": Case((64, 16, 3, 3), (2, 2), (1, 1, 1, 1), (1, 0), group=4),
    "groups, few channels": Case((32, 3, 4, 4), (2, 2), group=2),
    "a channel each": Case((20, 1, 6, 6), (2, 2), (2, 2, 2, 2), group=20, zero=np.int8(-100)),
    "lines": Case((8, 16, 4), (2,), (1, 1)),
    "lines, different taps": Case((8, 16, 5), (3,), (2, 1), (2,)),
    "volumes": Case((4, 16, 2, 2, 2), (2, 2, 2)),
    "volumes, different taps": Case((4, 6, 3, 2, 3), (2, 1, 2)),
    "unsigned filters": Case((8, 16, 3, 3), (2, 2), weight_zero=np.uint8(128)),
    "unsigned filters, few channels": Case((8, 2, 2, 2), (2, 2), weight_zero=np.uint8(128)),
    "the size of the result": Case((8, 16, 3, 3), (2, 2), output_shape=(10, 8)),
    "the same size": Case((8, 16, 4, 4), (2, 2), auto_pad="SAME_UPPER"),
}

FLOATS = {
    "filters that no byte holds": Case((8, 16, 2, 2), (2, 2), weight_zero=np.uint8(3)),
    "gaps": Case((4, 16, 2, 2), (4, 3), (1, 0, 0, 1), (1, 2)),
    "gaps, few channels": Case((6, 3, 2, 3), (4, 3), (1, 2, 0, 3), group=2),
    "groups of few channels": Case((8, 16, 3, 3), (2, 2), group=2),
    "narrow windows of a channel each": Case((20, 1, 4, 4), (2, 2), group=20),
}
"""What is computed in float32: it is faster so, or the filters less their zero point are up to
255.
"""


class Drawn:
    """Cases side by side in one model, from integers to integers, the activations in steps of 0.02
    and 0.1; and random images.
    """

    def __init__(self, cases: Mapping[str, Case], *, dynamic: bool = False) -> None:
        self.rng, self.dynamic = np.random.default_rng(0), dynamic
        self.nodes: list[onnx.NodeProto] = []
        self.parts: dict[str, Any] = {}
        self.names = {f"y{number}": name for number, name in enumerate(cases)}
        self.cases = list(cases.values())
        ends = [self._add(case, str(number)) for number, case in enumerate(self.cases)]
        constants = [numpy_helper.from_array(np.asarray(v), n) for n, v in self.parts.items()]
        inputs, outputs = zip(*ends)
        graph = helper.make_graph(self.nodes, "transposed", inputs, outputs, constants)
        self.model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
        )

    def feeds(self, n: int) -> dict[str, Array]:
        return {
            f"x{i}": self._some(case.zero.dtype, (n, case.filters[0], *_size(case)))
            for i, case in enumerate(self.cases)
        }

    def _some(self, dtype: Any, shape: tuple[int, ...]) -> Array:
        info = np.iinfo(dtype)
        return self.rng.integers(info.min, info.max + 1, shape).astype(dtype)

    def _add(self, case: Case, end: str) -> tuple[onnx.ValueInfoProto, onnx.ValueInfoProto]:
        channels, rng = case.filters[1] * case.group, self.rng
        scale = rng.uniform(0.001, 0.02, case.filters[1] if case.per_channel else ()).astype("f4")
        parts = {
            "x_scale": np.float32(0.02),
            "x_zero": case.zero,
            "w": self._some(case.weight_type, case.filters),
            "w_scale": scale,
            "y_scale": np.float32(0.1),
            "y_zero": np.uint8(117),
        }
        names = ["w", "w_scale"]
        if case.weight_zero is not None:
            parts["w_zero"] = np.broadcast_to(case.weight_zero, scale.shape)
            names.append("w_zero")
        self._node("DequantizeLinear", ["x", "x_scale", "x_zero"], "xf", end)
        self._node("DequantizeLinear", names, "wf", end, axis=1)
        inputs = ["xf", "wf"]
        if case.bias:
            parts["b"] = rng.integers(-9999, 9999, channels).astype("i4")
            parts["b_scale"] = np.float32(0.02) * np.tile(scale, channels // scale.size)
            self._node("DequantizeLinear", ["b", "b_scale"], "bf", end, axis=0)
            inputs.append("bf")
        attributes = {n: getattr(case, n) for n in ATTRIBUTES if getattr(case, n) is not None}
        self._node("ConvTranspose", inputs, "yf", end, **attributes)
        self._node("Relu", ["yf"], "zf", end)
        self._node("QuantizeLinear", ["zf", "y_scale", "y_zero"], "y", end)
        self.parts |= {name + end: value for name, value in parts.items()}
        kind = helper.np_dtype_to_tensor_dtype(case.zero.dtype)
        size = [f"s{i}x{end}" for i in range(3)] if self.dynamic else _size(case)
        shape = ["n", case.filters[0], *size[: len(case.strides)]]
        x = helper.make_tensor_value_info("x" + end, kind, shape)
        return x, helper.make_tensor_value_info("y" + end, onnx.TensorProto.UINT8, None)

    def _node(self, kind: str, inputs: list[str], output: str, end: str, **how: Any) -> None:
        names = [name + end for name in inputs]
        self.nodes.append(helper.make_node(kind, names, [output + end], output + end, **how))


def _size(case: Case) -> tuple[int, ...]:
    return (5, 4, 3)[: len(case.strides)]


def by_onnx_runtime(made: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, Any]:
    """What ONNX Runtime makes of each operator alone."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made.SerializeToString(), options)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds)))


def check(drawn: Drawn, target: str, *counts: int) -> None:
    ours = infuse.compile(
        infuse.optimize(infuse.load(drawn.model)), infuse.CompileOptions(target=target, threads=2)
    )
    for n in counts:
        feeds = drawn.feeds(n)
        result = ours.run(feeds)
        for name, expected in by_onnx_runtime(drawn.model, feeds).items():
            # Sums are exact here and rounded there, which may move a result over the middle
            # between two steps.
            apart = np.abs(result[name].astype(int) - expected.astype(int))
            assert result[name].dtype == expected.dtype
            assert len(np.unique(expected)) > 20, "nothing is tested where all is clipped"
            assert apart.max() <= 1, drawn.names[name]
            assert (apart > 0).sum() <= 1 + 0.001 * apart.size, drawn.names[name]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_results_are_those_of_onnx_runtime(*, dynamic: bool) -> None:
    check(Drawn(CASES, dynamic=dynamic), "native", 1, 3)


@pytest.mark.parametrize("target", [t for t in targets() if t != "native"])
def test_results_of_other_vectors_are_those_of_onnx_runtime(target: str) -> None:
    check(Drawn(CASES), target, 2)


def program_of(case: Case, target: str = "x86-64-v3") -> Program:
    graph = infuse.optimize(infuse.load(Drawn({"case": case}).model))
    program, _ = generate(graph, Target.resolve(target))
    return program


@pytest.mark.parametrize("name", CASES)
def test_products_are_of_integers(name: str) -> None:
    kinds = [kind for step in program_of(CASES[name]).steps for kind in step.label.split(" + ")]
    assert {"ConvTransposeInteger", "ConvInteger"} & {*kinds}
    assert not {"ConvTranspose", "Conv", "MatMul", "Gemm"} & {*kinds}


@pytest.mark.parametrize(
    ("name", "calls"),
    [("blocks", 1), ("windows overlap", 1), ("different taps", 4), ("groups", 4), ("lines", 1)],
)
def test_results_are_rounded_where_they_are_made(name: str, calls: int) -> None:
    labels = [step.label for step in program_of(CASES[name]).steps]
    products = [label for label in labels if label.startswith("ConvTransposeInteger")]
    assert len(products) == calls
    assert all("Round" in label for label in products)
    assert len(labels) == calls + 2, "others bring the input in order, and the output"


@pytest.mark.parametrize("name", FLOATS)
def test_what_gains_nothing_stays_in_floats(name: str) -> None:
    labels = " + ".join(step.label for step in program_of(FLOATS[name]).steps)
    assert "Integer" not in labels


def test_what_stays_in_floats_is_as_exact() -> None:
    check(Drawn(FLOATS), "native", 2)
