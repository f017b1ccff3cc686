"""Models whose branches give results of different ranks, or none: as exporters write them, and as
people do.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto

F = np.float32
YES, NO = np.array(True), np.array(False)
GRID = F(np.linspace(-2, 3, 12)).reshape(3, 4)
SLAB = GRID[:, None]


@dataclass(frozen=True)
class Branched:
    """A model as text; inputs to run it with; nodes that stay beside its If, those that are left
    in all; the text of a run that fails.
    """

    text: str
    feeds: tuple[dict[str, Any], ...]
    beside: tuple[str, ...]
    fails: tuple[dict[str, Any], ...] = ()
    why: str = ""

    @property
    def proto(self) -> ModelProto:
        return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\n{self.text}')


CHOSEN = ({"c": YES, "x": GRID}, {"c": NO, "x": GRID}, {"c": YES, "x": GRID[:1]})
CASES = {
    "an axis of size one is squeezed": Branched(
        """m (float[n, m, k] x) => (float y) {
          one = Constant<value_ints = [1]>()  size = Shape<start = 1, end = 2>(x)
          c = Equal(size, one)
          s = If (c) <then_branch = t () => (a) { a = Squeeze(x, one) },
                      else_branch = e () => (b) { b = Identity(x) }>
          r = Relu(s)  t = ReduceSum<keepdims = 0>(r)  y = Sqrt(t)
        }""",
        ({"x": SLAB}, {"x": GRID.reshape(3, 2, 2)}, {"x": SLAB[:1]}),
        ("Shape", "Equal", "If", "Sqrt"),
    ),
    "ranks agree again": Branched(
        """m (bool c, float[n, m] x) => (y, z) {
          first = Constant<value_ints = [0]>()  all = Constant<value_ints = [-1]>()
          s = If (c) <then_branch = t () => (a) { a = Unsqueeze(x, first) },
                      else_branch = e () => (b) { b = Concat<axis = 0>(x, x) }>
          r = Sigmoid(s)  f = Reshape(r, all)  y = Neg(f)  z = Exp(y)
        }""",
        CHOSEN,
        ("If", "Neg", "Exp"),
    ),
    "the rank is asked for": Branched(
        """m (bool c, float[n, m] x) => (float[n, m] y, int64 rank) {
          first = Constant<value_ints = [0]>()  two = Constant<value = int64 {2}>()
          s = If (c) <then_branch = t () => (a) { a = Identity(x) },
                      else_branch = e () => (b) { b = Unsqueeze(x, first) }>
          shape = Shape(s)  rank = Size(shape)  flat = Equal(rank, two)  deep = Not(flat)
          u = If (deep) <then_branch = t2 () => (a2) { a2 = Squeeze(s, first) },
                         else_branch = e2 () => (b2) { b2 = Identity(s) }>
          y = Tanh(u)
        }""",
        CHOSEN,
        ("Tanh", "If"),
    ),
    "a condition decides twice": Branched(
        """m (bool c, float[n, m] x) => (float[n, m] y) {
          first = Constant<value_ints = [0]>()  other = Not(c)
          s = If (c) <then_branch = t () => (a) { a = Unsqueeze(x, first) },
                      else_branch = e () => (b) { b = Relu(x) }>
          u = Sin(s)
          y = If (other) <then_branch = t2 () => (a2) { a2 = Identity(u) },
                          else_branch = e2 () => (b2) { b2 = Squeeze(u, first) }>
        }""",
        CHOSEN,
        ("If",),
    ),
    "branches in branches": Branched(
        """m (bool c, bool d, float[n, m] x) => (float[k] y) {
          first = Constant<value_ints = [0]>()  all = Constant<value_ints = [-1]>()
          s = If (c) <then_branch = t () => (a) {
                        r = Relu(x)
                        a = If (d) <then_branch = t2 () => (a2) { a2 = Unsqueeze(r, first) },
                                    else_branch = e2 () => (b2) { b2 = ReduceSum(r) }> },
                      else_branch = e () => (b) {
                        w = Unsqueeze(x, first)  b = Unsqueeze(w, first) }>
          u = Exp(s)  f = Reshape(u, all)  y = Neg(f)
        }""",
        tuple({"c": c, "d": d, "x": GRID} for c in (YES, NO) for d in (YES, NO)),
        ("If", "Neg"),
    ),
    "in a loop": Branched(
        """m (int64 n, float[k] x) => (float[k] y, float[l] sums) {
          go = Constant<value = bool {1}>()  two = Constant<value = int64 {2}>()
          first = Constant<value_ints = [0]>()  all = Constant<value_ints = [-1]>()
          y, sums = Loop (n, go, x) <body = b (int64 i, bool g, s) => (h, t, q) {
            h = Identity(g)  odd = Mod(i, two)  c = Cast<to = 9>(odd)
            w = If (c) <then_branch = t2 () => (a) { a = Unsqueeze(s, first) },
                        else_branch = e2 () => (d) { d = Neg(s) }>
            v = Sin(w)  t = Reshape(v, all)  q = ReduceSum<keepdims = 0>(w) }>
        }""",
        ({"n": np.array(5), "x": GRID[0]}, {"n": np.array(1), "x": GRID[1]}),
        ("Loop",),
    ),
    "only one branch can go on": Branched(
        """m (bool c, float[n, 3, k] x, float[4, 3, 1] w) => (float[n, 4, k] y) {
          first = Constant<value_ints = [0]>()
          s = If (c) <then_branch = t () => (a) { a = Identity(x) },
                      else_branch = e () => (b) { b = Unsqueeze(x, first) }>
          r = Relu(s)  y = Conv(r, w)
        }""",
        tuple(
            {
                "c": YES,
                "x": GRID[:, :, None].reshape(2, 3, 2)[:n],
                "w": F(range(12)).reshape(4, 3, 1),
            }
            for n in (1, 2)
        ),
        ("Assert", "Relu", "Conv"),
        ({"c": NO, "x": F(np.ones((1, 3, 2))), "w": F(np.ones((4, 3, 1)))},),
        "its other branch cannot go on; Conv node",
    ),
    "only the branch of a condition that does not hold": Branched(
        """m (bool c, float[n, 3] x, float[3, 3] w) => (float[n, 3] y, float[k] z) {
          last = Constant<value_ints = [-1]>()  other = Not(c)
          s = If (other) <then_branch = t () => (a) { a = Neg(x) },
                          else_branch = e () => (b) { b = Unsqueeze(x, last) }>
          y = MatMul(s, w)  r = Relu(s)  f = Reshape(r, last)
          z = If (other) <then_branch = t2 () => (a2) { a2 = Exp(f) },
                          else_branch = e2 () => (b2) { b2 = Neg(f) }>
        }""",
        tuple({"c": NO, "x": GRID[:n, :3], "w": F(range(9)).reshape(3, 3)} for n in (1, 3)),
        ("Not", "Neg", "Assert", "MatMul", "Relu", "Reshape", "Exp"),
        ({"c": YES, "x": GRID[:2, :3], "w": F(np.ones((3, 3)))},),
        "its other branch cannot go on; MatMul node",
    ),
    "whatever has size one is squeezed": Branched(
        """m (float[n, 1, m] x, float[k] s) => (float y, float[j] z) {
          all = Constant<value_ints = [-1]>()
          q = Squeeze(x)  r = Sin(q)  f = Reshape(r, all)  z = Mul(f, s)
          y = ReduceMax<keepdims = 0>(q)
        }""",
        tuple({"x": x, "s": F([2])} for x in (SLAB, SLAB[:1], SLAB[..., :1], SLAB[:1, :, :1])),
        ("Shape", "Equal", "Shape", "Equal", "If", "Mul"),
    ),
    "what may be absent": Branched(
        """m (bool c, float[n, m] x) => (float[n, m] y) {
          o = If (c) <then_branch = t () => (a) { r = Relu(x)  a = Optional(r) },
                      else_branch = e () => (b) { b = Optional<type = float[n, m]>() }>
          there = OptionalHasElement(o)
          v = If (there) <then_branch = t2 () => (a2) { a2 = OptionalGetElement(o) },
                          else_branch = e2 () => (b2) { b2 = Neg(x) }>
          y = Exp(v)
        }""",
        CHOSEN,
        ("If", "Exp"),
    ),
    "what has to be there": Branched(
        """m (bool c, float[n, m] x) => (float[n, m] y) {
          o = If (c) <then_branch = t () => (a) { r = Relu(x)  a = Optional(r) },
                      else_branch = e () => (b) { b = Optional<type = float[n, m]>() }>
          v = OptionalGetElement(o)  y = Exp(v)
        }""",
        CHOSEN[::2],
        ("Relu", "Assert", "Exp"),
        CHOSEN[1:2],
        "there is nothing to get",
    ),
    "a rank that only one branch tells": Branched(
        """m (bool c, float[n, m] x, int64[k] shape) => (float[l] y) {
          all = Constant<value_ints = [-1]>()
          s = If (c) <then_branch = t () => (a) { a = Reshape(x, shape) },
                      else_branch = e () => (b) { b = Relu(x) }>
          f = Reshape(s, all)  y = Neg(f)
        }""",
        tuple({**feed, "shape": np.array([1, -1, 1])} for feed in CHOSEN),
        ("If", "Neg"),
    ),
}
RETURNED = {
    "a result of any rank": Branched(
        """m (bool c, float[n, m] x) => (y, float[n, m] z) {
          first = Constant<value_ints = [0]>()
          s = If (c) <then_branch = t () => (a) { a = Unsqueeze(x, first) },
                      else_branch = e () => (b) { b = ReduceSum<keepdims = 0>(x) }>
          y = Exp(s)  z = Neg(x)
        }""",
        CHOSEN,
        ("Neg", "If"),
    ),
    "from branches in branches, twice": Branched(
        """m (bool c, bool d, float[n, m] x) => (y, z, w) {
          first = Constant<value_ints = [0]>()
          y, z = If (c) <then_branch = t () => (a, p) {
                           r = Relu(x)
                           a = If (d) <then_branch = t2 () => (a2) { a2 = Unsqueeze(r, first) },
                                       else_branch = e2 () => (b2) { b2 = Identity(x) }>
                           p = Neg(x) },
                         else_branch = e () => (b, q) {
                           b = ReduceSum<keepdims = 0>(x)  q = Unsqueeze(x, first) }>
          w = Identity(y)
        }""",
        tuple({"c": c, "d": d, "x": GRID} for c in (YES, NO) for d in (YES, NO)),
        ("If", "Identity"),
    ),
    "without whatever has size one": Branched(
        """m (float[n, 1] x) => (y) { q = Squeeze(x)  y = Neg(q) }""",
        tuple({"x": x.reshape(-1, 1)} for x in (GRID, GRID[0], GRID[0, :1])),
        ("Shape", "Equal", "If"),
    ),
    "beside a result of one rank": Branched(
        """m (bool c, float[n, m] x) => (y, z) {
          first = Constant<value_ints = [0]>()
          y, s = If (c) <then_branch = t () => (a, p) {
                           a = Unsqueeze(x, first)  p = Concat<axis = 0>(x, x) },
                         else_branch = e () => (b, q) { b = Neg(x)  q = Exp(x) }>
          z = Neg(s)
        }""",
        CHOSEN,
        ("If", "Neg"),
    ),
    "integers, and elements that are none": Branched(
        """m (bool c, float[n, m] x) => (y) {
          zero = Constant<value_ints = [0]>()
          y = If (c) <then_branch = t () => (a) { r = Relu(x)  a = NonZero(r) },
                      else_branch = e () => (b) { s = Shape(x)  b = ReduceSum(s, zero) }>
        }""",
        (*CHOSEN, {"c": YES, "x": -F(np.ones((2, 2)))}),
        ("If",),
    ),
}
"""Models that return a result whose rank only the run finds out."""
names = pytest.mark.parametrize("name", CASES)
