"""Closed functions: what differs between two models of one kind is an argument."""

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from infuse import dtypes
from infuse.build.staged import generate
from infuse.ir import dims
from infuse.ir.graph import Graph
from infuse.ir.parser import parse
from infuse.lowering.memory import Plan
from infuse.lowering.program import Program
from infuse.ops.core.feeds import drawing_nodes
from infuse.targets import Target
from infuse.targets.cpu.closed.collection import Collection
from infuse.targets.cpu.closed.fusing import fused
from infuse.targets.cpu.closed.hoisting import closed_call, has_work
from infuse.targets.cpu.closed.parts import WorkArgument
from infuse.targets.cpu.closed.program import (
    ClosedProgram,
    closed_program,
    usual_elements,
    usual_functions,
)
from infuse.targets.cpu.closed.words import Terms, Words, bits
from infuse.targets.cpu.closed.work import Apply
from tests.support.generators.networks import random_network

TARGET = Target.resolve("x86-64-v3")
NUMBERS = re.compile(r"(?<!\w)(?:\d+(?:u?LL?|f)\b|\d+\.\d|0x[0-9a-f.]+p)")
pytestmark = pytest.mark.row("X1")


def lowered(graph: Graph) -> tuple[Program, Plan]:
    return generate(graph, TARGET, 2)


def closed(text: str) -> ClosedProgram:
    return closed_program(*lowered(parse(text)))


def network(rows: str, columns: int, scale: float, slope: float) -> str:
    weights = ", ".join(["0.5"] * (8 * columns))
    return f"""graph "net" (%x: float32[{rows}, 8], %y: float32[3, {columns}]) {{
      %a = MatMul(%x, float32[8, {columns}]{{{weights}}})
      %b = Mul(%a, float32[]{{{scale}}})
      %c = LeakyRelu(%b, alpha={slope})
      %d = Softmax(%y, axis=-1)
      %e = Transpose(%d, perm=(1, 0))
      %f = CumSum(%e, int64[]{{1}})
      return c = %c, f = %f
    }}"""


def test_models_of_other_sizes_and_numbers_call_the_same_functions() -> None:
    one = closed(network("4", 6, 0.37, 0.1))
    for other in (network("9", 7, -1.9, 0.3), network("n", 33, 1e-9, 2.5)):
        assert set(closed(other).functions) == set(one.functions)
        assert set(closed(other).elements) == set(one.elements)


def test_what_follows_a_product_is_no_part_of_its_function() -> None:
    plain = closed(network("4", 6, 0.37, 0.1).replace("LeakyRelu(%b, alpha=0.1)", "Erf(%b)"))
    assert set(plain.functions) == set(closed(network("4", 6, 0.37, 0.1)).functions)


@pytest.mark.parametrize("seed", range(12))
def test_functions_of_random_networks_have_no_numbers(seed: int) -> None:
    graphs = (random_network(number).graph for number in itertools.count(seed, 12))
    graph = next(graph for graph in graphs if not any(drawing_nodes(graph)))  # these run native
    functions = Collection()
    functions.add(*lowered(graph))
    for name, text in functions.sources("").items():
        if name.startswith("functions_"):
            for body in re.findall(r"^static inline long open_.*?^}", text, re.M | re.S):
                assert not NUMBERS.findall(body), body


def test_zeros_of_both_signs_are_two_numbers() -> None:
    words = {bits(value, dtypes.float32) for value in (0.0, -0.0, float("nan"), float("inf"))}
    assert len(words) == 4
    both = closed(
        """graph "net" (%x: float32[5]) {
          %a = Max(%x, float32[]{0.0})
          %b = Max(%a, float32[]{-0.0})
          return b = %b
        }"""
    )
    content = np.frombuffer(both.content, np.int64, len(both.content) // 8)
    assert bits(-0.0, dtypes.float32) in content


def test_terms_are_what_sizes_are() -> None:
    n, m = dims.symbol("n"), dims.symbol("m")
    sizes = [7, n, n * m + 3, dims.floordiv(n * m + 5, m), dims.maximum(n, m) - n * n * 2]
    terms = Terms(["n", "m"], known=1)
    numbers = [terms.number(size) for size in sizes]
    assert numbers == [*range(len(sizes))]
    assert terms.number(n * m + 3) == 2
    words = Words()
    terms.write(words)
    content = np.frombuffer(words.content()[:-1], np.int64)[4:]
    assert content[0] == len(sizes)
    at = 1
    for size in sizes:
        late, length = content[at : at + 2]
        code = content[at + 2 : at + 2 + length]
        assert bool(late) == (not isinstance(size, int) and "m" in dims.symbols(size))
        assert evaluated(code, [11, 4]) == dims.evaluate(size, {"n": 11, "m": 4})
        at += 2 + length


def evaluated(code: np.ndarray[Any, Any], symbols: list[int]) -> int:
    """What the machine of kernels/program_file.hpp makes of a term."""
    operations: dict[int, Callable[[int, int], int]] = {
        2: int.__add__,
        3: int.__mul__,
        4: int.__floordiv__,
        5: int.__mod__,
        6: max,
        7: min,
    }
    stack: list[int] = []
    words = iter(map(int, code))
    for word in words:
        if word in (0, 1):
            value = next(words)
            stack.append(symbols[value] if word else value)
            continue
        b, a = stack.pop(), stack.pop()
        stack.append(operations[word](a, b))
    (result,) = stack
    return result


def in_text(text: str) -> set[str]:
    """The functions with elementwise work in their text."""
    return set(usual_functions(lowered(parse(text))[0]))


def product(*steps: str) -> str:
    return f"""graph "net" (%x: float32[n, 8], %g: float32[n, 6]) {{
      %a = MatMul(%x, float32[8, 6]{{{", ".join(["0.5"] * 48)}}})
      {" ".join(steps)}
      return y = %y
    }}"""


def test_operands_of_sums_and_products_have_one_order() -> None:
    row = "float32[6]{1, 2, 3, 4, 5, 6}"
    one = in_text(product(f"%b = Add(%a, {row})", "%y = Mul(%b, %g)"))
    for first in (f"Add(%a, {row})", f"Add({row}, %a)"):
        for second in ("Mul(%b, %g)", "Mul(%g, %b)"):
            assert in_text(product(f"%b = {first}", f"%y = {second}")) == one
    assert in_text(product(f"%b = Sub(%a, {row})", "%y = Mul(%b, %g)")) != one
    differences = [in_text(product(f"%y = Sub({pair})")) for pair in ("%a, %g", "%g, %a")]
    assert not differences[0] & differences[1]


def instructions(text: str, usual: str = "") -> list[list[str]]:
    """The functions of elements that each work of a program applies, where a library has those of
    the usual one.
    """
    program, plan = lowered(parse(text))
    available = set(usual_elements(lowered(parse(usual))[0])) if usual else set()
    calls = [closed_call(step) for step in program.steps if has_work(step)]
    works = [fused(a, available) for c in calls for a in c.arguments if isinstance(a, WorkArgument)]
    assert closed_program(program, plan, available).content
    return [
        [i.function.text for i in work.code.instructions if isinstance(i, Apply)] for work in works
    ]


def test_an_activation_with_its_numbers_is_one_function_where_the_library_has_it() -> None:
    row = "float32[6]{1, 2, 3, 4, 5, 6}"
    biased = product(f"%b = Add(%a, {row})", "%y = HardSwish(%b)")
    apart = product("%y = HardSwish(%a)")
    other = product(f"%b = Sub(%a, {row})", "%c = HardSwish(%b)", "%y = Add(%c, %g)")
    assert len(instructions(biased)[0]) > 4
    assert len(instructions(biased, biased)[0]) == 1
    assert len(instructions(apart, apart)[0]) == 1
    assert [len(each) for each in instructions(other, apart)] == [3]
