"""ONNX Runtime's fused products, activations and normalizations, expressed in ONNX's own
operators.
"""

from __future__ import annotations

from infuse import dtypes
from infuse.dtypes import is_half
from infuse.ir import dims
from infuse.ir.graph import Node, Value
from infuse.lowering.expand.composer import Composer, Results, expands
from infuse.ops.domains.microsoft import DOMAIN, product_order


def _operands(node: Node) -> list[Value]:
    return [v for v in node.inputs if v is not None]


def _activated(make: Composer, x: Value, kind: str, params: tuple[float, ...]) -> Value:
    """The activation of a fused operator."""
    if not kind:
        return x
    if kind == "Clip":
        return make(kind, x, *params)
    names = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta")}.get(kind, ())
    return make(kind, x, **dict(zip(names, params)))


@expands("FusedConv", domain=DOMAIN)
def fused_conv(make: Composer, node: Node) -> Results:
    attributes = dict(node.op.attributes())
    kind, params = attributes.pop("activation"), attributes.pop("activation_params")
    result, z = make("Conv", *node.inputs[:3], **attributes), node.input(3)
    return _activated(make, result if z is None else make(result + z), kind, params)


@expands("FusedGemm", domain=DOMAIN)
def fused_gemm(make: Composer, node: Node) -> Results:
    attributes = dict(node.op.attributes())
    kind = attributes.pop("activation")
    alpha, beta, _ = (attributes.pop(f"activation_{name}") for name in ("alpha", "beta", "gamma"))
    return _activated(make, make("Gemm", *node.inputs, **attributes), kind, (alpha, beta))


@expands("FusedMatMul", domain=DOMAIN)
def fused_matmul(make: Composer, node: Node) -> Results:
    attributes = node.op.attributes()
    a, b = (
        make.permute(
            x, *product_order(x.rank, attributes[f"trans{side}"], attributes[f"transBatch{side}"])
        )
        for x, side in zip(_operands(node), "AB")
    )
    result = make("MatMul", a, b)
    return result if attributes["alpha"] == 1.0 else make(result * attributes["alpha"])


@expands("BiasSoftmax", domain=DOMAIN)
def bias_softmax(make: Composer, node: Node) -> Results:
    data, bias = _operands(node)
    axis = node.op.attributes()["axis"] % data.rank
    flat = make.reshape(make(data + bias), *data.shape[:axis], dims.product(data.shape[axis:]))
    return make.reshape(make("Softmax", flat, axis=-1), *data.shape)


# -- normalizations --------------------------------------------------------------------------------


@expands("SimplifiedLayerNormalization")
def simplified_layer_normalization(make: Composer, node: Node) -> Results:
    return make("RMSNormalization", *node.inputs, **node.op.attributes())


@expands("SkipLayerNormalization", domain=DOMAIN)
def skip_layer_normalization(make: Composer, node: Node) -> Results:
    total = _sum(make, *node.inputs[:2], node.input(4))
    count = (
        max(i for i in range(3) if i == 0 or (i < len(node.outputs) and node.outputs[i].uses)) + 1
    )
    epsilon = node.op.attributes()["epsilon"]
    outputs = make.several(
        count, "LayerNormalization", total, node.input(2), node.input(3), epsilon=epsilon
    )
    return [*outputs, *[None] * (3 - count), total][: len(node.outputs)]


@expands("SkipSimplifiedLayerNormalization", domain=DOMAIN)
def skip_simplified_layer_normalization(make: Composer, node: Node) -> Results:
    total = _sum(make, *node.inputs[:2], node.input(3))
    epsilon = node.op.attributes()["epsilon"]
    results: list[Value | None] = [
        make("RMSNormalization", total, node.inputs[2], epsilon=epsilon),
        None,
        None,
        total,
    ]
    if any(v.uses for v in node.outputs[1:3]):
        wide = make.cast(total, dtypes.float32)
        square = make.reduce("ReduceMean", wide * wide, total.rank - 1)
        results[2] = make("Reciprocal", make("Sqrt", square + epsilon))
        zero = make.number(0, dtypes.float32)
        results[1] = make("Where", make("IsNaN", results[2]), zero, make("Min", results[2], 0.0))
    return results[: len(node.outputs)]


def _sum(make: Composer, *values: Value | None) -> Value:
    first, *others = (v for v in values if v is not None)
    for other in others:
        first = make(first + other)
    return first


@expands("EmbedLayerNormalization", domain=DOMAIN)
def embed_layer_normalization(make: Composer, node: Node) -> Results:
    words, segments, word_table, place_table, segment_table, gamma, beta = node.inputs[:7]
    assert words is not None
    mask, places = node.input(7), node.input(8)
    where = make.range(words.shape[1]) if places is None else places
    pairs = [(word_table, words), (place_table, where), (segment_table, segments)]
    parts = [
        make("Gather", table, at, axis=0)
        for table, at in pairs
        if table is not None and at is not None
    ]
    dtype = node.output.dtype
    wide = dtypes.float32 if is_half(dtype) else dtype
    total, *scales = (
        make.cast(v, wide)
        for v in (_sum(make, *(make.cast(p, wide) for p in parts)), gamma, beta)
        if v
    )
    norm = make("LayerNormalization", total, *scales, epsilon=node.op.attributes()["epsilon"])
    results: list[Value | None] = [make.cast(norm, dtype), None, make.cast(total, dtype)]
    if len(node.outputs) > 1 and node.outputs[1].uses:
        if mask is None:
            results[1] = make(
                "ConstantOfShape", make.ints(words.shape[0]), value=0, dtype=dtypes.int32
            )
        else:
            results[1] = make("ReduceSum", mask, make.ints(1), keepdims=0)
    return results[: len(node.outputs)]
