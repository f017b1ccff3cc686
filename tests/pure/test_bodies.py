"""Bodies of control flow: made smaller, done once where they did the same every time, and only
where that is safe.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx.parser
import pytest

from infuse.frontends.onnx import load
from infuse.ir.graph import Graph
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate
from infuse.passes.run import optimize_in_place
from infuse.passes.selection import Selection
from tests.support.large import node_count

F = np.float32
V = F([1, -2, 3])
YES, NO = np.array(True), np.array(False)


@dataclass(frozen=True)
class Case:
    """A model, the pass that must change it (or must not), inputs to run it with, and nodes left
    with their bodies.
    """

    text: str
    rule: str
    feeds: tuple[dict[str, Any], ...]
    left: int
    fires: bool = True

    def graph(self) -> Graph:
        return load(
            onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\n{self.text}')
        )


def loop(count: str, body: str, results: str = "y", carried: str = "x", extra: str = "") -> str:
    """A model whose Loop runs `count` times (a constant or the input n) and ends early only if the
    body says so.
    """
    given = "" if count == "n" else f"n = Constant<value_int = {count}>()"
    inputs = "int64 n, bool go, float[k] x" if count == "n" else "float[k] x"
    start = "" if count == "n" else "go = Constant<value = bool {1}>()"
    return f"""m ({inputs}) => ({results}) {{
      {given} {start} {extra}
      {results} = Loop (n, go, {carried}) <body = {body}>
    }}"""


LOOPED = (
    {"n": np.array(3), "go": YES, "x": V},
    {"n": np.array(0), "go": YES, "x": V},
    {"n": np.array(2), "go": NO, "x": V},
)
FIXED = ({"x": V},)
CHOSEN = ({"c": YES, "x": V}, {"c": NO, "x": V})

CASES = {
    "an invariant chain leaves the loop": Case(
        loop(
            "n",
            "b (int64 i, bool c, s) => (d, t) { d = Identity(c)  u = Sigmoid(x)  w = Mul(u, x)  t "
            "= Add(s, w) }",
        ),
        "HoistLoopInvariants",
        LOOPED,
        4,
    ),
    "what may fail stays in a loop that may not run": Case(
        loop(
            "n",
            "b (int64 i, bool c, s) => (d, t) { d = Identity(c)  u = Gather(x, q)  t = Add(s, u) }",
            extra="q = Cast<to = 7>(x)",
        ),
        "HoistLoopInvariants",
        LOOPED[1:],
        4,
        fires=False,
    ),
    "sizes that may not fit stay in a loop that may not run": Case(
        """m (int64 n, bool go, float[k] x, float[j] z) => (y) {
          y = Loop (n, go, x) <body = b (int64 i, bool c, s) => (d, t) {
            d = Identity(c)  u = Mul(x, z)  w = ReduceMax(u)  t = Add(s, w) }>
        }""",
        "HoistLoopInvariants",
        (
            {"n": np.array(0), "go": YES, "x": V, "z": F([1, 2])},
            {"n": np.array(3), "go": YES, "x": V, "z": V},
        ),
        4,
        fires=False,
    ),
    "quotients of integers stay in a loop that may not run": Case(
        """m (int64 n, bool go, int64[k] x) => (y) {
          y = Loop (n, go, x) <body = b (int64 i, bool c, s) => (d, t) {
            d = Identity(c)  u = Div(x, x)  t = Add(s, u) }>
        }""",
        "HoistLoopInvariants",
        (
            {"n": np.array(0), "go": YES, "x": np.array([0, 1])},
            {"n": np.array(3), "go": YES, "x": np.array([2, 1])},
        ),
        3,
        fires=False,
    ),
    "what may fail leaves a loop that certainly runs": Case(
        loop(
            "3",
            "b (int64 i, bool c, s) => (d, t) { d = Identity(c)  u = Gather(x, q)  t = Add(s, u) }",
            extra="q = Constant<value_ints = [2, 0, 1]>()",
        ),
        "HoistLoopInvariants",
        FIXED,
        3,
    ),
    "random numbers stay": Case(
        loop(
            "n",
            """b (int64 i, bool c, s) => (d, t) {
              d = Identity(c)  u = RandomUniformLike(x)  w = Sub(u, u)  t = Add(s, w) }""",
        ),
        "HoistLoopInvariants",
        LOOPED,
        4,
        fires=False,
    ),
    "invariants leave two loops": Case(
        loop(
            "n",
            """b (int64 i, bool c, float[k] s) => (d, t) {
              d = Identity(c)
              t = Loop (n, go, s) <body = w (int64 j, bool c2, float[k] s2) => (d2, t2) {
                d2 = Identity(c2)  r = Sigmoid(x)  t2 = Add(s2, r) }> }""",
        ),
        "HoistLoopInvariants",
        LOOPED,
        4,
    ),
    "invariants of a scan": Case(
        """m (float[k] x, float[t, k] z) => (y) {
          y = Scan <num_scan_inputs = 1, body = b (float[k] a, float[k] p) => (c) {
            u = Exp(x)  w = Mul(p, u)  c = Add(a, w) }> (x, z)
        }""",
        "HoistLoopInvariants",
        ({"x": V, "z": np.arange(12, dtype=F).reshape(4, 3)}, {"x": V, "z": np.zeros((0, 3), F)}),
        4,
    ),
    "both branches begin alike": Case(
        """m (bool c, float[n] x) => (y) {
          y = If (c) <then_branch = t () => (a) { u = Sigmoid(x)  a = Add(u, x) },
                      else_branch = e () => (b) { w = Sigmoid(x)  b = Mul(w, x) }>
        }""",
        "HoistFromBranches",
        CHOSEN,
        4,
    ),
    "one branch alone works for itself": Case(
        """m (bool c, float[n] x) => (y) {
          y = If (c) <then_branch = t () => (a) { u = Sigmoid(x)  a = Add(u, x) },
                      else_branch = e () => (b) { b = Mul(x, x) }>
        }""",
        "HoistFromBranches",
        CHOSEN,
        4,
        fires=False,
    ),
    "equal branches": Case(
        """m (bool c, float[n] x) => (y) {
          y = If (c) <then_branch = t () => (a) { u = Sigmoid(x)  a = Add(u, x) },
                      else_branch = e () => (b) { w = Sigmoid(x)  b = Add(x, w) }>
        }""",
        "InlineEqualBranches",
        CHOSEN,
        2,
    ),
    "a result that is the same in both branches": Case(
        """m (bool c, float[n] x) => (y, r) {
          z = Exp(x)
          y, r = If (c) <then_branch = t () => (a, p) { a = Neg(x)  p = Identity(z) },
                         else_branch = e () => (b, q) { b = Abs(x)  q = Identity(z) }>
        }""",
        "InlineEqualBranches",
        CHOSEN,
        4,
    ),
    "branches that differ in an attribute": Case(
        """m (bool c, float[n] x) => (y) {
          y = If (c) <then_branch = t () => (a) { a = LeakyRelu<alpha = 0.5>(x) },
                      else_branch = e () => (b) { b = LeakyRelu<alpha = 0.25>(x) }>
        }""",
        "InlineEqualBranches",
        CHOSEN,
        3,
        fires=False,
    ),
    "branches of random numbers": Case(
        """m (bool c, float[n] x) => (y) {
          y = If (c) <then_branch = t () => (a) { u = RandomUniformLike(x)  a = Sub(u, u) },
                      else_branch = e () => (b) { u = RandomUniformLike(x)  b = Sub(u, u) }>
        }""",
        "InlineEqualBranches",
        CHOSEN,
        5,
        fires=False,
    ),
    "a loop that runs once": Case(
        loop(
            "1",
            """b (int64 i, bool c, s) => (d, t, r) {
              d = Identity(c)  f = Cast<to = 1>(i)  u = Add(s, f)  t = Exp(u)  r = Neg(t) }""",
            "y, rows",
        ),
        "InlineShortLoop",
        FIXED,
        3,
    ),
    "a loop that ends itself at once": Case(
        """m (float[k] x) => (y) {
          go = Constant<value = bool {1}>()
          y = Loop ("", go, x) <body = b (int64 i, bool c, s) => (d, t) {
            d = Constant<value = bool {0}>()  t = Exp(s) }>
        }""",
        "InlineShortLoop",
        FIXED,
        1,
    ),
    "a loop that never runs": Case(
        loop(
            "0",
            "b (int64 i, bool c, s) => (d, t, r) { d = Identity(c)  t = Exp(s)  r = Identity(i) }",
            "y, rows",
        ),
        "InlineShortLoop",
        FIXED,
        0,
    ),
    "a loop that never runs and has rows of unknown size": Case(
        loop(
            "0",
            "b (int64 i, bool c, s) => (d, t, r) { d = Identity(c)  t = Exp(s)  r = Neg(s) }",
            "y, rows",
        ),
        "InlineShortLoop",
        FIXED,
        3,
        fires=False,
    ),
    "a loop that runs twice": Case(
        loop("2", "b (int64 i, bool c, s) => (d, t) { d = Identity(c)  t = Exp(s) }"),
        "InlineShortLoop",
        FIXED,
        2,
        fires=False,
    ),
    "a loop that may run once": Case(
        """m (bool go, float[k] x) => (y) {
          one = Constant<value_int = 1>()
          y = Loop (one, go, x) <body = b
              (int64 i, bool c, s) => (d, t) { d = Identity(c)  t = Exp(s) }>
        }""",
        "InlineShortLoop",
        ({"go": YES, "x": V}, {"go": NO, "x": V}),
        2,
        fires=False,
    ),
    "a value that is carried and never changes": Case(
        """m (int64 n, bool go, float[k] x) => (y, z) {
          y, z = Loop (n, go, x, x) <body = b (int64 i, bool c, s, w) => (d, t, v) {
            d = Identity(c)  v = Identity(w)  u = Mul(w, w)  t = Add(s, u) }>
        }""",
        "PassInvariantsBy",
        LOOPED,
        3,
    ),
    "a state of a scan that never changes": Case(
        """m (float[k] x, float[t, k] z) => (w, y) {
          w, y = Scan <num_scan_inputs = 1, body = b (float[k] a, float[k] p) => (c, q) {
            c = Identity(a)  q = Add(a, p) }> (x, z)
        }""",
        "PassInvariantsBy",
        ({"x": V, "z": np.arange(12, dtype=F).reshape(4, 3)},),
        2,
    ),
    "values that change places": Case(
        """m (int64 n, bool go, float[k] x, float[k] z) => (y, w) {
          y, w = Loop (n, go, x, z) <body = b (int64 i, bool c, p, q) => (d, r, s) {
            d = Identity(c)  r = Identity(q)  s = Identity(p) }>
        }""",
        "PassInvariantsBy",
        tuple({**feeds, "z": 2 * V} for feeds in LOOPED),
        1,
        fires=False,
    ),
    "a result of branches that nobody reads": Case(
        """m (bool c, float[n] x) => (y) {
          y, r = If (c) <then_branch = t () => (a, p) { a = Neg(x)  p = Exp(x) },
                         else_branch = e () => (b, q) { b = Abs(x)  q = Erf(x) }>
        }""",
        "RemoveUnusedResults",
        CHOSEN,
        3,
    ),
    "rows and a carried value that nobody reads": Case(
        """m (int64 n, bool go, float[k] x) => (y) {
          y, z, rows = Loop (n, go, x, x) <body = b (int64 i, bool c, s, w) => (d, t, v, r) {
            d = Identity(c)  t = Exp(s)  v = Neg(w)  r = Abs(v) }>
        }""",
        "RemoveUnusedResults",
        LOOPED,
        2,
    ),
    "a carried value that another one needs": Case(
        """m (int64 n, bool go, float[k] x) => (y) {
          y, z = Loop (n, go, x, x) <body = b (int64 i, bool c, s, w) => (d, t, v) {
            d = Identity(c)  t = Add(s, w)  v = Neg(w) }>
        }""",
        "RemoveUnusedResults",
        LOOPED,
        3,
        fires=False,
    ),
    "a body reads what is computed around it": Case(
        """m (bool c, float[n] x) => (y, z) {
          z = Sigmoid(x)
          y = If (c) <then_branch = t () => (a) { u = Sigmoid(x)  a = Add(u, x) },
                      else_branch = e () => (b) { b = Mul(x, x) }>
        }""",
        "EliminateCommonSubexpressions",
        CHOSEN,
        4,
    ),
    "branches do not read one another": Case(
        """m (bool c, float[n] x) => (y) {
          y = If (c) <then_branch = t () => (a) { u = Sigmoid(x)  a = Add(u, x) },
                      else_branch = e () => (b) { b = Sigmoid(x) }>
        }""",
        "EliminateCommonSubexpressions",
        CHOSEN,
        3,
        fires=False,
    ),
}


@pytest.mark.row("G24", "G6", "G10")
@pytest.mark.parametrize("name", CASES)
def test_bodies_are_made_smaller_where_that_is_safe(name: str) -> None:
    case = CASES[name]
    graph = case.graph()
    before = [evaluate(graph, feeds) for feeds in fitting(graph, case.feeds)]
    report = optimize_in_place(graph, Selection("basic"))
    verify(graph)
    assert (report.fired[case.rule] > 0) is case.fires
    assert node_count(graph) == case.left
    for feeds, expected in zip(fitting(graph, case.feeds), before, strict=True):
        found = evaluate(graph, feeds)
        for output, array in expected.items():
            np.testing.assert_allclose(found[output], array, rtol=1e-6, strict=True)


def fitting(graph: Graph, feeds: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    names = {v.name for v in graph.inputs}
    return [{name: array for name, array in each.items() if name in names} for each in feeds]


@pytest.mark.row("G24", "G6", "G10")
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.fires])
def test_each_pass_can_be_switched_off(name: str) -> None:
    case = CASES[name]
    on, off = case.graph(), case.graph()
    optimize_in_place(on, Selection("basic"))
    report = optimize_in_place(off, Selection("basic", frozenset({case.rule})))
    assert not report.fired[case.rule]
    assert node_count(off) >= node_count(on)
    for feeds in fitting(on, case.feeds):
        for a, b in zip(evaluate(on, feeds).values(), evaluate(off, feeds).values(), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, strict=True)


@pytest.mark.row("G24")
def test_what_left_a_loop_is_no_longer_in_it() -> None:
    graph = CASES["an invariant chain leaves the loop"].graph()
    optimize_in_place(graph, Selection("basic"))
    node = next(n for n in graph.nodes if n.kind == "Loop")
    assert [n.kind for n in node.subgraphs["body"].nodes] == ["Add"]
    assert [n.kind for n in graph.nodes] == ["Sigmoid", "Mul", "Loop"]
