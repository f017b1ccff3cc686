"""Network operators beside convolution: shapes, and cases with a known answer."""

from typing import Any

import numpy as np
import pytest

from infuse import dtypes, ops
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.graph import Node, Value, constant
from infuse.ir.types import TensorType, tensor
from infuse.ops.core.base import Op, Rounding
from infuse.ops.core.formula import E, inputs
from infuse.ops.reduction import Reduction
from infuse.testing.compare import assert_agrees
from tests.pure.inferred_types import F32, infer, infer_all, op, shape_text
from tests.support.formulas import interpret

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


def test_no_image_is_normalized_and_deformed() -> None:
    """The interpreter reshaped to a size that nothing determines."""
    x, ones = np.zeros((0, 4, 5, 5), np.float32), np.ones(4, np.float32)
    assert op("GroupNormalization", num_groups=2).eval(x, ones, ones).shape == x.shape
    filters, moved = np.ones((6, 4, 3, 3), np.float32), np.zeros((0, 18, 3, 3), np.float32)
    assert op("DeformConv").eval(x, filters, moved).shape == (0, 6, 3, 3)
