"""Elementwise operators: what the table does not say — edge cases, refusals and laws."""

import numpy as np
import pytest

from infuse import dtypes, ops
from infuse.errors import ShapeError, TypeMismatchError
from infuse.ir.types import TensorType, tensor
from infuse.ops.core.base import Op
from infuse.ops.core.formula import E, inputs
from infuse.testing.samples import results, rows
from tests.pure.inferred_types import infer, op
from tests.support.formulas import interpret

# -- edge cases ------------------------------------------------------------------------------------


def test_integer_division_truncates() -> None:
    a = np.array([7, -7, 7, -7, -(2**31)], np.int32)
    b = np.array([2, 2, -2, -2, -1], np.int32)
    assert op("Div").eval(a, b).tolist() == [3, -3, -3, 3, -(2**31)]


@pytest.mark.parametrize("kind", ["Div", "Mod"])
def test_integers_are_not_divided_by_zero(kind: str) -> None:
    with pytest.raises(ZeroDivisionError):
        op(kind).eval(np.array([1, 2]), np.array([1, 0]))
    assert op(kind).eval(np.array([], np.int64), np.array([0])).shape == (0,)


def test_integer_remainders_have_the_sign_asked_for() -> None:
    a, b = np.array([7, -7, 7, -7]), np.array([3, 3, -3, -3])
    assert op("Mod").eval(a, b).tolist() == [1, 2, -2, -1]
    assert op("Mod", fmod=1).eval(a, b).tolist() == [1, -1, 1, -1]


def test_integer_powers() -> None:
    base = np.array([2, 3, -2, 2, 1, 7])
    assert op("Pow").eval(base, np.array([10, 0, 3, -1, -5, 2])).tolist() == [1024, 1, -8, 0, 1, 49]
    assert op("Pow").eval(base.astype(np.int32), np.array(0.5)).tolist() == [
        1,
        1,
        -(2**31),
        1,
        1,
        2,
    ]
    assert op("Pow").eval(np.array([3], np.int32), np.array([20], np.int64)).dtype == np.int32


def test_shifts_beyond_the_width() -> None:
    x = np.array([-5, 5, 1], np.int8)
    assert op("BitShift", direction="RIGHT").eval(x, np.array([8, 9, -1], np.int8)).tolist() == [
        -1,
        0,
        0,
    ]
    assert op("BitShift", direction="LEFT").eval(x, np.array([8, 7, 6], np.int8)).tolist() == [
        0,
        -128,
        64,
    ]


def test_nan_travels_through_extremes() -> None:
    x = np.array([np.nan, 1], np.float32)
    limit = np.float32([0, np.nan])
    assert np.isnan(op("Max").eval(x, limit)).all()
    assert np.isnan(op("Min").eval(x, limit)).all()
    assert np.isnan(op("Relu").eval(x)).tolist() == [True, False]
    assert np.isnan(op("Clip").eval(x, np.float32(0), np.float32(6))).tolist() == [True, False]


def test_text_can_be_chosen_and_compared() -> None:
    x, y = np.array(["a", "b"], object), np.array(["a", "c"], object)
    assert op("Equal").eval(x, y).tolist() == [True, False]
    assert op("Where").eval(np.array([False, True]), x, y).tolist() == ["a", "b"]
    assert (
        infer(
            op("Where"), tensor(dtypes.bool_, 2), tensor(dtypes.string, 2), tensor(dtypes.string, 2)
        ).dtype.name
        == "string"
    )


def test_evaluation_is_silent_where_ieee_has_an_answer() -> None:
    zeros = np.zeros(3, np.float32)
    assert np.isnan(op("Div").eval(zeros, zeros)).all()
    assert op("Log").eval(zeros).tolist() == [-np.inf] * 3
    assert op("Exp").eval(np.float32([1000.0])).tolist() == [np.inf]


def test_evaluation_gives_arrays_for_scalars() -> None:
    assert type(op("Add").eval(np.array(1.0), np.array(2.0))) is np.ndarray
    assert type(op("Sqrt").eval(np.array(4.0, np.float32))) is np.ndarray


# -- refusals --------------------------------------------------------------------------------------

REALS, WHOLES, TRUTHS = (
    tensor(dtypes.float32, 2, 3),
    tensor(dtypes.int64, 2, 3),
    tensor(dtypes.bool_, 2, 3),
)


@pytest.mark.parametrize(
    ("operator", "types", "message"),
    [
        (op("Add"), (REALS, WHOLES), "Add needs inputs of one element type, found float32, int64"),
        (
            op("Add"),
            (TRUTHS, TRUTHS),
            "Add takes floating or signed integer or unsigned integer elements, found bool",
        ),
        (op("Sqrt"), (WHOLES,), "Sqrt takes floating elements, found int64"),
        (op("And"), (TRUTHS, REALS), "And needs inputs of one element type, found bool, float32"),
        (op("And"), (REALS, REALS), "And takes boolean elements, found float32"),
        (
            op("Neg"),
            (tensor(dtypes.uint8, 2),),
            "Neg takes floating or signed integer elements, found uint8",
        ),
        (
            op("Where"),
            (REALS, REALS, REALS),
            "the condition of Where takes boolean elements, found float32",
        ),
        (
            op("Pow"),
            (tensor(dtypes.uint8, 2), REALS),
            "Pow takes floating or signed integer elements, found uint8",
        ),
        (op("BitShift", direction="UP"), (WHOLES, WHOLES), "BitShift has no direction 'UP'"),
        (op("Gelu", approximate="erf"), (REALS,), "Gelu has no approximation 'erf'"),
        (op("Add"), (REALS,), "Add takes a, b; 1 inputs are given"),
        (op("Exp"), (REALS, REALS), "Exp takes x; 2 inputs are given"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_wrong_types_are_refused(operator: Op, types: tuple[TensorType, ...], message: str) -> None:
    with pytest.raises(TypeMismatchError, match=r"INF-203") as caught:
        infer(operator, *types)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("operator", "types", "message"),
    [
        (op("Mul"), (REALS, tensor(dtypes.float32, 4)), "sizes 3 and 4 do not broadcast"),
        (
            op("PRelu"),
            (REALS, tensor(dtypes.float32, 5, 2, 3)),
            "PRelu cannot broadcast its inputs to the shape (2, 3)",
        ),
        (
            op("PRelu"),
            (tensor(dtypes.float32, 2, 1), REALS),
            "PRelu cannot broadcast its inputs to the shape (2, 1)",
        ),
        (
            op("Clip"),
            (REALS, tensor(dtypes.float32, 3)),
            "Clip takes scalar limits, found the shape (3,)",
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_wrong_shapes_are_refused(
    operator: Op, types: tuple[TensorType, ...], message: str
) -> None:
    with pytest.raises(ShapeError, match=r"INF-202") as caught:
        infer(operator, *types)
    assert message in str(caught.value)


def test_unknown_ranks_stay_unknown() -> None:
    unknown = TensorType(dtypes.float32, None)
    assert infer(op("Add"), unknown, REALS) == unknown
    assert infer(op("PRelu"), REALS, unknown) == REALS


# -- laws ------------------------------------------------------------------------------------------

COMMUTATIVE = [o for _, o in sorted(ops.REGISTRY.items()) if o.commutative]


@pytest.mark.parametrize("kind", COMMUTATIVE, ids=lambda o: o.name)
def test_commutative_operators_commute(kind: type[Op], rng: np.random.Generator) -> None:
    for row in rows(kind, rng):
        (one,) = results(row)
        other = row.op.eval(*reversed(row.inputs))
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_square_needs_no_power() -> None:
    (x,) = inputs(dtypes.float32)
    term = op("Pow").scalar(E, x, E.const(2.0, dtypes.float32))  # type: ignore[attr-defined]
    assert term.op == "mul"
    assert interpret(term, [np.float32([-3.0])]).tolist() == [9.0]


def test_infinities_are_found_by_sign() -> None:
    (x,) = inputs(dtypes.float32)
    values = np.float32([np.inf, -np.inf, 1, np.nan])
    for negative, positive, expected in (
        (0, 1, [1, 0, 0, 0]),
        (1, 0, [0, 1, 0, 0]),
        (0, 0, [0, 0, 0, 0]),
    ):
        operator = op("IsInf", detect_negative=negative, detect_positive=positive)
        assert operator.eval(values).tolist() == expected
        term = operator.scalar(E, x)  # type: ignore[attr-defined]
        assert np.broadcast_to(interpret(term, [values]), 4).tolist() == expected
