"""Every operator × its samples × element types, compiled, against `eval`; many cases share one
library.
"""

import numpy as np
import pytest

from infuse import ops
from infuse.ops.core.base import EXACT, Elementwise, Op, Rounding
from infuse.testing.samples import Row, is_constant
from tests.native.kernel_tools import targets
from tests.native.op_cases import (
    ALSO,
    CONVOLUTIONS,
    GROUPS,
    NOT_NATIVE,
    OPS,
    PARTLY_NATIVE,
    Case,
    cases,
    check,
    members,
    name,
    native_cases,
    plain_rows,
    problem_of,
    refusal,
)
from tests.support.emulation import NEWEST


@pytest.mark.parametrize("op", OPS, ids=name)
def test_refusals_are_known(op: type[Op]) -> None:
    """In every row of an operator of which some are refused, and in some of all others."""
    check_refusals(op, full=op.name in {*NOT_NATIVE, *PARTLY_NATIVE})


@pytest.mark.full
@pytest.mark.parametrize("op", OPS, ids=name)
def test_refusals_are_known_in_every_row(op: type[Op]) -> None:
    check_refusals(op, full=True)


def check_refusals(op: type[Op], full: bool) -> None:
    every_case = list(cases(op, full))
    refused = [(case, why) for case in every_case if (why := refusal(case)) is not None]
    every = len(refused) == len(every_case)
    allowed = NOT_NATIVE.get(op.name) or PARTLY_NATIVE.get(op.name)
    assert every == (op.name in NOT_NATIVE), (
        "an operator that has become native leaves the list NOT_NATIVE"
    )
    assert bool(refused) == (allowed is not None), (
        "an operator that is native altogether leaves PARTLY_NATIVE"
    )
    for case, why in refused:
        assert allowed is not None
        assert allowed in why or ALSO.get(op.name, allowed) in why, f"{case}: {why}"


def test_every_operator_is_in_a_group() -> None:
    assert {op for group in GROUPS for op in members(group)} == {
        op for op in OPS if op.name not in NOT_NATIVE
    }


@pytest.mark.parametrize("group", GROUPS)
def test_operators_agree_with_their_meaning(group: str) -> None:
    check(native_cases(members(group), full=False))


@pytest.mark.full
@pytest.mark.parametrize("target", targets(("x86-64-v4", NEWEST)))
@pytest.mark.parametrize("group", GROUPS)
def test_operators_agree_with_their_meaning_in_every_row(group: str, target: str) -> None:
    check(native_cases(members(group), full=True), target, threads=2)


SUBSET = (
    *(
        "Add",
        "Gelu",
        "Where",
        "Cast",
        "Conv",
        "MatMul",
        "AveragePool",
        "Softmax",
        "LayerNormalization",
        "ReduceSum",
    ),
    *("ArgMax", "Attention", "Transpose", "Gather"),
)


@pytest.mark.parametrize("target", [name for name in targets((NEWEST,)) if name != "native"])
def test_operators_agree_on_other_targets(target: str) -> None:
    check(
        [case for op in OPS if op.name in SUBSET for case in native_cases([op], full=False)[:3]],
        target,
    )


@pytest.mark.parametrize("half", [0, 1], ids=["half of them", "the others"])
def test_operators_agree_when_sizes_are_symbols(half: int) -> None:
    every = [
        case for op in OPS if op.name not in NOT_NATIVE for case in symbolic_cases(op)[half::5][:1]
    ]
    chosen = [case for case in every if refusal(case) is None]
    assert len(chosen) > 0.9 * len(every)
    check(chosen)


def symbolic_cases(op: type[Op]) -> list[Case]:
    """The rows with a symbol for every size that a model may leave open."""
    found = []
    for row in plain_rows(op, full=False):
        held = tuple(
            is_constant(row, i) or (op.name in CONVOLUTIONS and i > 0)
            for i in range(len(row.inputs))
        )
        found.append(
            Case(
                row, (False,) * len(held) if issubclass(op, Elementwise) else held, 1, symbolic=True
            )
        )
    return found


@pytest.mark.full
@pytest.mark.parametrize("group", GROUPS)
def test_operators_agree_in_every_row_when_sizes_are_symbols(group: str) -> None:
    every = [case for op in members(group) for case in symbolic_cases(op)]
    check([case for case in every if refusal(case) is None], threads=2)


def test_comparison_catches_a_wrong_result() -> None:
    row = Row(ops.REGISTRY["", "Neg"](), (np.float32([1, 2]),), (False,))
    assert problem_of(row, 0, np.float32([-1, -2])) is None
    assert problem_of(row, 0, np.float32([-1, 2]))
    assert problem_of(row, 0, np.float64([-1, -2]))
    assert row.op.accuracy == EXACT == Rounding(ulp=0)
