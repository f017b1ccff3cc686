"""Network operators: wrong shapes and types are refused, unknown ranks stay unknown."""

from typing import Any

import numpy as np
import pytest

from infuse import dtypes, ops
from infuse.errors import InfuseError, ShapeError, TypeMismatchError, UnsupportedOperatorError
from infuse.ir.graph import constant
from infuse.ir.types import TensorType, tensor
from infuse.ops.core.base import REGISTRY, Op
from infuse.ops.core.expressions import snake_case
from tests.pure.inferred_types import F32, infer, op

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
            "4 is not a multiple of 3",
        ),
        (op("Attention"), (tensor(F32, 2, 5, 32),) * 3, "needs q_num_heads and kv_num_heads"),
        (
            op("Attention", q_num_heads=5, kv_num_heads=5),
            (tensor(F32, 2, 5, 32),) * 3,
            "32 is not a multiple of 5",
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
