"""What older opsets lack, written out of what they have: against ONNX Runtime on the original."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onnx import helper

from infuse.exporters.onnx import to_model
from infuse.exporters.onnx.decompose import DECOMPOSITIONS
from infuse.exporters.onnx.lowering import LOWEST
from infuse.frontends.onnx import load
from infuse.ir.dims import symbol
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.types import UNKNOWN, TensorType
from infuse.ops.core.base import REGISTRY, Op, Rounding, infer_node
from infuse.testing.compare import assert_agrees
from infuse.testing.samples import Row, is_constant, results, rows, type_of
from tests.models.newer_forms import NEWER, X, newer_form
from tests.models.onnx_tools import assert_close, checked, model, run

pytestmark = [pytest.mark.row("C1"), pytest.mark.row("C6")]
node = helper.make_node
Q, K, V = (
    np.random.default_rng(i).standard_normal(s).astype(np.float32)
    for i, s in enumerate([(2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 6)])
)


OPSETS = (13, 14, 15, 16, 17, 18, 20, 21, 23, 26)
NEEDED = {"MissingText": 19}
"""The oldest opset of what an operator is written as, where that is not the oldest of all."""
UNRUNNABLE = ("swish", 26)  # ONNX Runtime has no kernel, and expands the operator in opset 24 only


@pytest.mark.parametrize(
    ("name", "opset"), [(n, o) for n in NEWER for o in OPSETS if (n, o) != UNRUNNABLE]
)
def test_newer_forms_are_written_in_older_opsets(name: str, opset: int) -> None:
    original = newer_form(name)
    written = checked(to_model(load(original), opset))
    assert {entry.domain: entry.version for entry in written.opset_import} == {"": opset}
    assert_close(run(written, {"x": X}), run(original, {"x": X}), 2e-6)


MASK = np.random.default_rng(5).random((3, 5)) > 0.4
ATTENTIONS: dict[str, tuple[list[str], dict[str, Any], dict[str, np.ndarray]]] = {
    "plain": (["q", "k", "v"], {}, {}),
    "causal": (["q", "k", "v"], {"is_causal": 1}, {}),
    "scaled": (["q", "k", "v"], {"scale": 0.7, "softcap": 2.0}, {}),
    "added mask": (
        ["q", "k", "v", "m"],
        {},
        {"m": np.random.default_rng(4).standard_normal((3, 5)).astype(np.float32)},
    ),
    "true mask": (["q", "k", "v", "m"], {"is_causal": 1}, {"m": MASK | np.eye(3, 5, dtype=bool)}),
    "past": (
        ["q", "k", "v", "", "pk", "pv"],
        {"is_causal": 1},
        {"pk": K[:, :, :2] + 1, "pv": V[:, :, :2] + 1},
    ),
}


@pytest.mark.parametrize("opset", [13, 18, 22])
@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_is_decomposed(name: str, rank: int, opset: int) -> None:
    inputs, options, constants = ATTENTIONS[name]
    feeds = {"q": Q, "k": K, "v": V}
    if rank == 3:
        feeds = {
            k: np.ascontiguousarray(a.transpose(0, 2, 1, 3)).reshape(2, a.shape[2], -1)
            for k, a in feeds.items()
        }
        options = {**options, "q_num_heads": 4, "kv_num_heads": 2}
    results = ["y"] + (["", "present_v"] if "pk" in inputs else [])
    if len(results) > 1:
        results[1] = "present_k"
    shapes = {k: ["batch", *a.shape[1:]] for k, a in feeds.items()}
    original = model(
        [node("Attention", inputs, results, **options)],
        shapes,
        results,
        23,
        constants,
        ir_version=10,
    )
    written = checked(to_model(load(original), opset))
    assert all(n.op_type != "Attention" for n in written.graph.node)
    assert_close(run(written, feeds), run(original, feeds), 2e-6)


@pytest.mark.parametrize("opset", [13, 18])
def test_attention_over_parts_of_one_tensor_is_decomposed_at_once(opset: int) -> None:
    packed = np.random.default_rng(7).standard_normal((2, 5, 24)).astype(np.float32)
    parts = node("Split", ["x"], ["q", "k", "v"], axis=2, num_outputs=3)
    heads = {"q_num_heads": 2, "kv_num_heads": 2}
    nodes = [parts, node("Attention", ["q", "k", "v"], ["y"], **heads, is_causal=1)]
    original = model(nodes, {"x": ["batch", "length", 24]}, ["y"], 23, ir_version=10)
    proto = checked(to_model(load(original), opset))
    kinds = [n.op_type for n in proto.graph.node]
    assert (kinds.count("Split"), kinds.count("Reshape"), kinds.count("Transpose")) == (1, 2, 3)
    assert_close(run(proto, {"x": packed}), run(original, {"x": packed}), 2e-6)


def test_halves_are_summed_in_floats() -> None:
    half = {"s": np.ones(8, np.float16), "x": X.astype(np.float16)}
    nodes = [
        node("LayerNormalization", ["x", "s"], ["y"]),
        node("RMSNormalization", ["x", "s"], ["z"]),
    ]
    original = model(nodes, {}, ["y", "z"], 23, half, ir_version=10)
    written = checked(to_model(load(original), 13))
    assert_close(run(written, {}), run(original, {}), 2e-3)
    assert [n.op_type for n in written.graph.node].count("Cast") == 4


def test_floating_remainders_are_decomposed() -> None:
    a = np.float32([5.5, -5.5, 5.5, -5.5, 0, 3, -3, np.inf])
    b = np.float32([2, 2, -2, -2, 3, np.inf, np.inf, 1])
    graph = load(
        model([node("Mod", ["a", "b"], ["y"])], {"a": [8], "b": [8]}, ["y"], 28, ir_version=13)
    )
    written = checked(to_model(graph, 13))
    with np.errstate(invalid="ignore"):
        assert_close(run(written, {"a": a, "b": b}), [np.mod(a, b)])


def test_every_decomposition_belongs_to_an_operator() -> None:
    assert all(map(operator, DECOMPOSITIONS))


def operator(kind: str) -> type[Op]:
    """ONNX's operator, or our own."""
    return REGISTRY.get(("", kind)) or REGISTRY["infuse", kind]


# -- meaning ---------------------------------------------------------------------------------------


def rows_of(kind: str) -> Iterator[tuple[Row, tuple[Any, ...]]]:
    """Samples of an operator that ONNX Runtime can run once they are decomposed, and what they
    mean.
    """
    for row in rows(operator(kind), np.random.default_rng(1)):
        numbers = {
            k: float(np.float32(v)) for k, v in row.op.attributes().items() if isinstance(v, float)
        }
        inputs = row.inputs
        if kind == "MissingText":  # ONNX's strings have no other form of what is missing
            inputs = tuple(np.where(np.isin(x, ["None", "nan"]), "b", x) for x in inputs)
        row = dataclasses.replace(row, op=row.op.replace(**numbers), inputs=inputs)
        yield row, results(row)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("kind", sorted(DECOMPOSITIONS))
def test_a_decomposition_means_what_the_operator_means(kind: str, symbolic: bool) -> None:
    """Its samples, written in the oldest opset and run; batch and length (axes 0 and the last but
    one) may be open.
    """
    for row, wanted in rows_of(kind):
        graph = Graph(kind)
        values: list[Value | None] = []
        feeds = {}
        for index, x in enumerate(row.inputs):
            if x is None or is_constant(row, index):
                values.append(None if x is None else constant(x))
                continue
            type = type_of(x)
            assert isinstance(type, TensorType)
            open_axes = (
                {0, x.ndim - 2} if symbolic and kind in ("Attention", "RotaryEmbedding") else {0}
            )
            shape = tuple(
                symbol(f"n{d}") if symbolic and a in open_axes else d for a, d in enumerate(x.shape)
            )
            feeds[f"x{index}"] = x
            values.append(graph.add_input(f"x{index}", TensorType(type.dtype, shape)))
        new = graph.add_node(
            Node(row.op, values, [Value(UNKNOWN, f"y{i}") for i in range(len(wanted))])
        )
        infer_node(new)
        told = kind == "Attention" and len(row.inputs) == 7
        kept = [i for i in range(len(wanted)) if not (told and i in (1, 2))]
        for index in kept:
            graph.add_output(new.outputs[index], f"y{index}")
        written = checked(to_model(graph, NEEDED.get(kind, LOWEST)))
        for index, found in zip(kept, run(written, feeds), strict=True):
            assert_agrees(found, wanted[index], Rounding(8, 1e-5), f"{row} output {index}")
