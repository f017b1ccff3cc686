"""The generated tests of rules find rules that are wrong, whatever it is that they overlook."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from infuse import dtypes, ops
from infuse.ir.contents import known_ints
from infuse.ir.expression import Variable
from infuse.ir.graph import Node, Value
from infuse.ir.types import TensorType
from infuse.passes.rules.common import attribute, data
from infuse.rewrite import Rule, explain, require
from infuse.testing.patterns import graph_of
from infuse.testing.rules import check_rule
from tests.pure.rewriting import rule_of

IN_FLOATS = "as if all numbers were floats"


def is_float(x: Value) -> None:
    require(x.dtype.is_float, "floats only")


def in_front(a: Value, b: Value) -> None:
    require(data(a).size == data(b).size == 1, "several axes")
    require(data(b).flat[0] < data(a).flat[0], "the second axis moved")


def reduced(x: Any, a: Any, b: Any) -> Any:
    return ops.reduce_max(ops.reduce_max(x, ops.const(a), keepdims=0), ops.const(b), keepdims=0)


def both_reduced(x: Value, a: Value, b: Value) -> Any:
    return ops.reduce_max(x, np.concatenate([data(a), data(b)]), keepdims=0)


def as_sum(x: Value, a: Value, root: Node) -> Any:
    size = x.shape[(known_ints(a) or (0,))[0]]  # type: ignore[index]
    total = ops.reduce_sum(x, a, keepdims=attribute(root, "keepdims"))
    return total / (float(size) if isinstance(size, int) else 4.0)


def single(x: Value, a: Value) -> None:
    is_float(x)
    require(known_ints(a) is not None and len(known_ints(a) or ()) == 1, "several axes")


def at_the_top(root: Node) -> None:
    require(root.graph is not None and root.graph.parent is None, "not at the top")


SINGLE = ({"x": (2, 4), "a": np.array([1])},)
WRONG: dict[str, tuple[Callable[[], Rule], str]] = {
    "integers are not divided as floats are": (
        lambda: rule_of(lambda x: (x / 3.0) * 3.0, lambda x: x, rounding=IN_FLOATS),
        "change_type",
    ),
    "a square may overflow": (
        lambda: rule_of(lambda x: ops.sqrt(x * x), lambda x: ops.abs(x), when=is_float),
        "infinities and NaN",
    ),
    "an axis may be another one": (
        lambda: rule_of(
            lambda x: ops.log(ops.softmax(x)), lambda x: ops.log_softmax(x), rounding="-"
        ),
        "Softmax",
    ),
    "the other operand may stretch the shape": (
        lambda: rule_of(lambda x, y: (x + y) - y, lambda x: x, rounding="-", when=is_float),
        r"the type|max\(s",
    ),
    "axes may be counted from the back": (
        lambda: rule_of(
            reduced, both_reduced, when=in_front, examples=[{"x": (2, 3, 4), **_axes(2, 0)}]
        ),
        "ReduceMax",
    ),
    "a size may be a symbol": (
        lambda: rule_of(
            lambda x, a: ops.reduce_mean(x, ops.const(a)),
            as_sum,
            when=single,
            rounding="-",
            examples=SINGLE,
        ),
        "make_symbolic",
    ),
    "a constant may vary": (
        lambda: rule_of(
            lambda x, c: x * ops.const(c),
            lambda x, c: x * data(c).reshape(-1)[:1].reshape(()),
            examples=[_factor()],
        ),
        "2 of 4 elements differ",
    ),
    "a tensor may be a scalar": (
        lambda: rule_of(
            lambda x: ops.neg(ops.neg(x)),
            lambda x: x,
            when=lambda x: require(x.shape[-1] != 7, "seven"),
            shares=True,
        ),
        "IndexError|the rank of value",
    ),
    "a node may stand in a branch": (
        lambda: rule_of(lambda x: ops.neg(ops.neg(x)), lambda x: x, when=at_the_top),
        "does not fire in branches",
    ),
    "constants are combined, not chosen": (
        lambda: rule_of(
            lambda x, a, b: ops.max(ops.max(x, ops.const(a)), ops.const(b)),
            lambda x, a: ops.max(x, a),
            examples=[{"x": (4,), "a": np.float32(5), "b": np.float32(1)}],
        ),
        "change_numbers",
    ),
}


def _axes(a: int, b: int) -> dict[str, Any]:
    return {"a": np.array([a]), "b": np.array([b])}


def _factor() -> dict[str, Any]:
    return {"x": (2, 2), "c": np.array([2.0, 1.0], dtype=np.float32)}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_found(name: str) -> None:
    make, message = WRONG[name]
    with pytest.raises(AssertionError, match=message):
        check_rule(make(), variants=2000)


def test_evidence_tells_what_a_rule_was_tried_on() -> None:
    evidence = check_rule(rule_of(lambda x: ops.neg(ops.neg(x)), lambda x: x))
    assert 0 < evidence.fired <= evidence.tried
    assert {
        "in branches",
        "in a loop",
        "with Constant nodes",
        "make_symbolic",
        "change_type",
    } <= evidence.changes.keys()
    assert str(evidence).startswith(
        f"{len(evidence.cases)} cases; fired on {evidence.fired} of {evidence.tried} variants"
    )


def test_a_rule_that_asks_for_an_unknown_shape_refuses() -> None:
    last = rule_of(
        lambda x: ops.neg(ops.neg(x)),
        lambda x: x,
        when=lambda x: require(x.shape[-1] == 4, "not four"),
    )
    graph = graph_of(ops.neg(ops.neg(Variable("x"))), x=TensorType(dtypes.float32, None))
    assert [e.reason for e in explain(last, graph)] == ["the rank of value 'x' is not known"]
