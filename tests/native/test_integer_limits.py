"""Integer parameters at the ends of int64: right, or refused; in the interpreter, folded, and
natively.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import InfuseError
from infuse.ir.graph import Graph
from infuse.ir.parser import parse
from infuse.ops.core.evaluate import evaluate

pytestmark = pytest.mark.row("C1")
MOST, LEAST = 2**63 - 1, -(2**63)
X = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
FAR = (MOST, LEAST, MOST - 3, LEAST + 3, 2**31, -(2**31) - 1)
CUTS = (
    *(
        (0, MOST, MOST),
        (3, LEAST, LEAST),
        (MOST, LEAST, -1),
        (LEAST, MOST, 1),
        (LEAST, MOST, MOST),
        (MOST, LEAST, LEAST),
    ),
    *((2, MOST, MOST - 1), (1, LEAST, LEAST + 1), (0, 2, MOST), (LEAST, LEAST, 1)),
    *((MOST, MOST, -1), (0, MOST, 2**32)),
)
RUNS = (
    *(
        (MOST - 2, MOST, 1),
        (MOST - 5, MOST, 4),
        (LEAST, LEAST + 5, 2),
        (0, MOST, MOST),
        (LEAST, MOST, MOST),
    ),
    *((MOST, LEAST, LEAST), (0, 5, MOST), (5, 0, LEAST)),
)


def triangle(k: int, upper: bool) -> np.ndarray:
    """By the definition, in Python's integers."""
    keep = [[(j - i >= k) if upper else (j - i <= k) for j in range(4)] for i in range(3)]
    return np.where(keep, X, np.float32(0))


# call with lists [A], [B] …, their elements, and what it gives; None: an error
CASES: dict[str, tuple[str, tuple[int, ...], Any]] = {
    **{
        f"Trilu {k} {u}": (f"Trilu(%x, A, upper={u})", (k,), triangle(k, bool(u)))
        for k in FAR
        for u in (0, 1)
    },
    **{
        f"Slice {cut}": ("Slice(%x, [A], [B], int64[1]{1}, [C])", cut, X[:, slice(*cut)])
        for cut in CUTS
    },
    # A start before the first element is that element, where steps go down.
    **{
        f"Slice down {cut}": ("Slice(%x, [A], [B], int64[1]{1}, [C])", cut, X[:, :1])
        for cut in ((LEAST, LEAST, -1), (-5, LEAST, LEAST), (LEAST, -5, -2))
    },
    **{f"Range {run}": ("Range(A, B, C)", run, np.array([*range(*run)], np.int64)) for run in RUNS},
    **{
        f"{call} {n}": (call, (n,), None)
        for n in (MOST, LEAST)
        for call in (
            *(
                "CumSum(%x, A)",
                "Gather(%x, [A])",
                "Unsqueeze(%x, [A])",
                "Reshape(%x, [A])",
                "ConstantOfShape([A])",
            ),
            *("TopK(%x, [A])", "GatherElements(%x, [[A]])", "Split(%x, [A])"),
        )
    },
}


def written(call: str, numbers: tuple[int, ...], fed: bool) -> tuple[Graph, dict[str, np.ndarray]]:
    """The call with its numbers as constants, or as further inputs."""
    feeds, inputs = {"x": X}, ["%x: float32[3, 4]"]
    for name, number in zip("ABC", numbers):
        spellings: tuple[tuple[str, tuple[int, ...]], ...]
        spellings = ((f"[[{name}]]", (1, 1)), (f"[{name}]", (1,)), (name, ()))
        places = ((f"{mark}{text}", text, axes) for text, axes in spellings for mark in (", ", "("))
        place, before, shape = next(each for each in places if each[0] in call)
        kind = f"int64[{', '.join(map(str, shape))}]"
        value = f"%{name.lower()}" if fed else f"{kind}{{{number}}}"
        call = call.replace(place, place.replace(before, value))
        if fed:
            inputs.append(f"{value}: {kind}")
            feeds[name.lower()] = np.full(shape, number, np.int64)
    graph = parse(f'graph "g" ({", ".join(inputs)}) {{\n  %y = {call}\n  return y = %y\n}}')
    return graph, {v.name: feeds[v.name] for v in graph.inputs}


def check(name: str, run: Any) -> None:
    """Constants and inputs give what is expected, or an error of ours."""
    call, numbers, expected = CASES[name]
    for fed in (False, True):
        if expected is None:
            with pytest.raises(InfuseError):
                run(*written(call, numbers, fed))
        else:
            np.testing.assert_array_equal(run(*written(call, numbers, fed)), expected)


@pytest.mark.parametrize("name", CASES)
def test_the_interpreter(name: str) -> None:
    check(name, lambda graph, feeds: evaluate(graph, feeds)["y"])
    check(name, lambda graph, feeds: evaluate(infuse.optimize(graph), feeds)["y"])


USUAL = [name for i, name in enumerate(CASES) if i % 3 == 0 or name.startswith("Range")]
"""What every run compiles."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in USUAL else pytest.mark.full) for name in CASES]
)
def test_native_code(name: str) -> None:
    def run(graph: Graph, feeds: dict[str, np.ndarray]) -> np.ndarray:
        with infuse.compile(graph) as model:
            result: np.ndarray = model(*(feeds[v.name] for v in graph.inputs))
            return result

    check(name, run)
