"""Elementwise operators: what the table does not say — edge cases, refusals, and sizes travelling
through.
"""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

from infuse import dtypes, ops
from infuse.dtypes import DType
from infuse.errors import DataError, ShapeError, TypeMismatchError
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.graph import Node, Value, constant
from infuse.ir.types import TensorType, tensor
from infuse.ops.conversion import Cast
from infuse.ops.core.base import Op
from infuse.ops.core.formula import E, inputs
from infuse.testing.formulas import interpret
from infuse.testing.samples import results, rows

BATCH, SEQ = dims.symbol("batch"), dims.symbol("seq")


def op(name: str, **attributes: Any) -> Op:
    return ops.REGISTRY["", name](**attributes)


def infer(operator: Op, *values: Value | TensorType | None) -> Value:
    """The inferred output of a node over values of these types."""
    given_values = [
        Value(v, f"x{i}") if isinstance(v, TensorType) else v for i, v in enumerate(values)
    ]
    node = Node(operator, given_values, [Value(TensorType(dtypes.float32, None))])
    operator.infer_node(node)
    return node.output


def sizes(*elements: Any, dtype: DType = dtypes.int64) -> Value:
    """A vector of sizes whose elements are known as dimensions."""
    value = Value(tensor(dtype, len(elements)), "sizes")
    value.content = np.array(elements, dtype=object)
    return value


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


# -- conversion ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "saturate", "expected"),
    [
        (dtypes.float8e4m3fn, 1, [448, -448, 448, np.nan, 0.5]),
        (dtypes.float8e4m3fn, 0, [np.nan, np.nan, np.nan, np.nan, 0.5]),
        (dtypes.float8e5m2, 1, [57344, -57344, 57344, np.nan, 0.5]),
        (dtypes.float8e5m2, 0, [np.inf, -np.inf, np.inf, np.nan, 0.5]),
        (dtypes.float8e4m3fnuz, 1, [240, -240, 240, np.nan, 0.5]),
        (dtypes.float8e5m2fnuz, 0, [np.nan, np.nan, np.nan, np.nan, 0.5]),
    ],
    ids=str,
)
def test_casts_to_small_floats_saturate(to: DType, saturate: int, expected: list[float]) -> None:
    x = np.float32([1e9, -1e9, np.inf, np.nan, 0.5])
    found = op("Cast", to=to, saturate=saturate).eval(x)
    assert found.dtype == to.numpy
    np.testing.assert_array_equal(found.astype(np.float32), expected)


def test_casts_of_integers_keep_the_low_bits() -> None:
    assert op("Cast", to=dtypes.int8).eval(np.array([200, -129, 5], np.int16)).tolist() == [
        -56,
        127,
        5,
    ]
    four = op("Cast", to=dtypes.int4).eval(np.array([7, 8, 17, -9], np.int8))
    assert four.astype(np.int8).tolist() == [7, -8, 1, 7]
    assert four.dtype == ml_dtypes.int4
    assert op("Cast", to=dtypes.uint4).eval(np.array([16, 31], np.int32)).astype(
        np.int8
    ).tolist() == [0, 15]


NUMBERS = {
    **{
        "1": 1,
        "+1": 1,
        "-1": -1,
        " 1": 1,
        "1\t": 1,
        "\n1\r": 1,
        "1.5": 1.5,
        "1.": 1,
        ".5": 0.5,
        "1e3": 1000,
        "1E-3": 1e-3,
    },
    **{
        "inf": np.inf,
        "-INF": -np.inf,
        "Infinity": np.inf,
        "nan": np.nan,
        "1e39": np.inf,
        "1e-400": 0,
    },
}
NO_NUMBERS = [
    "1_000",
    "0x10",
    "0x1p3",
    "",
    ".",
    "+",
    "e3",
    "1,5",
    "1f",
    "1 2",
    "1\0",
    "\u0663",
    "\uff11",
    "True",
    "1e400",
]


@pytest.mark.parametrize("to", [dtypes.float32, dtypes.float16])
def test_texts_are_numbers(to: DType) -> None:
    read = op("Cast", to=to).eval(np.array([*NUMBERS], object))
    with np.errstate(over="ignore"):
        expected = np.array([*NUMBERS.values()]).astype(to.numpy)
    np.testing.assert_array_equal(read, expected)


@pytest.mark.parametrize("to", [dtypes.float32, dtypes.int64, dtypes.uint8, dtypes.bool_])
@pytest.mark.parametrize("text", NO_NUMBERS)
def test_texts_that_only_python_or_c_take_for_numbers_are_refused(text: str, to: DType) -> None:
    with pytest.raises(DataError, match=r"no number|larger than"):
        op("Cast", to=to).eval(np.array(["1", text], object))


def test_texts_are_integers_without_what_follows_the_point() -> None:
    texts = np.array(["9007199254740993", "-1.9", "1e3", " 255 ", "-1"], object)
    assert op("Cast", to=dtypes.int64).eval(texts).tolist() == [9007199254740993, -1, 1000, 255, -1]
    assert op("Cast", to=dtypes.uint8).eval(texts[3:]).tolist() == [255, 255]
    assert op("Cast", to=dtypes.uint64).eval(
        np.array(["18446744073709551615"], object)
    ).tolist() == [2**64 - 1]
    for text, why in (
        ("nan", "no integer"),
        ("-inf", "no integer"),
        ("99999999999999999999", "64 bits"),
    ):
        with pytest.raises(DataError, match=why):
            op("Cast", to=dtypes.int64).eval(np.array([text], object))


def test_casts_to_and_from_text() -> None:
    text = np.array(["3.5", "-INF", "+inf", "NaN", "1e3"], object)
    np.testing.assert_array_equal(
        op("Cast", to=dtypes.float32).eval(text), np.float32([3.5, -np.inf, np.inf, np.nan, 1e3])
    )
    assert op("Cast", to=dtypes.int32).eval(np.array(["-12", "7"], object)).tolist() == [-12, 7]
    numbers = np.float32([0.1, np.inf, -np.inf, np.nan])
    printed = op("Cast", to=dtypes.string).eval(numbers)
    assert printed.tolist() == ["0.1", "INF", "-INF", "NaN"]
    assert op("Cast", to=dtypes.string).eval(np.array([5, -1])).tolist() == ["5", "-1"]


def test_a_cast_takes_the_number_of_its_type() -> None:
    assert op("Cast", to=dtypes.float16.onnx) == op("Cast", to=dtypes.float16)


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
    assert infer(op("Add"), unknown, REALS).type == unknown
    assert infer(op("PRelu"), REALS, unknown).type == REALS


# -- sizes travelling through shape arithmetic -----------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "operands", "expected"),
    [
        (op("Add"), (sizes(BATCH, 3), sizes(1, SEQ)), (BATCH + 1, SEQ + 3)),
        (op("Sub"), (sizes(SEQ), constant([1])), (SEQ - 1,)),
        (op("Mul"), (sizes(BATCH, 3), sizes(SEQ, 2)), (BATCH * SEQ, 6)),
        (op("Div"), (sizes(BATCH * 4, 7), constant([2, 2])), (BATCH * 2, 3)),
        (op("Div"), (sizes(SEQ + 1), constant([2])), (dims.floordiv(SEQ + 1, 2),)),
        (op("Div"), (constant([-7, 7]), sizes(2, -2)), (-3, -3)),
        (op("Div"), (sizes(SEQ - 3), constant([2])), None),
        (op("Div"), (sizes(SEQ), constant([0])), None),
        (op("Mod"), (sizes(SEQ, 7), constant([4, 4])), (dims.mod(SEQ, 4), 3)),
        (op("Mod", fmod=1), (sizes(-7), constant([4])), (-3,)),
        (op("Mod", fmod=1), (sizes(SEQ - 3), constant([4])), None),
        (op("Max"), (sizes(SEQ, 2), constant([1, 5])), (dims.maximum(SEQ, 1), 5)),
        (op("Max"), (sizes(SEQ + 1), sizes(SEQ), constant([0])), (SEQ + 1,)),
        (op("Min"), (sizes(SEQ + 1), sizes(SEQ)), (SEQ,)),
        (op("Neg"), (sizes(SEQ),), (-SEQ,)),
        (op("Abs"), (sizes(SEQ, -4),), (SEQ, 4)),
        (op("Sign"), (sizes(SEQ + 1, -2, 0),), (1, -1, 0)),
        (op("Sign"), (sizes(SEQ),), None),
        (op("Equal"), (sizes(SEQ, 3), sizes(SEQ, 4)), (True, False)),
        (op("Equal"), (sizes(SEQ), constant([4])), None),
        (op("Less"), (sizes(SEQ), sizes(SEQ + 1)), (True,)),
        (op("LessOrEqual"), (constant([0]), sizes(SEQ)), (True,)),
        (op("Greater"), (sizes(SEQ), sizes(SEQ + 1)), (False,)),
        (op("GreaterOrEqual"), (sizes(SEQ), constant([5])), None),
        (op("Clip"), (sizes(SEQ + 2, 9), constant(1), constant(5)), (dims.minimum(SEQ + 2, 5), 5)),
        (op("Cast", to=dtypes.int32), (sizes(SEQ, 3),), (SEQ, 3)),
        (op("Cast", to=dtypes.int8), (sizes(300),), (44,)),
        (op("Cast", to=dtypes.int8), (sizes(SEQ),), None),
        (op("Cast", to=dtypes.bool_), (sizes(SEQ + 1, 0),), (True, False)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_sizes_travel(
    operator: Op, operands: tuple[Value, ...], expected: tuple[Any, ...] | None
) -> None:
    assert known_ints(infer(operator, *operands)) == expected


def test_truths_about_sizes_travel() -> None:
    yes, no = sizes(True, False, dtype=dtypes.bool_), sizes(False, False, dtype=dtypes.bool_)
    assert known_ints(infer(op("And"), yes, no)) == (False, False)
    assert known_ints(infer(op("Or"), yes, no)) == (True, False)
    assert known_ints(infer(op("Xor"), yes, yes)) == (False, False)
    assert known_ints(infer(op("Not"), yes)) == (False, True)
    assert known_ints(infer(op("Where"), yes, sizes(SEQ, 1), sizes(2, BATCH))) == (SEQ, BATCH)


def linear(symbol: dims.Dim) -> st.SearchStrategy[dims.Dim]:
    return st.builds(lambda a, b: symbol * a + b, st.integers(-2, 4), st.integers(-6, 6))


CARRYING = [
    *(
        op(name)
        for name in (
            "Add",
            "Sub",
            "Mul",
            "Div",
            "Mod",
            "Max",
            "Min",
            "Equal",
            "Less",
            "LessOrEqual",
            "Greater",
        )
    ),
    *(op("GreaterOrEqual"), op("Mod", fmod=1)),
]


@pytest.mark.parametrize("operator", CARRYING, ids=lambda o: o.name)
@given(data=st.data())
def test_known_elements_are_right_for_all_sizes(operator: Op, data: st.DataObject) -> None:
    a, b = (
        data.draw(linear(BATCH) | linear(SEQ)),
        data.draw(linear(BATCH) | linear(SEQ) | st.integers(-5, 5)),
    )
    known = operator.content(np.array([a], object), np.array([b], object))
    if known is None:
        return
    for batch, seq in ((0, 0), (1, 1), (1, 7), (6, 2), (13, 13)):
        at = {"batch": batch, "seq": seq}
        x, y = dims.evaluate(a, at), dims.evaluate(b, at)
        if operator.name in ("Div", "Mod") and y == 0:
            continue
        (expected,) = operator.eval(np.array([x]), np.array([y])).tolist()
        assert dims.evaluate(known[0], at) == expected, f"{a} and {b} at {at}"


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


def test_known_integers_wrap_as_their_elements_do() -> None:
    """What is known of a list of sizes survives a Cast, also of numbers that only uint64 holds."""
    for numbers, source in (([2**64 - 1, 7], np.uint64), ([-1, 300], np.int64)):
        for to in (
            dtypes.int8,
            dtypes.uint8,
            dtypes.int32,
            dtypes.uint32,
            dtypes.int64,
            dtypes.uint64,
        ):
            array = np.array(numbers, source)
            found = Cast(to).content(np.array(numbers, dtype=object))
            assert found is not None
            assert found.tolist() == array.astype(to.numpy).tolist()
