"""Every operator × its samples: types, meaning and formula hold against each other and against
ONNX's own word.
"""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx.defs
import pytest

from infuse import dtypes, ops
from infuse.ir import dims
from infuse.ir.types import MapType, OptionalType, SequenceType, TensorType, Type
from infuse.ops.core.base import Elementwise, Op, Rounding
from infuse.ops.core.formula import E, inputs
from infuse.testing import reference
from infuse.testing.compare import assert_agrees
from infuse.testing.samples import Row, node_of, results, rows, type_of
from tests.pure.oracles import ORACLES
from tests.support.formulas import interpret

OPS = [op for _, op in sorted(ops.REGISTRY.items())]
SAMPLED = [op for op in OPS if op.samples]
# Operators that no table row can describe, and where they are tested.
NO_SAMPLES = {
    **dict.fromkeys(("If", "Loop", "Scan", "SequenceMap"), "test_control.py"),
    "ai.onnx.preview::FlexAttention": "test_array_operators.py",
    "ai.onnx.preview.training::Gradient": "test_training.py",
}
IN_ONNX = [op for op in SAMPLED if onnx.defs.has(op.name, op.domain)]
# ONNX Runtime's own operators, whose witness is the runtime: tests/models/test_microsoft.py.
RUNTIMES = [op for op in SAMPLED if op.__module__.startswith("infuse.ops.domains.microsoft")]
FLOATS = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)


def name(op: type[Op]) -> str:
    return f"{op.domain}::{op.name}" if op.domain else op.name


def table(op: type[Op]) -> Iterator[Row]:
    """The rows of an operator, its attributes rounded to float32 as ONNX stores them."""
    for row in rows(op, np.random.default_rng(1)):
        numbers = {
            k: float(np.float32(v)) for k, v in row.op.attributes().items() if isinstance(v, float)
        }
        yield dataclasses.replace(row, op=row.op.replace(**numbers))


def typed(op: type[Op]) -> Iterator[Row]:
    """The rows, and those of random floats in the other floating types."""
    for row in table(op):
        yield row
        if row.has_random_floats:
            yield from (row.cast(dtype) for dtype in FLOATS[1:])


def widened(row: Row) -> Row:
    """The same numbers in float64."""

    def wide(x: Any) -> Any:
        if isinstance(x, list):
            return [wide(one) for one in x]
        floating = isinstance(x, np.ndarray) and dtypes.by_numpy(x.dtype).is_float
        return x.astype(np.float64) if floating else x

    return dataclasses.replace(row, inputs=tuple(map(wide, row.inputs)))


@pytest.mark.parametrize("op", [op for op in OPS if name(op) not in NO_SAMPLES], ids=name)
def test_operator_is_described(op: type[Op]) -> None:
    assert op.samples, "an operator needs samples"
    assert op.__doc__, "an operator needs a docstring"
    assert not op.__doc__.startswith(f"{op.__name__}("), "a docstring of its own"
    assert list(table(op))


@pytest.mark.parametrize("op", SAMPLED, ids=name)
def test_inference_agrees_with_evaluation(op: type[Op]) -> None:
    for row in typed(op):
        found = results(row)
        for inferred, actual in zip(
            row.op.infer_types(node_of(row, outputs=len(found))), found, strict=True
        ):
            assert fits(inferred, type_of(actual, inferred)), (
                f"{row}: inferred {inferred}, got {type_of(actual)}"
            )


def fits(inferred: Type, actual: Type) -> bool:
    """Whether a value of type `actual` is one of type `inferred`; unknown sizes fit every size."""
    if isinstance(inferred, SequenceType) and isinstance(actual, SequenceType):
        return fits(inferred.element, actual.element)
    if isinstance(inferred, OptionalType) and isinstance(actual, OptionalType):
        return fits(inferred.element, actual.element)
    if isinstance(inferred, MapType) and isinstance(actual, MapType):
        return inferred.key == actual.key and fits(inferred.element, actual.element)
    if not isinstance(inferred, TensorType) or not isinstance(actual, TensorType):
        return type(inferred) is type(actual)
    if inferred.dtype != actual.dtype or inferred.shape is None or actual.shape is None:
        return inferred.dtype == actual.dtype
    if len(inferred.shape) != len(actual.shape):
        return False
    return all(isinstance(d, dims.Expr) or d == n for d, n in zip(inferred.shape, actual.shape))


@pytest.mark.parametrize("distinct", [False, True], ids=["equal sizes share", "all sizes differ"])
@pytest.mark.parametrize("op", SAMPLED, ids=name)
def test_symbolic_inference_agrees_with_static(op: type[Op], distinct: bool) -> None:
    for row in table(op):
        static = row.op.infer_types(node_of(row, outputs=len(results(row))))
        symbolic, sizes = symbols_for(row, distinct)
        found = row.op.infer_types(node_of(row, symbolic, outputs=len(static)))
        for one, other in zip(found, static, strict=True):
            assert fits(settle(one, sizes), other), (
                f"{row}: with symbols {one}, with numbers {other}"
            )


def symbols_for(row: Row, distinct: bool) -> tuple[list[Type | None], dict[str, int]]:
    """Types with a symbol for every size but one, and the symbols' values."""
    sizes: dict[str, int] = {}

    def symbolic(type: Type, number: int) -> Type:
        if isinstance(type, SequenceType):
            return SequenceType(symbolic(type.element, number))
        if not isinstance(type, TensorType) or type.shape is None:
            return type
        shape: list[dims.Dim] = []
        for axis, size in enumerate(type.shape):
            assert isinstance(size, int)
            label = f"s{number}_{axis}" if distinct else f"n{size}"
            if size > 1:
                sizes[label] = size
            shape.append(dims.symbol(label) if size > 1 else size)
        return TensorType(type.dtype, tuple(shape))

    types = [None if x is None else symbolic(type_of(x), i) for i, x in enumerate(row.inputs)]
    return list(types), sizes


def settle(type: Type, sizes: dict[str, int]) -> Type:
    """`type` with the symbols' values; fresh symbols stay."""
    if isinstance(type, TensorType):
        return type.substitute(sizes)
    return dataclasses.replace(type, element=settle(type.element, sizes))


@pytest.mark.parametrize("op", IN_ONNX, ids=name)
def test_inference_agrees_with_onnx(op: type[Op]) -> None:
    for row in table(op):
        outputs = wanted(row, len(results(row)))
        ours = row.op.infer_types(node_of(row, outputs=len(outputs)))
        chosen = itertools.compress(ours, outputs)
        for one, other in zip(chosen, reference.inferred(row, outputs), strict=True):
            assert other is None or fits(one, other), f"{row}: inferred {one}, ONNX says {other}"


def wanted(row: Row, outputs: int) -> list[bool]:
    """Which outputs ONNX gives for this row: Attention gives no present keys where it is told the
    valid ones.
    """
    told = row.op.name == "Attention" and len(row.inputs) == 7
    return [not (told and i in (1, 2)) for i in range(outputs)]


@pytest.mark.parametrize(
    "op", [op for op in SAMPLED if op.deterministic and op not in RUNTIMES], ids=name
)
def test_evaluation_agrees_with_the_exact_result(op: type[Op]) -> None:
    for row in typed(op):
        found = results(row)
        outputs = wanted(row, len(found))
        oracle = ORACLES.get(op.name)
        assert oracle or op in IN_ONNX, "an operator that ONNX does not know needs an oracle"
        exact = oracle(widened(row)) if oracle else reference.evaluate(widened(row), outputs)
        for number, (actual, expected) in enumerate(
            zip(itertools.compress(found, outputs), exact, strict=True)
        ):
            compare(actual, expected, op.accuracy, f"{row} output {number}")


def compare(actual: Any, exact: Any, accuracy: Rounding, what: str) -> None:
    if isinstance(actual, dict):
        assert actual == exact, what
        return
    if not isinstance(actual, list):
        assert_agrees(actual, exact, accuracy, what)
        return
    assert len(actual) == len(exact), what
    for one, other in zip(actual, exact):
        assert_agrees(one, other, accuracy, what)


WITHOUT_FORMULA = (
    *("ChangeText", "FormatNumber", "HashText", "MissingText", "RegexFullMatch", "ReplaceText"),
    *("StringConcat", "SubText", "TextBucket", "TextLength"),
)
"""Texts have no arithmetic."""


@pytest.mark.parametrize(
    "op",
    [op for op in SAMPLED if issubclass(op, Elementwise) and op.name not in WITHOUT_FORMULA],
    ids=name,
)
def test_formula_agrees_with_evaluation(op: type[Elementwise]) -> None:
    for row in typed(op):
        arrays = [x for x in row.inputs if x is not None]
        leaves = iter(inputs(*(dtypes.by_numpy(x.dtype) for x in arrays)))
        term = row.op.scalar(E, *(None if x is None else next(leaves) for x in row.inputs))  # type: ignore[attr-defined]
        (exact,) = results(widened(row))
        (actual,) = results(row)
        found = np.broadcast_to(interpret(term, arrays), actual.shape)
        assert found.dtype == actual.dtype, f"{row}: the formula has type {found.dtype}"
        assert_agrees(found, exact, op.accuracy, f"formula of {row}")
