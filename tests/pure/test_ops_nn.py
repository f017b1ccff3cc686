"""Network operators: geometry for all sizes, refusals, and cases with a known answer."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from infuse import dtypes, ops
from infuse.errors import InfuseError, ShapeError, TypeMismatchError, UnsupportedOperatorError
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.graph import Node, Value, constant
from infuse.ir.types import TensorType, tensor
from infuse.ops.core.base import REGISTRY, Op, Rounding
from infuse.ops.core.expressions import snake_case
from infuse.ops.core.formula import E, inputs
from infuse.ops.reduction import Reduction
from infuse.testing.compare import assert_agrees
from infuse.testing.formulas import interpret

F32 = dtypes.float32
CLOSE = Rounding(ulp=4, abs=2e-6)


def op(name: str, **attributes: Any) -> Op:
    return ops.REGISTRY["", name](**attributes)


def infer_all(
    operator: Op, *given_values: Value | TensorType | None, outputs: int = 1
) -> list[TensorType]:
    values = [
        Value(v, f"x{i}") if isinstance(v, TensorType) else v for i, v in enumerate(given_values)
    ]
    node = Node(operator, values, [Value(TensorType(F32, None)) for _ in range(outputs)])
    operator.infer_node(node)
    return [value.tensor for value in node.outputs]


def infer(operator: Op, *values: Value | TensorType | None) -> TensorType:
    return infer_all(operator, *values)[0]


def shape_text(type: TensorType) -> str:
    assert type.shape is not None
    return ", ".join(map(str, type.shape))


# -- convolution and pooling -----------------------------------------------------------------------


@st.composite
def geometries(draw: st.DrawFn) -> tuple[dict[str, Any], int, int]:
    """Attributes of one spatial axis, the input's size and the window's."""
    kernel, stride, dilation = (
        draw(st.integers(1, 4)),
        draw(st.integers(1, 4)),
        draw(st.integers(1, 3)),
    )
    attributes: dict[str, Any] = {"strides": (stride,), "dilations": (dilation,)}
    attributes["auto_pad"] = draw(st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    if attributes["auto_pad"] == "NOTSET":
        attributes["pads"] = (draw(st.integers(0, kernel - 1)), draw(st.integers(0, kernel - 1)))
    return attributes, draw(st.integers(1, 17)), kernel


def agree_on_sizes(operator: Op, size: int, *rest: Any) -> None:
    """Types for a number and for a symbol agree with what `eval` gives."""
    x = np.arange(4 * size, dtype=np.float32).reshape(2, 2, size)
    arrays = [np.asarray(r) for r in rest]
    try:
        static = infer(operator, tensor(F32, 2, 2, size), *map(constant, arrays))
    except ShapeError:
        with pytest.raises(ShapeError):
            operator.eval(x, *arrays)
        return
    found = operator.eval(x, *arrays)
    found = found[0] if isinstance(found, tuple) else found
    assert static.shape == found.shape
    symbolic = infer(operator, tensor(F32, "batch", 2, "width"), *map(constant, arrays))
    assert symbolic.substitute({"batch": 2, "width": size}).shape == found.shape


@given(geometries(), st.sampled_from(["MaxPool", "AveragePool", "LpPool"]), st.integers(0, 1))
def test_pool_sizes(geometry: tuple[dict[str, Any], int, int], kind: str, ceil_mode: int) -> None:
    attributes, size, kernel = geometry
    agree_on_sizes(op(kind, kernel_shape=(kernel,), ceil_mode=ceil_mode, **attributes), size)


@given(geometries())
def test_convolution_sizes(geometry: tuple[dict[str, Any], int, int]) -> None:
    attributes, size, kernel = geometry
    agree_on_sizes(op("Conv", **attributes), size, np.ones((3, 2, kernel), np.float32))


@given(geometries(), st.integers(0, 2))
def test_transposed_convolution_sizes(
    geometry: tuple[dict[str, Any], int, int], extra: int
) -> None:
    attributes, size, kernel = geometry
    assume(extra < max(attributes["strides"][0], attributes["dilations"][0]))
    begin, end = attributes.get("pads", (0, 0))
    grown = (
        attributes["strides"][0] * (size - 1)
        + (kernel - 1) * attributes["dilations"][0]
        + 1
        + extra
    )
    assume(begin + end < grown)
    operator = op("ConvTranspose", output_padding=(extra,), **attributes)
    agree_on_sizes(operator, size, np.ones((2, 3, kernel), np.float32))


@given(geometries())
def test_transposed_convolution_is_the_transpose(geometry: tuple[dict[str, Any], int, int]) -> None:
    attributes, size, kernel = geometry
    rng = np.random.default_rng(size)
    w = rng.normal(size=(3, 2, kernel))
    forward = op("Conv", **{**attributes, "auto_pad": "NOTSET"})
    x = rng.normal(size=(1, 2, size))
    try:
        y = forward.eval(x, w)
    except ShapeError:
        assume(False)
    rest = (
        size + sum(attributes.get("pads", (0, 0))) - (kernel - 1) * attributes["dilations"][0] - 1
    ) % attributes["strides"][0]
    backward = op("ConvTranspose", output_padding=(rest,), **{**attributes, "auto_pad": "NOTSET"})
    z = rng.normal(size=y.shape)
    # ⟨conv(x), z⟩ = ⟨x, convᵀ(z)⟩
    np.testing.assert_allclose(np.vdot(y, z), np.vdot(x, backward.eval(z, w)), rtol=1e-9, atol=1e-9)


def test_symbolic_images_keep_readable_sizes() -> None:
    image, filters = tensor(F32, "batch", 3, "h", "w"), tensor(F32, 8, 3, 3, 3)
    halved = infer(op("Conv", pads=(1, 1, 1, 1), strides=(2, 2)), image, filters)
    assert shape_text(halved) == "batch, 8, ((h + 1) // 2), ((w + 1) // 2)"
    same = infer(op("Conv", auto_pad="SAME_UPPER", strides=(2, 2)), image, filters)
    assert same == halved
    assert shape_text(infer(op("Conv", pads=(1, 1, 1, 1)), image, filters)) == "batch, 8, h, w"
    assert shape_text(infer(op("Conv", auto_pad="SAME_UPPER"), image, filters)) == "batch, 8, h, w"
    pooled = infer(op("MaxPool", kernel_shape=(3, 3), strides=(2, 2), ceil_mode=1), image)
    assert shape_text(pooled) == "batch, 3, (h // 2), (w // 2)"


def test_depthwise_convolution_by_hand() -> None:
    x = np.arange(8, dtype=np.float32).reshape(1, 2, 4)
    w = np.float32([[[1, 1]], [[1, -1]]])
    assert op("Conv", group=2).eval(x, w).tolist() == [[[1, 3, 5], [-1, -1, -1]]]


def test_half_precision_sums_in_single() -> None:
    x = np.ones((1, 4096, 1), np.float16)
    w = np.ones((1, 4096, 1), np.float16)
    assert op("Conv").eval(x, w).item() == 4096
    assert op("MatMul").eval(x[:, :, 0], w[0]).item() == 4096
    assert op("ReduceSum").eval(x).item() == 4096
    assert op("GlobalAveragePool").eval(np.full((1, 1, 100, 100), 10, np.float16)).item() == 10


def test_pooling_indices_name_the_first_of_equals() -> None:
    x = np.zeros((1, 1, 4), np.float32)
    values, indices = op("MaxPool", kernel_shape=(2,), strides=(2,)).eval(x)
    assert values.tolist() == [[[0, 0]]]
    assert indices.tolist() == [[[0, 2]]]


def test_pooling_of_the_lowest_number_stays_inside() -> None:
    x = np.full((1, 1, 2), -128, np.int8)
    values, indices = op("MaxPool", kernel_shape=(2,), pads=(1, 1)).eval(x)
    assert values.tolist() == [[[-128] * 3]]
    assert indices.tolist() == [[[0, 0, 1]]]


def test_average_counts_what_it_is_told_to_count() -> None:
    x = np.ones((1, 1, 4), np.float32)
    geometry: dict[str, Any] = {
        "kernel_shape": (3,),
        "pads": (1, 1),
        "strides": (2,),
        "ceil_mode": 1,
    }
    assert op("AveragePool", **geometry).eval(x).tolist() == [[[1, 1, 1]]]
    counted = op("AveragePool", count_include_pad=1, **geometry).eval(x)
    np.testing.assert_allclose(counted, [[[2 / 3, 1, 1 / 2]]], rtol=1e-6)


# -- products --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (("batch", "seq", 64), (64, 10), "batch, seq, 10"),
        (("batch", 1, "seq", 64), (12, 64, "total"), "batch, 12, seq, total"),
        ((64,), ("batch", 64, 3), "batch, 3"),
        (("batch", 3, 64), (64,), "batch, 3"),
        ((64,), (64,), ""),
    ],
)
def test_matrix_product_shapes(a: tuple[Any, ...], b: tuple[Any, ...], expected: str) -> None:
    assert shape_text(infer(op("MatMul"), tensor(F32, *a), tensor(F32, *b))) == expected


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("bij,bjk->bik", [("batch", 3, "s"), ("batch", "s", 5)], "batch, 3, 5"),
        ("...ij,...jk", [("batch", 2, 3, 4), (4, 5)], "batch, 2, 3, 5"),
        ("ba,ab", [(3, 4), (4, 3)], ""),
        ("bA,bC", [(3, 4), (3, 5)], "4, 5"),
        ("i...->...i", [("seq", 2, 3)], "2, 3, seq"),
        ("bi,bj->bij", [(1, 4), ("batch", 5)], "batch, 4, 5"),
    ],
)
def test_einsum_shapes(equation: str, shapes: list[tuple[Any, ...]], expected: str) -> None:
    assert (
        shape_text(infer(op("Einsum", equation=equation), *(tensor(F32, *s) for s in shapes)))
        == expected
    )


def test_integer_products_are_exact() -> None:
    a = np.full((2, 3), 2**40, np.int64)
    assert op("MatMul").eval(a, np.ones((3, 1), np.int64)).tolist() == [[3 * 2**40]] * 2
    assert (
        op("Gemm").eval(a, np.ones((3, 1), np.int64), np.array([1])).tolist()
        == [[3 * 2**40 + 1]] * 2
    )


# -- attention -------------------------------------------------------------------------------------


def test_attention_shapes_with_a_cache() -> None:
    operator = op("Attention", q_num_heads=8, kv_num_heads=2)
    query, keys = tensor(F32, "batch", "new", 512), tensor(F32, "batch", "new", 128)
    past = tensor(F32, "batch", 2, "past", 64)
    types = infer_all(operator, query, keys, keys, None, past, past, outputs=4)
    assert [shape_text(t) for t in types] == [
        "batch, new, 512",
        "batch, 2, new + past, 64",
        "batch, 2, new + past, 64",
        "batch, 8, new, new + past",
    ]


def test_attention_in_steps_is_attention_at_once(rng: np.random.Generator) -> None:
    q, k, v = (rng.normal(size=(2, 4, 6, 8)) for _ in range(3))
    causal = op("Attention", is_causal=1)
    whole = causal.eval(q, k, v)[0]
    keys, values = k[:, :, :0], v[:, :, :0]
    steps = []
    for i in range(6):
        one = slice(i, i + 1)
        out, keys, values, _ = causal.eval(
            q[:, :, one], k[:, :, one], v[:, :, one], None, keys, values
        )
        steps.append(out)
    assert_agrees(np.concatenate(steps, axis=2), whole, Rounding(abs=1e-12))
    assert_agrees(keys, k, Rounding(ulp=0))


def test_shared_heads_are_repeated_heads(rng: np.random.Generator) -> None:
    q, k, v = (
        rng.normal(size=(1, 6, 4, 8)),
        rng.normal(size=(1, 2, 5, 8)),
        rng.normal(size=(1, 2, 5, 8)),
    )
    grouped = op("Attention").eval(q, k, v)[0]
    repeated = op("Attention").eval(q, np.repeat(k, 3, axis=1), np.repeat(v, 3, axis=1))[0]
    assert_agrees(grouped, repeated, Rounding(abs=1e-12))


def test_a_query_that_sees_nothing_gives_zeros(rng: np.random.Generator) -> None:
    q, k, v = (rng.normal(size=(1, 1, 2, 4)).astype(np.float32) for _ in range(3))
    mask = np.array([[True, True], [False, False]])
    result, _, _, weights = op("Attention", qk_matmul_output_mode=3).eval(q, k, v, mask)
    assert result[0, 0, 1].tolist() == [0, 0, 0, 0]
    assert weights[0, 0, 1].tolist() == [0, 0]
    additive = np.where(mask, 0, -np.inf).astype(np.float32)
    assert_agrees(op("Attention").eval(q, k, v, additive)[0], result, Rounding(ulp=0))


def test_a_short_mask_hides_the_last_keys(rng: np.random.Generator) -> None:
    q, k, v = (rng.normal(size=(1, 1, 3, 4)) for _ in range(3))
    short = op("Attention").eval(q, k, v, np.ones((3, 2), bool))[0]
    assert_agrees(short, op("Attention").eval(q, k[:, :, :2], v[:, :, :2])[0], Rounding(abs=1e-12))


def test_rotation_keeps_lengths_and_undoes(rng: np.random.Generator) -> None:
    angle = rng.uniform(0, 6, (10, 4))
    x, places = rng.normal(size=(2, 3, 5, 8)), rng.integers(0, 10, (2, 5))
    for interleaved in (0, 1):
        operator = op("RotaryEmbedding", interleaved=interleaved)
        turned = operator.eval(x, np.cos(angle), np.sin(angle), places)
        np.testing.assert_allclose(np.linalg.norm(turned, axis=-1), np.linalg.norm(x, axis=-1))
        np.testing.assert_allclose(operator.eval(turned, np.cos(angle), -np.sin(angle), places), x)


# -- normalization ---------------------------------------------------------------------------------


def test_softmax_survives_large_and_missing_scores() -> None:
    assert op("Softmax").eval(np.float32([1000, 1000, -np.inf])).tolist() == [0.5, 0.5, 0]
    assert op("LogSoftmax").eval(np.float32([0, 1000])).tolist() == [-1000, 0]
    assert op("Softmax").eval(np.zeros((2, 0), np.float32)).shape == (2, 0)


def test_layer_normalization_of_constants_is_the_bias() -> None:
    x = np.full((2, 8), 3.0, np.float32)
    result, mean, inverse = op("LayerNormalization").eval(
        x, np.ones(8, np.float32), np.arange(8, dtype=np.float32)
    )
    assert result.tolist() == [list(range(8))] * 2
    assert mean.tolist() == [[3.0], [3.0]]
    assert_agrees(inverse, np.full((2, 1), 1e-5**-0.5), Rounding(ulp=2))


# -- resampling ------------------------------------------------------------------------------------


def test_resize_of_symbolic_images() -> None:
    image = tensor(F32, "batch", 3, "h", "w")
    doubled = infer(op("Resize"), image, None, constant(np.float32([1, 1, 2, 2])))
    assert shape_text(doubled) == "batch, 3, 2*h, 2*w"
    halved = infer(op("Resize"), image, None, constant(np.float32([1, 1, 0.5, 0.5])))
    assert shape_text(halved) == "batch, 3, (h // 2), (w // 2)"
    wanted = Value(tensor(dtypes.int64, 4))
    wanted.content = np.array([dims.symbol("batch"), 3, 7, dims.symbol("w")], object)
    assert shape_text(infer(op("Resize"), image, None, None, wanted)) == "batch, 3, 7, w"
    unknown = infer(op("Resize"), image, None, tensor(F32, 4))
    assert unknown.rank == 4


def test_scales_mean_what_was_written() -> None:
    # float32 holds 0.7 as 0.69999999; ten elements shall still become seven.
    resize, scales = op("Resize"), np.float32([1, 1, 0.7, 1 / 3])
    assert resize.eval(np.zeros((1, 1, 10, 9), np.float32), None, scales).shape == (1, 1, 7, 3)
    assert (
        shape_text(infer(resize, tensor(F32, 1, 1, 10, 9), None, constant(scales))) == "1, 1, 7, 3"
    )


def test_linear_resampling_by_hand() -> None:
    x = np.float32([[[0, 3]]])
    corners = op("Resize", mode="linear", coordinate_transformation_mode="align_corners", axes=(2,))
    assert corners.eval(x, None, None, np.array([4])).tolist() == [[[0, 1, 2, 3]]]
    centers = op("Resize", mode="linear", axes=(2,)).eval(x, None, np.float32([2]))
    assert centers.tolist() == [[[0, 0.75, 2.25, 3]]]


def test_resampling_copies_any_type() -> None:
    x = np.array([[["a", "b"]]], object)
    assert op("Resize", axes=(2,)).eval(x, None, np.float32([2])).tolist() == [
        [["a", "a", "b", "b"]]
    ]


# -- reductions ------------------------------------------------------------------------------------


def test_reductions_over_nothing() -> None:
    empty = np.zeros((2, 0), np.float32)
    axes = np.array([1])
    for kind, expected in (
        ("Sum", 0),
        ("Prod", 1),
        ("Max", -np.inf),
        ("Min", np.inf),
        ("L1", 0),
        ("LogSumExp", -np.inf),
    ):
        assert op(f"Reduce{kind}", keepdims=0).eval(empty, axes).tolist() == [expected] * 2
    assert op("ReduceMax", keepdims=0).eval(np.zeros((0,), np.int32)).item() == -(2**31)


def test_reduced_shapes() -> None:
    x = tensor(F32, "batch", "seq", 64)
    assert shape_text(infer(op("ReduceMean"), x, constant([-1]))) == "batch, seq, 1"
    assert shape_text(infer(op("ReduceMean", keepdims=0), x, constant([0, 2]))) == "seq"
    assert shape_text(infer(op("ReduceMax"), x)) == "1, 1, 1"
    assert shape_text(infer(op("ReduceMax", noop_with_empty_axes=1), x)) == "batch, seq, 64"
    assert infer(op("ReduceMax"), x, tensor(dtypes.int64, 1)).rank == 3
    assert infer(op("ReduceMax", keepdims=0), x, tensor(dtypes.int64, 2)).rank == 1
    assert infer(op("ReduceMax", keepdims=0), x, tensor(dtypes.int64, "n")).shape is None


REDUCTIONS = [kind for _, kind in sorted(ops.REGISTRY.items()) if issubclass(kind, Reduction)]


@pytest.mark.parametrize("kind", REDUCTIONS, ids=lambda k: k.name)
def test_reduction_formulas_agree_with_evaluation(
    kind: type[Reduction], rng: np.random.Generator
) -> None:
    combine = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[
        kind.combine
    ]
    operator = kind(keepdims=0)
    for data in (rng.uniform(0.5, 2, (3, 7)).astype(np.float32), rng.integers(-9, 9, (3, 7))):
        if dtypes.by_numpy(data.dtype).kind not in kind.kinds:
            continue
        element = dtypes.by_numpy(data.dtype)
        x, count = inputs(element, element)
        mapped = interpret(operator.each(E, x), [data])
        total = combine.reduce(mapped, axis=1).astype(data.dtype)
        found = interpret(operator.finish(E, x, count), [total, np.array(7, data.dtype)])
        exact = operator.eval(data.astype(np.float64) if element.is_float else data, np.array([1]))
        assert_agrees(found, exact, kind.accuracy, f"{kind.name} of {data.dtype}")


def test_sizes_travel_through_reductions() -> None:
    batch, seq = dims.symbol("batch"), dims.symbol("seq")
    value = Value(tensor(dtypes.int64, 3))
    value.content = np.array([batch, seq, 4], object)

    def known(operator: Op, *rest: Value) -> Any:
        node = Node(operator, [value, *rest], [Value(TensorType(F32, None))])
        operator.infer_node(node)
        return known_ints(node.output)

    assert known(op("ReduceProd", keepdims=0)) == (batch * seq * 4,)
    assert known(op("ReduceSum")) == (batch + seq + 4,)
    assert known(op("CumSum"), constant(0)) == (batch, batch + seq, batch + seq + 4)
    assert known(op("CumProd", reverse=1), constant(0)) == (batch * seq * 4, seq * 4, 4)


# -- refusals --------------------------------------------------------------------------------------

IMAGE, VECTOR, MATRIX = tensor(F32, 2, 4, 8, 8), tensor(F32, 4), tensor(F32, 3, 4)
HEADS = tensor(F32, 2, 4, 5, 8)


@pytest.mark.parametrize(
    ("operator", "types", "message"),
    [
        (
            op("Conv"),
            (IMAGE, tensor(F32, 6, 3, 3, 3)),
            "channels of the input (4) and channels of the filters · group (3)",
        ),
        (op("Conv"), (MATRIX, MATRIX), "Conv takes an input of rank 3 or more"),
        (op("Conv"), (IMAGE, tensor(F32, 6, 4, 3)), "Conv needs filters of rank 4"),
        (
            op("Conv"),
            (IMAGE, tensor(F32, 6, 4, 9, 3)),
            "spans 9 elements of spatial axis 0, which has 8 with its pads",
        ),
        (op("Conv", pads=(1, 1)), (IMAGE, tensor(F32, 6, 4, 3, 3)), "needs 4 pads, found 2"),
        (op("Conv", strides=(1,)), (IMAGE, tensor(F32, 6, 4, 3, 3)), "needs 2 strides, found 1"),
        (
            op("Conv", strides=(0, 1)),
            (IMAGE, tensor(F32, 6, 4, 3, 3)),
            "strides of Conv must be positive",
        ),
        (
            op("Conv", auto_pad="SAME"),
            (IMAGE, tensor(F32, 6, 4, 3, 3)),
            "Conv has no auto_pad 'SAME'",
        ),
        (
            op("Conv", group=2),
            (IMAGE, tensor(F32, 5, 2, 3, 3)),
            "cannot divide 5 filters into 2 groups",
        ),
        (
            op("Conv", kernel_shape=(2, 2)),
            (IMAGE, tensor(F32, 6, 4, 3, 3)),
            "kernel_shape (2) and size of the filters (3)",
        ),
        (
            op("Conv"),
            (IMAGE, tensor(F32, 6, 4, 3, 3), tensor(F32, 5)),
            "size of the bias (5) and output channels (6)",
        ),
        (
            op("ConvTranspose"),
            (IMAGE, tensor(F32, 6, 4, 3, 3)),
            "channels of the input (4) and first size of the filters (6)",
        ),
        (op("MaxPool"), (IMAGE,), "MaxPool needs the attribute kernel_shape"),
        (op("MaxPool", kernel_shape=(2,)), (IMAGE,), "takes an input of rank 3"),
        (op("GlobalMaxPool"), (MATRIX,), "GlobalMaxPool takes an input of rank 3 or more"),
        (op("MatMul"), (MATRIX, MATRIX), "MatMul sums over sizes that differ: 4 and 3"),
        (op("MatMul"), (MATRIX, tensor(F32)), "found a scalar"),
        (
            op("MatMul"),
            (tensor(F32, 2, 3, 4), tensor(F32, 3, 4, 5)),
            "sizes 2 and 3 do not broadcast",
        ),
        (op("Gemm"), (IMAGE, MATRIX), "Gemm takes two matrices"),
        (
            op("Gemm", transB=1),
            (MATRIX, MATRIX, tensor(F32, 2, 1, 3)),
            "Gemm cannot broadcast its inputs to the shape (3, 3)",
        ),
        (op("Einsum", equation="ij,jk->il"), (MATRIX, MATRIX), "must name labels of the inputs"),
        (op("Einsum", equation="ij->ji"), (MATRIX, MATRIX), "has 1 terms for 2 inputs"),
        (
            op("Einsum", equation="ij,jk"),
            (MATRIX, MATRIX),
            "the label 'j' of Einsum stands for the sizes 4 and 3",
        ),
        (op("Einsum", equation="ijk"), (MATRIX,), "does not fit an input of rank 2"),
        (op("Einsum", equation="i1"), (MATRIX,), "is not well formed"),
        (
            op("Attention"),
            (HEADS, tensor(F32, 2, 4, 5, 7), HEADS),
            "head sizes of the queries and keys",
        ),
        (
            op("Attention"),
            (HEADS, tensor(F32, 2, 3, 5, 8), tensor(F32, 2, 3, 5, 8)),
            "4 is no multiple of 3",
        ),
        (op("Attention"), (tensor(F32, 2, 5, 32),) * 3, "needs q_num_heads and kv_num_heads"),
        (
            op("Attention", q_num_heads=5, kv_num_heads=5),
            (tensor(F32, 2, 5, 32),) * 3,
            "32 is no multiple of 5",
        ),
        (
            op("Attention"),
            (HEADS, HEADS, HEADS, tensor(F32, 3, 5)),
            "sizes 3 and 5 do not broadcast",
        ),
        (op("RotaryEmbedding"), (HEADS, MATRIX, MATRIX), "cos of RotaryEmbedding must have rank 3"),
        (
            op("BatchNormalization"),
            (IMAGE, VECTOR, VECTOR, VECTOR, tensor(F32, 5)),
            "the size of variance and the channels",
        ),
        (
            op("GroupNormalization", num_groups=3),
            (IMAGE, VECTOR, VECTOR),
            "cannot divide 4 channels into 3 groups",
        ),
        (op("LayerNormalization"), (MATRIX, tensor(F32, 3)), "sizes 4 and 3 do not broadcast"),
        (op("Softmax", axis=2), (MATRIX,), "axis 2 of Softmax lies outside a tensor of rank 2"),
        (op("Resize"), (IMAGE,), "Resize needs scales or sizes"),
        (
            op("Resize"),
            (IMAGE, None, constant(np.float32([1, 2]))),
            "Resize of 4 axes needs as many",
        ),
        (
            op("Resize", mode="area"),
            (IMAGE, None, None, constant([2, 4, 4, 4])),
            "Resize has no mode 'area'",
        ),
        (op("ReduceSum"), (MATRIX, constant([2])), "axis 2 of ReduceSum lies outside"),
        (op("ReduceSum"), (MATRIX, constant([0, -2])), "ReduceSum names an axis twice"),
        (op("ArgMax", axis=1), (tensor(F32, 3, 0),), "ArgMax over an axis of size 0"),
        (op("CumSum"), (MATRIX, constant([0, 1])), "CumSum runs along one axis"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_wrong_shapes_are_refused(operator: Op, types: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ShapeError) as caught:
        infer(operator, *types)
    assert message in str(caught.value)


BYTES = tensor(dtypes.uint8, 4, 4)


@pytest.mark.parametrize(
    ("operator", "types", "kind", "message"),
    [
        (
            op("Conv"),
            (tensor(dtypes.int64, 1, 1, 3),) * 2,
            TypeMismatchError,
            "Conv takes floating elements, found int64",
        ),
        (
            op("Attention"),
            (HEADS, HEADS, HEADS, None, HEADS),
            TypeMismatchError,
            "past keys and past values together",
        ),
        (
            op("ReduceLogSum"),
            (tensor(dtypes.int64, 3),),
            TypeMismatchError,
            "ReduceLogSum takes floating elements",
        ),
        (
            op("CumSum"),
            (MATRIX, tensor(F32)),
            TypeMismatchError,
            "the axis of CumSum must be int32 or int64",
        ),
        (
            op("BatchNormalization", training_mode=1),
            (IMAGE, *(VECTOR,) * 4),
            UnsupportedOperatorError,
            "in training mode",
        ),
        (
            REGISTRY["com.microsoft", "QGemm"](),
            (
                BYTES,
                tensor(dtypes.float64),
                tensor(dtypes.uint8),
                BYTES,
                tensor(F32),
                tensor(dtypes.uint8),
            ),
            TypeMismatchError,
            "the scales of QGemm are numbers of float32",
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_wrong_types_are_refused(
    operator: Op, types: tuple[Any, ...], kind: type[InfuseError], message: str
) -> None:
    with pytest.raises(kind) as caught:
        infer(operator, *types)
    assert message in str(caught.value)


def test_a_gate_of_another_shape_than_its_value_is_refused_when_it_runs() -> None:
    with pytest.raises(ShapeError, match=r"\(3,\) and \(1,\)"):
        op("SwiGLU").eval(np.ones(3, np.float32), np.ones(1, np.float32))


UNKNOWN = TensorType(F32, None)


@pytest.mark.parametrize(
    ("operator", "types"),
    [
        (op("Conv"), (UNKNOWN, tensor(F32, 6, 4, 3, 3))),
        (op("ConvTranspose"), (IMAGE, UNKNOWN)),
        (op("MaxPool", kernel_shape=(2, 2)), (UNKNOWN,)),
        (op("GlobalAveragePool"), (UNKNOWN,)),
        (op("MatMul"), (UNKNOWN, MATRIX)),
        (op("Gemm"), (MATRIX, UNKNOWN)),
        (op("Einsum", equation="...ij,jk"), (UNKNOWN, MATRIX)),
        (op("Attention"), (UNKNOWN, HEADS, HEADS)),
        (op("Softmax"), (UNKNOWN,)),
        (op("LayerNormalization"), (UNKNOWN, VECTOR)),
        (op("Resize"), (UNKNOWN, None, constant(np.float32([2, 2])))),
        (op("ReduceSum"), (UNKNOWN,)),
        (op("ArgMax"), (UNKNOWN,)),
        (op("CumSum"), (UNKNOWN, constant(0))),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_unknown_ranks_stay_unknown(operator: Op, types: tuple[Any, ...]) -> None:
    assert infer(operator, *types).shape is None


def test_no_operator_function_is_hidden_by_a_module() -> None:
    hidden = [name for _, name in REGISTRY if not callable(getattr(ops, snake_case(name)))]
    assert hidden == []
