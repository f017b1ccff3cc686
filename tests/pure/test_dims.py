"""Symbolic dimensions against plain integers: whatever the algebra does, the numbers stay the
same.
"""

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from infuse.errors import GraphError, ShapeError
from infuse.ir import dim_text, dims, text as type_text
from infuse.ir.broadcasting import broadcast_shapes
from infuse.ir.dims import Dim, Expr, symbol
from infuse.ir.parser import parse_dim

settings.register_profile(
    "loaded machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("loaded machine")

NAMES = ("batch", "seq", "h")
Tree = Any  # int | str | (function name, Tree, Tree)
FUNCTIONS: dict[str, tuple[Callable[[Dim, Dim], Dim], Callable[[int, int], int]]] = {
    "+": (operator.add, operator.add),
    "-": (operator.sub, operator.sub),
    "*": (operator.mul, operator.mul),
    "//": (operator.floordiv, operator.floordiv),
    "%": (operator.mod, operator.mod),
    "max": (dims.maximum, max),
    "min": (dims.minimum, min),
}

leaves = st.one_of(st.integers(-4, 9), st.sampled_from(NAMES))
trees = st.recursive(
    leaves, lambda sub: st.tuples(st.sampled_from(list(FUNCTIONS)), sub, sub), max_leaves=8
)
values = st.fixed_dictionaries({name: st.integers(0, 12) for name in NAMES})
kinds = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])


def build(tree: Tree) -> Dim:
    """The dimension that a tree means; rejected where it divides by the number zero."""
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return symbol(tree)
    a, b = build(tree[1]), build(tree[2])
    assume(not (tree[0] in ("//", "%") and b == 0))
    return FUNCTIONS[tree[0]][0](a, b)


def number(tree: Tree, given: Mapping[str, int]) -> int:
    """The number that a tree means; rejected where it divides by zero."""
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return given[tree]
    a, b = number(tree[1], given), number(tree[2], given)
    assume(not (tree[0] in ("//", "%") and b == 0))
    return FUNCTIONS[tree[0]][1](a, b)


@given(trees, values)
def test_dimensions_are_what_their_integers_are(tree: Tree, given: dict[str, int]) -> None:
    expected = number(tree, given)
    assert dims.evaluate(build(tree), given) == expected


@given(trees, trees, values)
def test_quotients_round_up(a: Tree, b: Tree, given: dict[str, int]) -> None:
    x, y = build(a), build(b)
    assume(y != 0)
    size, divisor = number(a, given), number(b, given)
    assume(divisor > 0 or (isinstance(y, int) and divisor < 0))
    assert dims.evaluate(dims.ceildiv(x, y), given) == -(-size // divisor)


@given(trees)
def test_text_reads_back(tree: Tree) -> None:
    dim = build(tree)
    assert dim_text.parse(str(dim)) == dim


@given(trees, values, st.sampled_from(NAMES), trees)
def test_substitution_replaces_a_symbol_by_a_dimension(
    tree: Tree, given: dict[str, int], name: str, other: Tree
) -> None:
    replacement = number(other, given)
    assume(replacement >= 0)
    expected = number(tree, {**given, name: replacement})
    try:
        replaced = dims.substitute(build(tree), {name: build(other)})
    except ShapeError:
        return  # some divisor became the number zero, which `number` met only under other values
    assert dims.evaluate(replaced, given) == expected


@given(trees, trees, values)
def test_exact_division_is_exact(a: Tree, b: Tree, given: dict[str, int]) -> None:
    x, y = build(a), build(b)
    assume(y != 0)
    product, divisor = number(a, given) * number(b, given), number(b, given)
    quotient = dims.exact_divide(x * y, y)
    if quotient is not None and divisor:
        assert dims.evaluate(quotient, given) * divisor == product


@given(st.integers(-9, 9), st.integers(1, 3), st.sampled_from(NAMES), st.integers(1, 9))
def test_products_divide_by_their_factors(
    constant: int, power: int, name: str, factor: int
) -> None:
    polynomial = symbol("seq") * symbol("h") + constant
    term: Dim = factor
    for _ in range(power):
        term = term * symbol(name)
    assert dims.exact_divide(polynomial * term, term) == polynomial
    assert dims.exact_divide(polynomial * term, polynomial) == term


@given(kinds, trees, trees, values)
def test_comparisons_hold_for_all_sizes(kind: str, a: Tree, b: Tree, given: dict[str, int]) -> None:
    known = dims.compare(kind, build(a), build(b))
    if known is not None:
        assert known == dims.COMPARISONS[kind](number(a, given), number(b, given))


LIMITED = st.sampled_from([("min", 1, "seq"), ("min", 2, "seq"), ("min", 1, "h")])
shifted = st.tuples(st.just("+"), trees, st.tuples(st.sampled_from("+-"), LIMITED, leaves))


@given(shifted | trees, shifted | trees, values)
def test_sizes_that_are_always_equal_are(a: Tree, b: Tree, given: dict[str, int]) -> None:
    if dims.always_equal(build(a), build(b)):
        assert number(a, given) == number(b, given)


def test_sizes_are_compared_by_cases() -> None:
    seq, one = symbol("seq"), dims.minimum(1, symbol("seq"))
    assert dims.always_equal(dims.maximum(0, seq + one - 1), seq)
    assert dims.always_equal(one * one, one)
    assert not dims.always_equal(seq + one - 1, seq)
    assert not dims.always_equal(one, 1)
    assert not dims.always_equal(dims.floordiv(seq, one), symbol("h"))
    assert not dims.always_equal(dims.mod(seq, one) + seq, seq)


@given(trees, values)
def test_what_counts_as_a_size_is_never_negative(tree: Tree, given: dict[str, int]) -> None:
    if dims.is_nonnegative(build(tree)):
        assert number(tree, given) >= 0


C_FUNCTIONS = {
    "floor_div": lambda a, b: a // b,
    "floor_mod": lambda a, b: a % b,
    "max_long": max,
    "min_long": min,
}


@given(trees, values)
def test_c_text_means_the_same(tree: Tree, given: dict[str, int]) -> None:
    expected = number(tree, given)
    text = dim_text.c_text(build(tree), lambda name: f"size_{name}")
    variables = {f"size_{name}": value for name, value in given.items()}
    assert eval(re.sub(r"(\d)L\b", r"\1", text), {**C_FUNCTIONS, **variables}) == expected


@given(trees)
def test_equal_polynomials_are_equal_objects(tree: Tree) -> None:
    dim, other = build(tree), symbol("extra")
    assert (dim + other) - other == dim
    assert dim * 2 == dim + dim
    assert hash((dim + other) * (dim - other)) == hash(dim * dim - other * other)
    assert (dim + other) * (dim - other) == dim * dim - other * other
    assert dims.symbols(dim) <= set(NAMES)


BATCH, SEQ = symbol("batch"), symbol("seq")


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        ((SEQ + 1) // 2 * BATCH * 3, "3*batch*((seq + 1) // 2)"),
        (SEQ - SEQ, "0"),
        (4 * SEQ // 2, "2*seq"),
        ((4 * SEQ + 3) // 4, "seq"),
        ((BATCH * 12) % 4, "0"),
        (-SEQ, "-seq"),
        (BATCH * BATCH - 2, "batch*batch - 2"),
        (dims.maximum(SEQ, SEQ + 3), "seq + 3"),
        (dims.maximum(0, SEQ), "seq"),
        (dims.minimum(SEQ, 5), "min(5, seq)"),
        (dims.maximum(dims.minimum(SEQ, 5), SEQ), "seq"),
        (dims.minimum(dims.maximum(SEQ, BATCH), SEQ), "seq"),
        (dims.minimum(SEQ + 1, SEQ + dims.minimum(SEQ, 1)), "seq + min(1, seq)"),
        (dims.maximum(SEQ, SEQ + dims.minimum(SEQ, 1) - 1), "seq"),
        (dims.maximum(0, dims.maximum(SEQ - 1, 0) - SEQ), "0"),
        (dims.product([BATCH, SEQ, 768]), "768*batch*seq"),
    ],
)
def test_canonical_form(dim: Dim, text: str) -> None:
    assert str(dim) == text


def test_texts_that_are_no_expression_are_symbols() -> None:
    for text in ("unk__0", "sequence length", "a b + 1", "f(x, y)", "1.5", "x ** 2", "", "lambda"):
        assert dim_text.parse(text) == symbol(text)
    assert dim_text.parse("MAX(a, 3)") == dims.maximum(symbol("a"), 3)
    assert dim_text.parse(" 7 ") == 7


def test_unknown_sizes_refuse_to_be_numbers() -> None:
    with pytest.raises(ShapeError, match="before run time"):
        range(SEQ)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="before run time"):
        bool(SEQ)
    with pytest.raises(ShapeError, match="needs values for seq"):
        dims.evaluate(SEQ + BATCH, {"batch": 1})
    with pytest.raises(ShapeError, match="by zero"):
        SEQ // 0
    with pytest.raises(ShapeError, match="by zero"):
        dims.mod(SEQ, 0)
    with pytest.raises(TypeError):
        SEQ + 1.5  # type: ignore[operator]


def test_names_in_use_are_known() -> None:
    assert not dims.is_used("never_made")
    assert isinstance(symbol("made_now"), Expr)
    assert dims.is_used("made_now")


def test_sizes_may_be_nested_deep() -> None:
    size, again, doubled = (dims.symbol("n") for _ in range(3))
    for step in range(2000):
        size, again = (dims.maximum((each + 3) // 2 * 3 - step, 7) for each in (size, again))
        doubled = (doubled + 3) // 2 - doubled % 5
        if step == 40:
            assert parse_dim(type_text.dim_text(size)) == size
            assert dims.compare(">=", size, 0) is True
            assert dims.evaluate(dims.floordiv(size, 2), {"n": 1000}) >= 3
    assert size == again
    assert hash(size) == hash(again)
    assert dims.symbols(doubled) == {"n"}
    assert dims.compare(">=", size, 7) is True
    assert isinstance(dims.substitute(doubled, {"n": dims.symbol("k")}), dims.Expr)
    with pytest.raises(GraphError, match="too long to be written"):
        type_text.dim_text(doubled)


def test_a_limited_size_is_replaced_where_two_sizes_are_equal() -> None:
    past, length = dims.symbol("past"), dims.symbol("length")
    limited = dims.minimum(64, past + length)
    rows = dims.maximum(limited - past, 0)
    assert dims.replace(rows, limited, past + length) == length
    assert dims.replace(rows, past + length, 3) == rows
    assert broadcast_shapes((rows, limited), (length, past + length)) == (length, past + length)
