"""Sizes that are known travel through elementwise operators of shape arithmetic."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from infuse import dtypes
from infuse.dtypes import DType
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.graph import Node, Value, constant
from infuse.ir.types import TensorType, tensor
from infuse.ops.core.base import Op
from tests.pure.inferred_types import op

BATCH, SEQ = dims.symbol("batch"), dims.symbol("seq")


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
