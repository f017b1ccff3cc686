"""Constants that a rule puts together: numbers that round on purpose, cancel each other, or leave
the type's range.
"""

from __future__ import annotations

import itertools
import zlib

import numpy as np
import pytest

import infuse
from infuse import dtypes
from infuse.ir.clone import clone
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.parser import parse
from infuse.ops.arithmetic import Add, Mul
from infuse.ops.core.evaluate import evaluate
from infuse.passes.rules import ALL_RULES
from infuse.passes.rules.cleanup.merging import BLOCK, require_sum
from infuse.passes.run import optimize_in_place
from infuse.passes.selection import Selection
from infuse.rewrite import Driver, Refusal, Rule
from infuse.testing import rule_cases

MAGIC = 1.5 * 2.0**23
"""Added and taken off again, it rounds float32 to integers."""
NUMBERS = (MAGIC, 2.0**24, 3072.0, 1.0, 0.3, 1e30, 1e-30, 1e-40, -0.0, np.inf, np.nan)
TRIALS = 40
TOLERANCE = 5e-3
"""Of the largest element: far more than rounding in another order explains."""


def constants(graph: Graph) -> list[Value]:
    """The float constants of a graph that its nodes read."""
    read = dict.fromkeys(v for node in graph.nodes for v in node.operands())
    return [v for v in read if v.const is not None and v.dtype.is_float and v.const.size]


def with_numbers(graph: Graph, rng: np.random.Generator) -> Graph:
    """A copy with two adversarial constants, often opposites or reciprocals; then also taken off
    its results.
    """
    result = clone(graph)
    number = float(rng.choice(NUMBERS))
    other = float(
        rng.choice(
            [-number, number, 1 / number if number else 0.0, 1 - number, rng.choice(NUMBERS)]
        )
    )
    some = constants(result)
    for value, each in zip(rng.permutation(np.asarray(some, dtype=object))[:2], (number, other)):
        array = np.full(value.const.shape, each)
        if value.const.size > 1 and rng.random() < 0.3:
            array.reshape(-1)[1:] = value.const.reshape(-1)[1:]
        with np.errstate(over="ignore"):
            value.const = array.astype(value.const.dtype)
    if rng.random() < 0.5:
        _undo(result, float(rng.choice([number, other])), "Mul" if rng.random() < 0.3 else "Add")
    return result


def _undo(graph: Graph, number: float, kind: str) -> None:
    """Add a number to the results, or multiply by it, and undo that again."""
    back = -number if kind == "Add" else 1 / number if number else 1.0
    for index, output in enumerate(list(graph.outputs)):
        value = output
        for each in (number, back):
            if value.dtype.is_float and np.isfinite(each):
                with np.errstate(over="ignore"):
                    operand = constant(np.asarray(each).astype(value.dtype.numpy))
                node = Node(
                    Add() if kind == "Add" else Mul(),
                    [value, operand],
                    [Value(value.type, "undone")],
                )
                value = graph.add_node(node).output
        graph.set_operand(index, value)


def agree(before: Graph, after: Graph, feeds: dict[str, np.ndarray]) -> str:
    """How the results of finite inputs and constants differ, empty where they do not."""
    finite = all(
        np.isfinite(v.const.astype(np.float64)).all()
        for v in constants(before)
        if v.const is not None
    )
    with np.errstate(all="ignore"):
        expected, found = evaluate(before, feeds), evaluate(after, feeds)
    for name, one in expected.items():
        if not infuse.dtypes.by_numpy(one.dtype).is_float:
            continue
        first, second = one.astype(np.float64), found[name].astype(np.float64)
        held = np.isfinite(first)
        if finite and not (np.isfinite(second) == held).all():
            return (
                f"{name} is not finite in one of them: {first.reshape(-1)[:4]}, "
                f"{second.reshape(-1)[:4]}"
            )
        if finite and held.any():
            apart = np.abs(first[held] - second[held]).max()
            if not apart <= TOLERANCE * np.abs(first[held]).max():
                return f"{name}: {first.reshape(-1)[:4]} became {second.reshape(-1)[:4]}"
    return ""


MERGING = [rule for rule in ALL_RULES if rule.rounding and not rule.opt_in]


@pytest.mark.row("G26")
@pytest.mark.parametrize("rule", MERGING, ids=lambda rule: rule.name)
def test_a_rule_merges_no_constants_that_round_or_overflow(rule: Rule) -> None:
    rng = np.random.default_rng(zlib.crc32(rule.name.encode()))
    cases = [case for case in rule_cases.cases(rule, rng) if constants(case.graph)]
    for case, _ in itertools.product(cases, range(max(1, TRIALS // max(len(cases), 1)))):
        graph = with_numbers(case.graph, rng)
        alone = clone(graph)
        driver = Driver([rule])
        driver.run(alone)
        if driver.report.fired[rule.name]:
            assert not (why := agree(graph, alone, case.feeds)), f"{case}: {why}\n{graph}"
        level = str(rng.choice(["basic", "extended", "all"]))
        whole = clone(graph)
        report = optimize_in_place(whole, Selection(level, runtime=rule.runtime))
        assert not (why := agree(graph, whole, case.feeds)), (
            f"{case} at {level}: {why}\n{dict(report.fired)}\n{graph}"
        )


LINEAR = {
    "x": ("Identity(%x)", "1"),
    "convolution": ("Conv(%x, float32[3, 2, 1, 1]{1.0, 2.0, 0.5, -1.0, 0.25, 1.5})", "3, 1, 1"),
    "convolution with a bias": (
        (
            "Conv(%x, float32[3, 2, 1, 1]{1.0, 2.0, 0.5, -1.0, 0.25, 1.5}, float32[3]{0.5, 0.25, "
            "-1.0})"
        ),
        "3, 1, 1",
    ),
    "matrix": ("MatMul(%m, float32[2, 3]{1.0, 2.0, 0.5, -1.0, 0.25, 1.5})", "3"),
    "Gemm": (
        "Gemm(%m, float32[2, 3]{1.0, 2.0, 0.5, -1.0, 0.25, 1.5}, float32[3]{0.5, 0.25, -1.0})",
        "3",
    ),
    "BatchNormalization": (
        (
            "BatchNormalization(%x, float32[2]{1.0, 2.0}, float32[2]{0.5, 1.0}, "
            "float32[2]{0.1, 0.2}, "
            "float32[2]{1, 2})"
        ),
        "2, 1, 1",
    ),
    "InstanceNormalization": (
        "InstanceNormalization(%x, float32[2]{1.0, 2.0}, float32[2]{0.5, 1.0})",
        "2, 1, 1",
    ),
    "LayerNormalization": (
        "LayerNormalization(%m, float32[2]{1.0, 2.0}, float32[2]{0.5, 1.0})",
        "2",
    ),
    "table": ("Gather(float32[3, 2]{0.1, 1.2, 2.3, 3.4, 4.5, 5.6}, %i)", "2"),
    "mean": ("ReduceMean(%x, int64[2]{2, 3})", "1"),
    "sum": ("ReduceSum(%x, int64[1]{3})", "1"),
    "pool": ("AveragePool(%x, kernel_shape=(2, 2), strides=(2, 2))", "2, 1, 1"),
}
PAIRS = {
    "round": ("Add", 12582912.0, "Sub", 12582912.0),
    "round with a zero point": ("Add", 12583040.0, "Sub", 12582912.0),
    "round to 1/256": ("Add", 49152.0, "Sub", 49152.0),
    "what rounding leaves": ("Add", 2048.0, "Add", -2048.0),
    "overflow": ("Mul", 1e30, "Mul", 1e-30),
    "underflow": ("Mul", 1e-30, "Mul", 1e30),
    "quotients": ("Div", 1e30, "Div", 1e-30),
    "a quotient and a product": ("Div", 1e25, "Mul", 1e25),
}


@pytest.mark.row("G26")
def test_a_chain_of_large_constants_is_not_merged_step_by_step() -> None:
    """b + c cancel nothing, and their sum cancels but half of itself with d."""
    big = 2.0**24
    chain = (("p", "x", -big), ("q", "p", big), ("r", "q", big), ("s", "r", -big))
    steps = [f"%{name} = Add(%{of}, float32[]{{{number!r}}})" for name, of, number in chain]
    graph = parse('graph "g" (%x: float32[4]) {\n' + "\n".join(steps) + "\n return s = %s\n}")
    feeds = {"x": np.array([2.3, 0.1, -0.9, 2.97], np.float32)}
    for level in ("basic", "extended", "all"):
        whole = clone(graph)
        optimize_in_place(whole, Selection(level))
        assert not agree(graph, whole, feeds)
        assert evaluate(whole, feeds)["s"].tolist() == [2, 0, 0, 4]


@pytest.mark.row("G26")
@pytest.mark.parametrize("whole", [False, True], ids=["number", "each"])
@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("linear", LINEAR)
def test_what_rounds_or_overflows_on_the_way_still_does(
    linear: str, pair: str, before: bool, whole: bool
) -> None:
    call, shape = LINEAR[linear]
    (one, a, two, b) = PAIRS[pair]
    count = int(np.prod([int(n) for n in shape.split(",")])) if whole and not before else 1
    kind = f"float32[{shape if count > 1 else ''}]"
    first, second = (kind + "{" + ", ".join([repr(n)] * count) + "}" for n in (a, b))
    fed = {"%x": "x: float32[2, 2, 4, 4]", "%m": "m: float32[5, 2]", "%i": "i: int64[4]"}
    name = next(name for name in fed if f"({name}" in call or f" {name}" in call)
    if before and name == "%i":
        pytest.skip("indices are not rounded")
    steps = [f"%q = {call.replace(name, '%s')}"] if before else [f"%s = {call}"]
    start, end = (name, "%s") if before else ("%s", "%q")
    both = [f"%r = {one}({start}, {first})", f"{end} = {two}(%r, {second})"]
    lines = [*both, *steps] if before else [*steps, *both]
    graph = parse(f'graph "g" (%{fed[name]}) {{\n' + "\n".join(lines) + "\n return q = %q\n}")
    rng = np.random.default_rng(0)
    scale = 1e12 if one != "Add" and "under" not in pair else 1e-12 if one == "Mul" else 3.0
    feeds: dict[str, np.ndarray] = {
        "x": (rng.standard_normal((2, 2, 4, 4)) * scale).astype(np.float32),
        "m": (rng.standard_normal((5, 2)) * scale).astype(np.float32),
        "i": np.array([0, 2, 1, 0]),
    }
    feeds = {name[1:]: feeds[name[1:]]}
    for level in ("basic", "extended", "all"):
        better = infuse.optimize(graph, level)
        assert not (why := agree(graph, better, feeds)), f"{level}: {why}\n{better}"
    better = infuse.optimize(graph, infuse.Rules("all", search=2))
    assert not (why := agree(graph, better, feeds)), f"search: {why}\n{better}"


@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("shape", [(3 * BLOCK,), (1, 1, 3 * BLOCK), (5, 7, BLOCK)], ids=str)
def test_one_element_of_a_large_table_is_noticed_wherever_it_is(
    shape: tuple[int, ...], place: int
) -> None:
    table = np.full(shape, 0.25)
    require_sum(table, np.ones(shape[-1]), dtypes.float32)
    table.reshape(-1)[place] = 2.0**20
    require_sum(table, np.ones(shape[-1]), dtypes.float32)
    with pytest.raises(Refusal, match="cancel each other"):
        require_sum(table, np.full(shape[-1], -(2.0**20)), dtypes.float32)
