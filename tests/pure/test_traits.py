"""Traits of operators hold for all of their samples, as NumPy computes them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from infuse.ops.core.base import REGISTRY, Op
from infuse.ops.core.traits import Trait
from infuse.testing.samples import Row, results, rows

Array = np.ndarray[Any, Any]


def stated(trait: Trait) -> Any:
    """Every operator with the trait, as parameters of a test."""
    classes = [op for _, op in sorted(REGISTRY.items()) if trait in op.traits]
    return pytest.mark.parametrize("op", classes, ids=lambda op: f"{op.domain}::{op.name}")


def samples(op: type[Op]) -> Iterator[tuple[Row, Array, tuple[Any, ...]]]:
    """A row, its first operand and its results."""
    some = False
    for row in rows(op, np.random.default_rng(1)):
        first = row.inputs[0]
        if isinstance(first, np.ndarray):
            some = True
            yield row, first, results(row)
    assert some


def elements(array: Array) -> set[str]:
    """All elements as texts: NaN equals NaN, and −0 is not 0."""
    return {repr(x) for x in array.ravel().tolist()}


def numbers(array: Array) -> Array:
    return array.astype(np.float64)


def is_float(array: Array) -> bool:
    return array.dtype.kind not in "iubOUS"


@pytest.mark.parametrize("trait", list(Trait), ids=lambda trait: trait.name)
def test_every_trait_is_stated_somewhere(trait: Trait) -> None:
    assert any(trait in op.traits for op in REGISTRY.values())


def test_families_have_the_traits_of_their_base() -> None:
    sums = REGISTRY["", "ReduceLogSum"]
    assert Trait.FLOAT32 in sums.traits
    assert Trait.TOTAL not in sums.traits


@stated(Trait.RESHAPE)
def test_elements_stay_in_order(op: type[Op]) -> None:
    for _, x, (y, *_) in samples(op):
        np.testing.assert_array_equal(y.ravel(), x.ravel())


@stated(Trait.MOVEMENT)
def test_all_elements_come_from_the_first_operand(op: type[Op]) -> None:
    for _, x, parts in samples(op):
        for part in parts:
            assert elements(np.asarray(part)) <= elements(x)


@stated(Trait.NONNEGATIVE)
def test_nothing_is_less_than_zero(op: type[Op]) -> None:
    for _, x, (y, *_) in samples(op):
        assert not is_float(x) or not (numbers(y) < 0).any()


@stated(Trait.ODD)
def test_a_negated_operand_negates_the_result(op: type[Op]) -> None:
    for row, x, (y, *_) in samples(op):
        np.testing.assert_array_equal(results(replace(row, inputs=(-x,)))[0], -y)


@stated(Trait.IDEMPOTENT)
def test_twice_is_once(op: type[Op]) -> None:
    for row, _, (y, *_) in samples(op):
        np.testing.assert_array_equal(results(replace(row, inputs=(y,)))[0], y)


@stated(Trait.FINITE)
def test_finite_operands_give_no_nan(op: type[Op]) -> None:
    for row, _, (y, *_) in samples(op):
        operands = [x for x in row.inputs if isinstance(x, np.ndarray)]
        if all(x.dtype.kind in "iubf" and np.isfinite(x).all() for x in operands):
            assert y.dtype.kind in "iub" or not np.isnan(numbers(y)).any()


@stated(Trait.PER_IMAGE)
def test_an_image_alone_gives_its_own_result(op: type[Op]) -> None:
    for row, x, (y, *_) in samples(op):
        for image in range(len(x)):
            own = replace(row, inputs=(x[image : image + 1], *row.inputs[1:]))
            alone = numbers(results(own)[0])
            np.testing.assert_allclose(
                alone, numbers(y[image : image + 1]), rtol=1e-3, atol=1e-4
            )  # sums of another length may be split otherwise


@stated(Trait.HOMOGENEOUS)
def test_positive_factors_go_through(op: type[Op]) -> None:
    for row, x, (y, *_) in samples(op):
        if is_float(x) and np.isfinite(numbers(x)).all():
            scaled = results(replace(row, inputs=(x * x.dtype.type(4), *row.inputs[1:])))[0]
            np.testing.assert_allclose(numbers(scaled), 4 * numbers(y), rtol=1e-5, atol=1e-6)
