"""ONNX Runtime's own operators: attributes, results and types as the runtime itself has them."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import onnxruntime.capi.onnxruntime_pybind11_state as runtime
import pytest
from onnx import helper

import infuse
from infuse import ops
from infuse.frontends.onnx.contributed import functions_of
from infuse.ops.core.base import Op
from infuse.ops.core.evaluate import evaluate
from infuse.ops.softmax_family import Softmax
from infuse.testing.compare import assert_agrees
from infuse.testing.samples import Row, results, rows
from tests.models.onnx_tools import run
from tests.native.together import Part, Together
from tests.support import operators

OPS = [
    op
    for _, op in sorted(ops.REGISTRY.items())
    if op.__module__.startswith("infuse.ops.domains.microsoft")
]
SCHEMAS = {(s.domain, s.name): s for s in runtime.get_all_operator_schema()}
# Further outputs that the processor's kernels do not give, or whose type the runtime must be told.
OUTPUTS = {
    "SkipLayerNormalization": (0, 3),
    "SkipSimplifiedLayerNormalization": (0, 3),
    "GroupQueryAttention": (0, 1, 2),
    "MultiHeadAttention": (0, 1, 2),
}
NO_KERNEL = ("BiasSoftmax",)
"""What only other devices have."""


SATURATING = ("DynamicQuantizeMatMul", "MatMulIntegerToFloat", "QGemm")
"""Where the processor has no VNNI, the runtime adds two products in 16 bits, which hold those of
weights of 7 bits.
"""


def _seven_bits(x: Any) -> Any:
    return np.asarray(x // 2) if isinstance(x, np.ndarray) and x.dtype == np.int8 else x


def table(op: type[Op]) -> list[Row]:
    """The rows of an operator with attributes as ONNX stores them."""
    found = []
    for row in rows(op, np.random.default_rng(1)):
        if op.name in SATURATING:
            row = dataclasses.replace(row, inputs=tuple(map(_seven_bits, row.inputs)))
        numbers = {
            k: float(np.float32(v)) for k, v in row.op.attributes().items() if isinstance(v, float)
        }
        found.append(dataclasses.replace(row, op=row.op.replace(**numbers)))
    return found


def model_of(row: Row, outputs: int) -> onnx.ModelProto:
    """A model of one node with the outputs that the runtime gives."""
    wanted = OUTPUTS.get(row.op.name, range(outputs))
    names = ["" if x is None else f"x{i}" for i, x in enumerate(row.inputs)]
    node = helper.make_node(
        row.op.name,
        names,
        [f"y{i}" if i in wanted else "" for i in range(outputs)],
        domain=row.op.domain,
    )
    for key, value in row.op.attributes().items():
        if value not in (None, (), ""):
            node.attribute.append(helper.make_attribute(key, value))
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in zip(names, row.inputs)
        if n
    ]
    outs = [onnx.ValueInfoProto(name=f"y{i}") for i in wanted if i < outputs]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(
        helper.make_graph([node], "one", infos, outs), opset_imports=imports, ir_version=8
    )


@pytest.mark.parametrize(
    "op", [op for op in OPS if op.name not in NO_KERNEL], ids=lambda op: op.name
)
def test_the_runtime_computes_the_same(op: type[Op]) -> None:
    for row in table(op):
        found = results(row)
        wanted = [i for i in OUTPUTS.get(op.name, range(len(found))) if i < len(found)]
        feeds = {f"x{i}": x for i, x in enumerate(row.inputs) if x is not None}
        for index, expected in zip(wanted, run(model_of(row, len(found)), feeds), strict=True):
            assert found[index].shape == expected.shape, f"{row} output {index}"
            assert_agrees(found[index], expected, op.accuracy, f"{row} output {index}")


@pytest.mark.parametrize("name", ["BiasGelu", "FastGelu"])
def test_the_sum_before_an_activation_may_leave_the_type(name: str) -> None:
    """-max - max is -inf, of which Gelu is NaN, also where a wider type could hold the sum."""
    most = np.finfo(np.float32).max
    x = np.array([[-most, most, -most, most, -np.inf, np.nan, -0.0]], np.float32)
    b = np.array([-most, most, most, 1, 1, 0, 0], np.float32)
    model = model_of(Row(ops.REGISTRY["com.microsoft", name](), (x, b), (False, False)), 1)
    found = infuse.load(model)
    for y in (evaluate(found, {"x0": x, "x1": b})["y0"], infuse.compile(found)(x, b)):
        np.testing.assert_array_equal(y, run(model, {"x0": x, "x1": b})[0])


def attention(
    feeds: dict[str, np.ndarray], outputs: list[str], **attributes: Any
) -> onnx.ModelProto:
    """A model of one MultiHeadAttention of two heads."""
    names = [n if n in feeds else "" for n in ("q", "k", "v", "", "mask", "bias", "pk", "pv")]
    node = helper.make_node(
        "MultiHeadAttention", names, outputs, domain="com.microsoft", num_heads=2, **attributes
    )
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in feeds.items()
    ]
    outs = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in outputs]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "one", infos, outs)
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


GIVEN = ("", "mask", "bias", "mask and bias")


def scored(given: str, causal: int) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Attention that gives its scores, and its inputs."""
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal((2, 5, 8), np.float32) for name in ("k", "v")}
    feeds = {"q": rng.standard_normal((2, 3, 8), np.float32), **feeds}
    if "mask" in given:
        feeds["mask"] = np.array([[1, 1, 0, 1, 1], [1, 1, 1, 0, 0]], np.int32)
    if "bias" in given:
        feeds["bias"] = rng.standard_normal((1, 2, 3, 5), np.float32)
    if causal:  # queries are the last keys
        past = {name: rng.standard_normal((2, 2, 2, 4), np.float32) for name in ("pk", "pv")}
        feeds |= {"k": feeds["k"][:, :3].copy(), "v": feeds["v"][:, :3].copy(), **past}
    return attention(feeds, ["y", "key", "value", "scores"], unidirectional=causal), feeds


@pytest.fixture(scope="module")
def compiled_scores() -> Together[tuple[str, int]]:
    parts = {}
    for key in itertools.product(GIVEN, (0, 1)):
        model, feeds = scored(*key)
        parts[key] = Part(infuse.optimize(infuse.load(model)), feeds)
    return Together(parts, infuse.CompileOptions())


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("given", GIVEN)
def test_scores_of_attention_are_those_before_the_softmax(
    given: str, causal: int, compiled_scores: Together[tuple[str, int]]
) -> None:
    model, feeds = scored(given, causal)
    expected = run(model, feeds)
    for results_ in (evaluate(infuse.load(model), feeds), compiled_scores[given, causal]):
        for y, wanted in zip(results_.values(), expected, strict=True):
            np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)


def test_a_causal_query_all_scores_of_which_are_minus_infinity_is_nan() -> None:
    """Keys behind it take no part, whose scores the runtime has as the lowest number."""
    rng = np.random.default_rng(0)
    feeds = {n: rng.standard_normal((1, 3, 8), np.float32) for n in "qkv"}
    feeds["q"][0, 0, 0], feeds["k"][0, 0, 0] = np.inf, -1
    model = attention(feeds, ["y"], unidirectional=1)
    (expected,) = run(model, feeds)
    assert np.isnan(expected[0, 0, :4]).all()
    assert np.isfinite(expected[0, 1]).all()
    found = infuse.load(model)
    for y in (evaluate(found, feeds)["y"], infuse.compile(found).run(feeds)["y"]):
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_a_written_attention_with_a_past_names_what_is_present(tmp_path: Path) -> None:
    """The runtime 1.31 gives other numbers where these outputs are not named."""
    rng = np.random.default_rng(0)
    feeds = {n: rng.standard_normal((2, 3, 16), np.float32) for n in "qkv"}
    feeds |= {n: rng.standard_normal((2, 2, 4, 8), np.float32) for n in ("pk", "pv")}
    q, k, v = (feeds[n].reshape(2, 3, 2, 8).swapaxes(1, 2).astype(float) for n in "qkv")
    keys, values = (np.concatenate([feeds[p], x], 2) for p, x in (("pk", k), ("pv", v)))
    powers = np.exp(q @ keys.swapaxes(2, 3) / np.sqrt(8))
    mixed = powers / powers.sum(axis=-1, keepdims=True) @ values
    expected = mixed.swapaxes(1, 2).reshape(2, 3, 16)
    infuse.save(infuse.load(attention(feeds, ["y"])), tmp_path / "named.onnx")
    (node,) = onnx.load(tmp_path / "named.onnx").graph.node
    assert (len(node.output), all(node.output)) == (3, True)
    session = onnxruntime.InferenceSession(tmp_path / "named.onnx")
    np.testing.assert_allclose(session.run(["y"], feeds)[0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_written_attentions_with_a_past_run_where_nobody_reads_what_is_present(
    domain: str, tmp_path: Path
) -> None:
    """The runtime 1.31 refuses the run where these outputs are not named."""
    rng = np.random.default_rng(0)
    shapes = dict.fromkeys(("q", "k", "v", "pk", "pv"), (2, 2, 3, 8))
    if domain:
        shapes = {"x": (2, 3, 16), "w": (16, 48), "b": (48,), "past": (2, 2, 2, 3, 8)}
    feeds = {n: rng.standard_normal(shape, np.float32) for n, shape in shapes.items()}
    names = list(feeds)
    names.insert(3, "")
    kept = 2 if domain else 3
    attributes = {"num_heads": 2} if domain else {}
    outputs = ["y", "present", "present_value"][:kept]
    node = helper.make_node("Attention", names, outputs, domain=domain, **attributes)
    infos = [
        helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, x.shape) for n, x in feeds.items()
    ]
    outs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
    imports = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(
        helper.make_graph([node], "one", infos, outs), opset_imports=imports, ir_version=10
    )
    expected = run(model, feeds)
    del model.graph.node[0].output[1:]
    infuse.save(infuse.load(model), tmp_path / "named.onnx")
    (written,) = onnx.load(tmp_path / "named.onnx").graph.node
    assert (written.domain, len(written.output), all(written.output)) == (domain, kept, True)
    session = onnxruntime.InferenceSession(tmp_path / "named.onnx")
    np.testing.assert_allclose(session.run(["y"], feeds)[0], expected[0], rtol=1e-5, atol=1e-5)


def test_softmax_of_a_sum() -> None:
    for row in table(ops.REGISTRY["com.microsoft", "BiasSoftmax"]):
        data, bias = row.inputs
        expected = Softmax(axis=row.op.axis).eval(data + bias)
        assert_agrees(results(row)[0], expected, row.op.accuracy, str(row))


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_attributes_are_those_of_the_runtime(op: type[Op]) -> None:
    schema: Any = SCHEMAS[op.domain, op.name]
    fields = {f.name: f.default for f in dataclasses.fields(op)}  # type: ignore[arg-type]
    assert set(schema.attributes) <= fields.keys()
    for name, attribute in schema.attributes.items():
        stated = onnx.AttributeProto.FromString(attribute._default_value)
        if attribute.required:
            assert fields[name] is dataclasses.MISSING, name
        elif stated.type:
            default = helper.get_attribute_value(stated)
            default = default.decode() if isinstance(default, bytes) else default
            assert fields[name] == pytest.approx(default), name


def test_the_page_names_every_operator_of_the_runtime() -> None:
    """Those that have a kernel for processors are known, read as others, or listed as not known."""
    kernels = {
        d.op_name
        for d in runtime.get_all_opkernel_def()
        if d.provider == "CPUExecutionProvider" and d.domain == operators.RUNTIME
    }
    known = {name for domain, name in ops.REGISTRY if domain == operators.RUNTIME}
    known |= functions_of(operators.RUNTIME)
    assert not known & set(operators.UNKNOWN_OF_RUNTIME)
    assert kernels - known == set(operators.UNKNOWN_OF_RUNTIME)
