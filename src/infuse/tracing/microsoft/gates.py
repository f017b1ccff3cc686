"""ONNX Runtime's own gates, mixtures and normalizations of branches as ONNX's operators."""

from __future__ import annotations

from infuse import dtypes, ops
from infuse.ir.expression import Call
from infuse.ir.graph import Value
from infuse.tracing.microsoft.building import CallBuilder, reads


def _normalized(make: CallBuilder, x: Value | Call, epsilon: float) -> Value:
    """A float32 tensor over the root of the mean of its squares along the last axis."""
    wide = make(x)
    mean = make.reduce("ReduceMean", wide * wide, -1)
    return make(wide / ops.sqrt(mean + epsilon))


def _wide(make: CallBuilder, x: Value) -> Value:
    return make.cast(x, dtypes.float32)


@reads("SampleOp")
def sample_op(make: CallBuilder, x: Value) -> Value:
    """Its input."""
    return make("Identity", x)


@reads("MatMulInteger16")
def matmul_integer_16(make: CallBuilder, a: Value, b: Value) -> Value:
    """A product of integers of 16 bits."""
    return make("MatMul", *(make("Cast", v, to=dtypes.int32) for v in (a, b)))


@reads("GatedAdd")
def gated_add(make: CallBuilder, x: Value, y: Value, gate: Value) -> Value:
    """The sum of x and y · gate."""
    return make(x + y * gate)


@reads("ScaledSiLU")
def scaled_silu(
    make: CallBuilder, x: Value, scale: Value | None = None, *, alpha: float = 1.0
) -> Value:
    """The product of z and sigmoid(z) for a scaled z."""
    z = make(x * (alpha if scale is None else make.like(scale, x)))
    return make(z * ops.sigmoid(z))


@reads("GatedRMSNorm")
def gated_rms_norm(
    make: CallBuilder,
    x: Value,
    scale: Value,
    gate: Value,
    *,
    activation: str = "silu",
    epsilon: float = 1e-5,
) -> Value | None:
    """Groups of elements over their root mean square, times a scale and an activated gate."""
    if activation not in ("silu", "swish", "sigmoid"):
        return None
    grouped = make.sizes(make("Shape", x, start=0, end=-1), -1, make("Shape", scale))
    normal = _normalized(make, make("Reshape", _wide(make, x), grouped), epsilon)
    flat = make("Reshape", normal * _wide(make, scale), make("Shape", x))
    gates = _wide(make, gate)
    turned = make("Sigmoid", gates)
    return make.like(flat * (turned if activation == "sigmoid" else gates * turned), x)


def _branches(make: CallBuilder, x: Value, count: int) -> int | None:
    """How many branches there are: `count`, or the last axis but one; None where that is not
    known.
    """
    shape = make.shape(x)
    if shape is None:
        return None
    size = count or (shape[-2] if len(shape) > 1 else 0)
    return size if isinstance(size, int) and size > 0 else None


def _parted(make: CallBuilder, x: Value, count: int) -> Value:
    """Streams with an axis of branches."""
    if not count:
        return x
    return make("Reshape", x, make.sizes(make("Shape", x, start=0, end=-1), count, -1))


@reads("BranchwiseRMSNorm")
def branchwise_rms_norm(
    make: CallBuilder,
    x: Value,
    scale: Value | None = None,
    *,
    num_branches: int = 0,
    epsilon: float = 1e-5,
) -> Value | None:
    """Each branch over its root mean square, times a scale of each branch or of all."""
    count, sizes = _branches(make, x, num_branches), make.shape(scale)
    if count is None or (scale is not None and sizes is None):
        return None
    result = _normalized(make, _wide(make, _parted(make, x, num_branches)), epsilon)
    if scale is not None and sizes is not None:
        width = x.shape[-1]
        if num_branches and isinstance(width, int):
            width = width // count
        is_whole = len(sizes) == 2 or (len(sizes) == 1 and sizes[0] != width)
        shape = make.ints(count, -1) if is_whole else make.ints(-1)
        result = make(result * make("Reshape", _wide(make, scale), shape))
    return make.like(make("Reshape", result, make("Shape", x)), x)


@reads("HyperConnectionPreMix")
def hyper_connection_pre_mix(
    make: CallBuilder,
    x: Value,
    pre: Value,
    *,
    num_branches: int = 0,
    reduction_scale: float = 1.0,
) -> Value | None:
    """The weighted sum of the branches."""
    count, shape = _branches(make, x, num_branches), make.shape(pre)
    if count is None or shape is None:
        return None
    weights = _wide(make, pre)
    if len(shape) == x.rank - 1 + bool(num_branches):
        if num_branches and shape[-1] != count:
            weights = _parted(make, weights, num_branches)
        else:
            weights = make("Unsqueeze", weights, make.ints(-1))
    weighed = make(_parted(make, _wide(make, x), num_branches) * weights)
    total = make("ReduceSum", weighed, make.ints(-2), keepdims=0)
    return make.like(total * reduction_scale, x)


@reads("HyperConnectionPostMix")
def hyper_connection_post_mix(
    make: CallBuilder,
    x: Value,
    block: Value,
    post: Value,
    mix: Value | None = None,
    *,
    num_branches: int = 0,
) -> Value | None:
    """The branches mixed with each other, plus a new output weighed for each."""
    shape = make.shape(post)
    if shape is None or _branches(make, x, num_branches) is None:
        return None
    rank = x.rank + bool(num_branches)
    mixed = _parted(make, _wide(make, x), num_branches)
    if mix is not None:
        order = (*range(rank - 2), rank - 1, rank - 2)
        mixed = make("MatMul", make("Transpose", _wide(make, mix), perm=order), mixed)
    weights = _wide(make, post)
    if len(shape) == rank - 1:
        weights = make("Unsqueeze", weights, make.ints(-1))
    total = make(mixed + weights * make("Unsqueeze", _wide(make, block), make.ints(-2)))
    return make.like(make("Reshape", total, make("Shape", x)), x)


@reads("LinearAttentionGate")
def linear_attention_gate(
    make: CallBuilder, a: Value, bias: Value, scale: Value, b: Value | None = None
) -> list[Value]:
    """decay_scale · softplus(a + dt_bias), and sigmoid(b) where there is one."""
    decay = make.like(ops.softplus(_wide(make, a) + bias) * scale, a)
    return [decay] if b is None else [decay, make("Sigmoid", b)]


@reads("EngramGate")
def engram_gate(
    make: CallBuilder,
    key: Value,
    query: Value,
    value: Value,
    key_scale: Value,
    query_scale: Value,
    conv_scale: Value | None = None,
    *,
    epsilon: float = 1e-5,
) -> list[Value]:
    """The value, gated for each branch by how well key and query agree; and that normalized, with a
    scale.
    """
    keys, queries = (
        _normalized(make, _wide(make, x), epsilon) * _wide(make, scale)
        for x, scale in ((key, key_scale), (query, query_scale))
    )
    size = make.cast(make("Shape", key, start=-1), dtypes.float32)
    dot = make(make.reduce("ReduceSum", keys * queries, -1) / ops.sqrt(size))
    curved = make("Sqrt", make("Max", make("Abs", dot), 1e-6))
    gate = make("Sigmoid", make("Sign", dot) * curved)
    gated = make(gate * make("Unsqueeze", _wide(make, value), make.ints(-2)))
    results = [make.like(gated, key)]
    if conv_scale is not None:
        normal = _normalized(make, gated, epsilon)
        results.append(make.like(normal * _wide(make, conv_scale), key))
    return results
