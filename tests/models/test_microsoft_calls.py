"""ONNX Runtime's own operators whose meaning depends on the call, against its kernels: interpreted
and compiled.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import infuse
from infuse.errors import UnsupportedOperatorError
from infuse.ops.core.evaluate import evaluate
from infuse.tracing.microsoft.building import BODIES
from tests.models.onnx_tools import assert_close, run

pytestmark = pytest.mark.row("C1")
Array = Any
RNG = np.random.default_rng(5)
CODES = {np.dtype(ml_dtypes.int4): TensorProto.INT4, np.dtype(ml_dtypes.uint4): TensorProto.UINT4}


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape, np.float32)


def bytes_of(*shape: int, kind: Any = np.uint8) -> Array:
    return RNG.integers(0, 256, shape).astype(np.uint8).astype(kind)


def four(kind: Any, low: int, *shape: int) -> Array:
    return RNG.integers(low, low + 16, shape).astype(kind)


def one(
    kind: str,
    inputs: Mapping[str, Array],
    constants: Mapping[str, Array] | None = None,
    outputs: int = 1,
    **given: Any,
) -> ModelProto:
    """A model of one node."""
    names = [*inputs, *(constants or {})]
    node = helper.make_node(
        kind, names, [f"y{i}" for i in range(outputs)], domain="com.microsoft", **given
    )
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in inputs.items()
    ]
    graph = helper.make_graph(
        [node],
        "one",
        infos,
        [onnx.ValueInfoProto(name=f"y{i}") for i in range(outputs)],
        [_stored(n, x) for n, x in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def _stored(name: str, x: Array) -> TensorProto:
    if x.dtype in CODES:
        return helper.make_tensor(
            name, CODES[x.dtype], x.shape, x.astype(np.int8).reshape(-1).tolist()
        )
    return numpy_helper.from_array(x, name)


def gathers() -> Any:
    """Tables of bytes in each number of bits, with zero points and without, and of four bits along
    each axis.
    """
    cases = []
    for bits, shifted in itertools.product((2, 4, 8), (0, 1)):
        zeros = {"z": bytes_of(7, -(-5 * bits // 8))} if shifted else {}
        given = {"bits": bits, "block_size": 16, "gather_axis": 0, "quantize_axis": 1}
        cases.append(({"d": bytes_of(7, 10 * bits)}, {"s": floats(7, 5), **zeros}, given))
    for kind, low in ((ml_dtypes.int4, -8), (ml_dtypes.uint4, 0)):
        for axis, along in ((0, 1), (1, 0), (2, 1), (0, -1), (1, 1)):
            blocks = [7, 32, 18]
            blocks[along] = -(-blocks[along] // 16)
            given = {"block_size": 16, "gather_axis": axis, "quantize_axis": along}
            more = {"s": floats(*blocks), "z": four(kind, low, *blocks)}
            cases.append(({"d": four(kind, low, 7, 32, 18)}, more, given))
    for data, more, given in cases:
        at = {"i": np.array([[3, 0], [6, -1]])}
        proto = one("GatherBlockQuantized", at, {**data, **more}, **given)
        del proto.graph.node[0].input[:]
        proto.graph.node[0].input.extend([*data, *at, *more])
        yield proto, at


def crops() -> Any:
    boxes = np.float32(
        [[0, 0, 1, 1], [0.1, 0.2, 0.8, 0.4], [-0.3, 0.5, 1.2, 0.6], [0.9, 0.9, 0.1, 0.05]]
    )
    for mode, size in itertools.product(("bilinear", "nearest"), ((3, 4), (1, 5), (7, 1))):
        inputs = {"x": floats(3, 2, 6, 7), "r": boxes, "b": np.int32([0, 2, 1, 1])}
        yield (
            one(
                "CropAndResize",
                inputs,
                {"size": np.int32(size)},
                mode=mode,
                extrapolation_value=9.5,
            ),
            inputs,
        )


def hashes() -> Any:
    for kind in (np.int32, np.uint32, np.int64, np.uint64):
        x = np.array([0, 1, 2, 12345, 2**31 - 1], kind).reshape(1, 5)
        x = np.concatenate([x, -x if np.dtype(kind).kind == "i" else x + kind(2**31)])
        for given in ({}, {"seed": 42}, {"seed": 2**31 - 1, "positive": 0}):
            yield one("MurmurHash3", {"x": x}, **given), {"x": x}


def norms() -> Any:
    x = floats(2, 3, 12)
    for activation in ("silu", "sigmoid", "swish"):
        inputs = {"x": x, "s": floats(4), "g": floats(2, 3, 12)}
        yield one("GatedRMSNorm", inputs, activation=activation, epsilon=1e-3), inputs
    for scale in ((12,), (3, 4), (4,), None):
        more = {} if scale is None else {"s": floats(*scale)}
        yield one("BranchwiseRMSNorm", {"x": x, **more}, num_branches=3), {"x": x, **more}
        grouped = {"x": floats(2, 5, 3, 4), **more}
        yield one("BranchwiseRMSNorm", grouped), grouped


def mixes() -> Any:
    for flat in (0, 3):
        x = floats(2, 5, 12) if flat else floats(2, 5, 3, 4)
        for mix in ((2, 5, 3), (2, 5, 3, 1), (2, 5, 3, 4), *([(2, 5, 12)] if flat else [])):
            inputs = {"x": x, "m": floats(*mix)}
            yield (
                one("HyperConnectionPreMix", inputs, num_branches=flat, reduction_scale=0.5),
                inputs,
            )
        for post, mixed in itertools.product(((2, 5, 3), (2, 5, 3, 1), (2, 5, 3, 4)), (0, 1)):
            inputs = {
                "x": x,
                "b": floats(2, 5, 4),
                "p": floats(*post),
                **({"m": floats(2, 5, 3, 3)} if mixed else {}),
            }
            yield one("HyperConnectionPostMix", inputs, num_branches=flat), inputs


def gates() -> Any:
    x = floats(2, 3, 4)
    yield one("GatedAdd", pair := {"x": x, "y": floats(2, 3, 4), "g": floats(2, 3, 1)}), pair
    yield one("ScaledSiLU", {"x": x}, alpha=0.7), {"x": x}
    yield one("ScaledSiLU", scaled := {"x": x, "s": np.array(1.5, np.float32)}), scaled
    yield one("LinearAttentionGate", half := {"a": x, "t": floats(4), "d": floats(4)}), half
    yield (
        one("LinearAttentionGate", {**half, "b": floats(2, 3, 4)}, outputs=2),
        {**half, "b": floats(2, 3, 4)},
    )
    engram = {
        "k": floats(2, 3, 4, 8),
        "q": floats(2, 3, 4, 8),
        "v": floats(2, 3, 8),
        "ks": floats(4, 8),
        "qs": floats(4, 8),
    }
    yield one("EngramGate", engram), engram
    yield (
        one("EngramGate", {**engram, "cs": floats(4, 8)}, outputs=2, epsilon=1e-3),
        {**engram, "cs": floats(4, 8)},
    )


def others() -> Any:
    yield one("SampleOp", {"x": floats(2, 3)}), {"x": floats(2, 3)}
    wide = RNG.integers(-900, 900, (2, 4, 6)).astype(np.int16)
    yield one("MatMulInteger16", pair := {"a": wide, "b": wide[0, :3, :].T.copy()}), pair
    for axis, size, step in ((-1, 3, 2), (0, 2, 1), (1, 4, 3)):
        yield (
            one("UnfoldTensor", {"x": floats(3, 7, 8)}, dim=axis, size=size, step=step),
            {"x": floats(3, 7, 8)},
        )


def products() -> Any:
    for kind, (n, k) in itertools.product((0, 1), ((6, 32), (5, 21), (3, 70))):
        count = n * k
        constants = {"b": bytes_of(-(-count // 2)), "absmax": np.abs(floats(-(-count // 16)))}
        inputs = {"a": floats(2, 4, k)}
        given = {"K": k, "N": n, "block_size": 16, "quant_type": kind}
        yield one("MatMulBnb4", inputs, constants, **given), inputs


def experts() -> Any:
    tokens, wide, inner, count = 5, 8, 6, 4
    for kind, k, normal in itertools.product(
        ("relu", "gelu", "silu", "identity", "swiglu"), (1, 2), (0, 1)
    ):
        rows = inner * (2 if kind == "swiglu" else 1)
        inputs = {
            **{
                "x": floats(tokens, wide),
                "p": floats(tokens, count),
                "w1": floats(count, rows, wide),
            },
            **{
                "b1": floats(count, rows),
                "w2": floats(count, wide, inner),
                "b2": floats(count, wide),
            },
        }
        more = (
            {"swiglu_fusion": 1, "activation_alpha": 1.7, "activation_beta": 1.0}
            if kind == "swiglu"
            else {}
        )
        more |= {"swiglu_limit": 1.5} if kind == "swiglu" and normal else {}
        yield (
            one("MoE", inputs, k=k, normalize_routing_weights=normal, activation_type=kind, **more),
            inputs,
        )


def quantized_experts() -> Any:
    """Rows and blocks with scales; zero points where the number of bits and the blocks say so."""
    tokens, wide, inner, count = 5, 64, 32, 4
    for bits, kind, block, shifted in itertools.product(
        (4, 8), ("silu", "swiglu"), (0, 32), (0, 1)
    ):
        rows = inner * (2 if kind == "swiglu" else 1)
        values = {"x": floats(tokens, wide), "p": floats(tokens, count)}
        zeros = {}
        for i, (out, within) in enumerate(((rows, wide), (wide, inner)), 1):
            scales = (count, out, within // block) if block else (count, out)
            values[f"w{i}"] = bytes_of(count, out, within * bits // 8)
            values[f"s{i}"] = (np.abs(floats(*scales)) / (1 << bits)).astype(np.float32)
            values[f"b{i}"] = floats(count, out)
            zeros[f"z{i}"] = bytes_of(*scales[:-1], -(-scales[-1] * bits // 8))
        given = (
            {"swiglu_fusion": 1, "activation_alpha": 1.7, "activation_beta": 1.0}
            if kind == "swiglu"
            else {}
        )
        given |= {"block_size": block} if block else {}
        given |= {
            "k": 2,
            "normalize_routing_weights": 1,
            "activation_type": kind,
            "expert_weight_bits": bits,
        }
        feeds = {name: values.pop(name) for name in ("x", "p")}
        proto = one("QMoE", feeds, {**values, **(zeros if shifted else {})}, **given)
        if shifted:
            proto.graph.node[0].input[8:] = ["", "", "", *zeros]
        yield proto, feeds


def states() -> Any:
    """Every rule of linear attention with equal heads, shared ones, and more of keys; causal
    convolutions.
    """
    batch, length, width, size = 2, 5, 4, 3
    rules = ("linear", "gated", "delta", "gated_delta")
    for rule, (queries, keys) in itertools.product(rules, ((2, 2), (4, 2), (2, 4))):
        inputs = {
            "q": floats(batch, length, queries * width),
            "k": floats(batch, length, keys * width) / 4,
            "v": floats(batch, length, keys * size),
            "past": floats(batch, keys, width, size),
        }
        inputs |= {"d": -np.abs(floats(batch, length, keys))} if "gated" in rule else {}
        inputs |= {"b": np.abs(floats(batch, length, keys)) % 1} if "delta" in rule else {}
        how = {"update_rule": rule, "q_num_heads": queries, "kv_num_heads": keys}
        proto = one("LinearAttention", inputs, outputs=2, **how)
        if rule == "delta":
            proto.graph.node[0].input.insert(4, "")
        yield proto, inputs
    for last, activation, past in itertools.product((0, 1), ("none", "silu"), (False, True)):
        turned = (0, 2, 1) if last else (0, 1, 2)
        inputs = {"x": floats(2, 3, 7).transpose(turned).copy(), "w": floats(3, 1, 4)}
        inputs["c"] = floats(3)
        inputs |= {"past": floats(2, 3, 3).transpose(turned).copy()} if past else {}
        how = {"channels_last": last, "activation": activation}
        yield one("CausalConvWithState", inputs, outputs=2, **how), inputs


FAMILIES = {
    "states": states,
    "experts": experts,
    "quantized experts": quantized_experts,
    "tables": gathers,
    "crops": crops,
    "hashes": hashes,
    "norms": norms,
    "mixes": mixes,
    "gates": gates,
    "others": others,
    "products": products,
}


def check(proto: ModelProto, feeds: Mapping[str, Array], native: bool) -> None:
    expected = run(proto, feeds)
    given = {a.name: helper.get_attribute_value(a) for a in proto.graph.node[0].attribute}
    # Beside blocks of 8 bits the runtime rounds the tokens to 8 bits as well.
    tolerance = (
        2e-2 if (given.get("expert_weight_bits"), given.get("block_size")) == (8, 32) else 2e-5
    )
    graph = infuse.load(proto)
    assert_close(list(evaluate(graph, feeds).values()), expected, tolerance)
    if native:
        with infuse.compile(graph) as compiled:
            assert_close(list(compiled.run(feeds).values()), expected, tolerance)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_call_means_what_the_runtime_computes(family: str) -> None:
    for number, (proto, feeds) in enumerate(FAMILIES[family]()):
        check(proto, feeds, native=number % 5 == 0)


def test_every_maker_is_tried() -> None:
    tried = {proto.graph.node[0].op_type for make in FAMILIES.values() for proto, _ in make()}
    plain = "infuse.tracing.microsoft.plain"
    assert tried == {kind for (_, kind), body in BODIES.items() if body.__module__ != plain}


@pytest.mark.filterwarnings("ignore:the model does not state the types:RuntimeWarning")
def test_what_has_no_witness_is_refused_by_name() -> None:
    """Without transB the runtime's kernel does not compute what its description says."""
    proto = one(
        "MatMulBnb4",
        {"a": floats(2, 6)},
        {"b": bytes_of(48), "absmax": floats(6)},
        K=16,
        N=6,
        block_size=16,
        quant_type=1,
        transB=0,
    )
    with pytest.raises(UnsupportedOperatorError, match="MatMulBnb4"):
        infuse.compile(infuse.load(proto))


def halves() -> Any:
    """Gates of float16, with a number beside them."""
    x = floats(3, 4).astype(np.float16)
    yield one("ScaledSiLU", {"x": x}, alpha=0.3), {"x": x}
    inputs = {"x": x, "gate": x[:1], "y": x[::-1].copy()}
    yield one("GatedAdd", inputs), inputs


def in_a_branch(proto: ModelProto) -> ModelProto:
    """The call of a model in a branch that takes all from outside."""
    node = proto.graph.node[0]
    outputs = [onnx.ValueInfoProto(name=f"inner_{name}") for name in node.output]
    copied = onnx.NodeProto.FromString(node.SerializeToString())
    del copied.output[:]
    copied.output.extend(value.name for value in outputs)
    branch = helper.make_graph([copied], "branch", [], outputs)
    choice = helper.make_node(
        "If", ["yes"], list(node.output), then_branch=branch, else_branch=branch
    )
    yes = helper.make_tensor_value_info("yes", TensorProto.BOOL, ())
    inputs, stored = [yes, *proto.graph.input], proto.graph.initializer
    graph = helper.make_graph([choice], "inside", inputs, proto.graph.output, stored)
    return helper.make_model(graph, opset_imports=proto.opset_import, ir_version=10)


@pytest.mark.parametrize("family", [*FAMILIES, "halves"])
def test_calls_in_branches_are_read_before_types_are_known(family: str) -> None:
    """Numbers and conversions follow the types of the operands."""
    for proto, inputs in {**FAMILIES, "halves": halves}[family]():
        expected = evaluate(infuse.load(proto), inputs)
        found = evaluate(infuse.load(in_a_branch(proto)), {"yes": np.array(True), **inputs})
        for name, array in expected.items():
            assert found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], array)
