"""Casts: small floats saturate, integers wrap, and texts are numbers."""

import ml_dtypes
import numpy as np
import pytest

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import DataError
from infuse.ops.conversion import Cast
from tests.pure.inferred_types import op


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
    with pytest.raises(DataError, match=r"not a number|larger than"):
        op("Cast", to=to).eval(np.array(["1", text], object))


def test_texts_are_integers_without_what_follows_the_point() -> None:
    texts = np.array(["9007199254740993", "-1.9", "1e3", " 255 ", "-1"], object)
    assert op("Cast", to=dtypes.int64).eval(texts).tolist() == [9007199254740993, -1, 1000, 255, -1]
    assert op("Cast", to=dtypes.uint8).eval(texts[3:]).tolist() == [255, 255]
    assert op("Cast", to=dtypes.uint64).eval(
        np.array(["18446744073709551615"], object)
    ).tolist() == [2**64 - 1]
    for text, why in (
        ("nan", "not an integer"),
        ("-inf", "not an integer"),
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
