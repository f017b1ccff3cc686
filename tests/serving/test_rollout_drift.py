from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from infuse.serving.control.rollout.drift import difference
from infuse.serving.messages import InferResponse, Tensor
from tests.serving.rollout_tools import response

pytestmark = pytest.mark.row("S3")

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("expected", "found", "datatype", "reason"),
    [
        ([1, 2, 4], [1.1, 2, 4], "FP32", None),
        ([1, 2, 4], [1, 2, 4.3], "FP32", r"moved by 0\.3 where its largest magnitude is 4"),
        ([0, 0], [0, 0], "FP32", None),
        ([0, 0], [0, 1e-9], "FP32", "moved"),
        ([NAN, 1], [NAN, 1.01], "FP32", None),
        ([1, 1], [NAN, 1], "FP32", "not finite in other places"),
        ([NAN, 1], [1, 1], "FP32", "not finite in other places"),
        ([INF, -INF, 1], [INF, -INF, 1], "FP32", None),
        ([INF, 1], [-INF, 1], "FP32", "other NaN or infinities"),
        ([NAN, 1], [INF, 1], "FP32", "other NaN or infinities"),
        ([NAN, NAN], [NAN, NAN], "FP32", None),
        ([1000, 2], [1000, 2], "INT64", None),
        ([1000, 2], [1001, 2], "INT64", "other elements"),
        ([b"cat", b"dog"], [b"cat", b"dog"], "BYTES", None),
        ([b"cat", b"dog"], [b"cat", b"cow"], "BYTES", "other elements"),
        ([1, 2], [1, 2, 3], "FP32", r"shape \[3\] instead of \[2\]"),
        ([], [], "FP32", None),
    ],
)
def test_answers_beside_each_other(
    expected: list[Any], found: list[Any], datatype: str, reason: str | None
) -> None:
    difference_found = difference(
        response(1, expected, datatype), response(2, found, datatype), 0.05
    )
    if reason is None:
        assert difference_found is None
    else:
        assert difference_found is not None
        assert re.search(reason, difference_found)


@pytest.mark.parametrize(
    ("datatype", "kind"), [("FP16", np.float16), ("BF16", ml_dtypes.bfloat16), ("FP64", np.float64)]
)
def test_all_floats_are_compared_as_floats(datatype: str, kind: Any) -> None:
    first = np.array([[1.0, 8.0]], kind)
    assert (
        difference(
            response(1, first, datatype),
            response(2, (first * kind(1.03)).astype(kind), datatype),
            0.05,
        )
        is None
    )
    assert difference(
        response(1, first, datatype), response(2, (first * kind(1.5)).astype(kind), datatype), 0.05
    )


def test_another_type_is_a_difference() -> None:
    found = difference(response(1, [1, 2], "INT64"), response(2, [1, 2], "FP32"), 0.05)
    assert found == "output 'y' is FP32 instead of INT64"


def test_a_missing_output_is_a_difference_and_one_more_is_not() -> None:
    one = response(1, [1.0])
    more = InferResponse(
        "digits",
        "2",
        "",
        [Tensor("z", "FP32", np.ones(1, np.float32)), *response(2, [1.0]).outputs],
    )
    assert difference(one, more, 0.05) is None
    assert difference(more, one, 0.05) == "output 'z' is missing"
