"""Closed functions: what differs between two models of one kind is an argument."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from infuse import dtypes
from infuse.build.compile import generate
from infuse.ir import dims
from infuse.ir.graph import Graph
from infuse.ir.parser import parse
from infuse.lowering.memory import Plan
from infuse.lowering.program import Program
from infuse.targets import Target
from infuse.targets.cpu.closed.collection import Collection
from infuse.targets.cpu.closed.program import ClosedProgram, closed_program
from infuse.targets.cpu.closed.words import Terms, Words, bits
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
    functions = Collection()
    functions.add(*lowered(random_network(seed).graph))
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
