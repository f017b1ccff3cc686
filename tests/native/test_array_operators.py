"""Attention with bodies, unique elements, sums over any axes, numbers that are none, and bad
input, beside PyTorch and NumPy.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from infuse import dtypes
from infuse.build.compile import compile_graph
from infuse.build.staged import generate
from infuse.errors import RuntimeFailure
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN
from infuse.ops.core.base import Rounding
from infuse.targets import Target
from tests.native.several import RNG, Several, floats

# -- attention with bodies -------------------------------------------------------------------------


def flexed(several: Several, shapes: Sequence[tuple[int, ...]], **attributes: Any) -> None:
    """Attention whose scores are capped and whose weights are halved, and how PyTorch does it."""
    q, k, v = (floats(*shape) for shape in shapes)
    bodies = {}
    for name, kinds in (("score_mod", ("Tanh",)), ("prob_mod", ("Neg", "Abs"))):
        body = Graph(name)
        value = body.add_input("x", UNKNOWN)
        for kind in kinds:
            node = body.add_node(
                Node(make_operator("", kind, {}), [value], [Value(UNKNOWN, kind)], name=kind)
            )
            value = node.output
        body.add_output(value, "y")
        bodies[name] = body
    inputs = [several.input(x) for x in (q, k, v)]
    op = make_operator("ai.onnx.preview", "FlexAttention", attributes)
    node = several.graph.add_node(
        Node(op, inputs, [Value(UNKNOWN, "flexed")], name="flex", subgraphs=bodies)
    )
    node.op.infer_node(node)
    several.graph.add_output(node.output, f"y{len(several.wanted)}")
    wide = [torch.tensor(x, dtype=torch.float64) for x in (q, k, v)]
    keys, values = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in wide[1:])
    scores = wide[0] @ keys.transpose(2, 3) * attributes.get("scale", q.shape[3] ** -0.5)
    exact = torch.softmax(torch.tanh(scores), dim=-1) @ values
    several.wanted.append(("FlexAttention", exact.numpy(), Rounding(ulp=8, abs=4e-6)))


def test_attention_goes_through_its_bodies() -> None:
    several = Several()
    flexed(several, [(2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 6)])
    flexed(several, [(1, 6, 4, 8), (1, 2, 9, 8), (1, 2, 9, 16)], scale=0.25)
    flexed(several, [(1, 4, 1, 8), (1, 4, 3, 8), (1, 4, 3, 8)], softmax_precision=dtypes.float64)
    several.check()


# -- unique elements -------------------------------------------------------------------------------


def uniques(x: Any, axis: int | None, sorted_: int) -> list[Any]:
    values, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not sorted_:
        order = np.argsort(first)
        values = np.take(values, order, axis=axis or 0)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    return [values, first, inverse, counts]


def test_unique_elements_and_slices_of_every_type() -> None:
    several = Several()
    numbers = [
        RNG.integers(0, 5, (4, 3, 6)).astype(t)
        for t in (np.int8, np.uint16, np.int32, np.uint64, np.float64)
    ]
    special = np.array([3, np.nan, 0.0, -0.0, np.inf, np.nan, 3, -np.inf], np.float32)
    columns = np.array([[1, np.nan, 1, 0], [2, 1, 2, 0]], np.float32)
    rows = [
        *numbers,
        numbers[0] > 2,
        special,
        np.zeros((0,), np.float32),
        np.float32(4),
        numbers[4].astype(np.float16),
    ]
    for x, sorted_ in itertools.product(rows, (0, 1)):
        for axis in (None, *range(-1, x.ndim - 1)) if x.size > 8 else (None,):
            several.add(
                "Unique", [x], uniques(x, axis, sorted_), Rounding(ulp=0), axis=axis, sorted=sorted_
            )
    several.add("Unique", [columns], uniques(columns, 1, 1), Rounding(ulp=0), axis=1, symbolic=True)
    several.check()


# -- Einstein's summation --------------------------------------------------------------------------

EQUATIONS: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = (
    ("i->", ((5,),)),
    ("->", ((),)),
    ("iii->i", ((3, 3, 3),)),
    ("iijj->ij", ((2, 2, 3, 3),)),
    ("ijij", ((2, 3, 2, 3),)),
    ("...ii->...", ((2, 4, 3, 3),)),
    ("...->...", ((2, 3),)),
    ("...i,...i", ((2, 1, 4), (3, 4))),
    ("i...,i...->...", ((4, 2), (4, 2))),
    ("ij...,jk...->ik...", ((2, 3, 1), (3, 4, 5))),
    ("ab,bc,cd,de->ae", ((2, 3), (3, 4), (4, 2), (2, 5))),
    ("a,b,c->abc", ((2,), (3,), (4,))),
    ("ij,ij,ij->", ((3, 4), (3, 4), (3, 4))),
    ("ij,->ij", ((2, 3), ())),
    ("aB,Bc->cA".replace("A", "a"), ((2, 3), (3, 4))),
    ("ii,jj->ij", ((2, 2), (3, 3))),
    ("bij,bjk,bk->bi", ((2, 3, 4), (2, 4, 5), (2, 5))),
    ("ji", ((2, 3),)),
    ("i,i", ((1,), (4,))),
    ("ij,jk", ((2, 1), (3, 4))),
    ("hq...,k...->...qk", ((2, 3, 4), (5, 4))),
)


@pytest.mark.parametrize("symbolic", [False, True], ids=["known sizes", "open sizes"])
def test_summation_in_every_form(symbolic: bool) -> None:
    several = Several()
    for equation, shapes in EQUATIONS:
        if symbolic and any(
            1 in s or len(set(t)) < len(t)
            for s, t in zip(shapes, equation.split("->")[0].split(","))
        ):
            continue
        for dtype in (np.float32, np.float64, np.int32):
            xs = [(floats(*s) * 8).astype(dtype) for s in shapes]
            exact = np.einsum(equation, *(x.astype(np.float64) for x in xs))
            wanted = np.asarray(exact).astype(np.float64 if dtype != np.int32 else dtype)
            several.add(
                "Einsum",
                xs,
                [wanted],
                Rounding(ulp=4, abs=2e-6),
                equation=equation,
                symbolic=symbolic,
            )
    several.check()


# -- numbers that are none -------------------------------------------------------------------------


def test_extremes_take_what_is_no_number() -> None:
    nan, inf = np.nan, np.inf
    several, exact = Several(), Rounding(ulp=0)
    for dtype in (np.float32, np.float64, np.float16):
        a, b = np.array([1, nan, nan, inf, 0], dtype), np.array([nan, 2, nan, -inf, 1], dtype)
        several.add("Max", [a, b], [np.maximum(a, b)], exact)
        several.add("Min", [a, b], [np.minimum(a, b)], exact)
        several.add("Clip", [a, dtype(0.5), dtype(2)], [np.clip(a, 0.5, 2).astype(dtype)], exact)
        wide = RNG.choice([0, 1, 2, nan, inf], (7, 75), p=[0.3, 0.3, 0.3, 0.05, 0.05]).astype(dtype)
        for rows in (np.array([[1, nan, 3, nan, -inf], [5, 5, inf, inf, 1]], dtype), wide):
            for kind, axis, last in itertools.product(("ArgMax", "ArgMin"), (0, 1), (0, 1)):
                find = np.argmax if kind == "ArgMax" else np.argmin
                size = rows.shape[axis]
                first = find(rows, axis=axis)
                flipped = size - 1 - find(np.flip(rows, axis), axis=axis)
                options = {"axis": axis, "keepdims": 0, "select_last_index": last}
                several.add(kind, [rows], [flipped if last else first], exact, **options)
    several.check()


# -- bad input -------------------------------------------------------------------------------------

BAD: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "a transform of no length": ("DFT", [floats(2, 4, 1), np.array(0)], {}),
    "a transform along the parts": ("DFT", [floats(2, 4, 2), None, np.array(2)], {}),
    "a transform along no axis": ("DFT", [floats(2, 4, 2), None, np.array(-4)], {}),
    "frames that do not move": ("STFT", [floats(1, 9, 1), np.array(0), None, np.array(3)], {}),
    "frames longer than the signal": (
        "STFT",
        [floats(1, 9, 1), np.array(1), None, np.array(10)],
        {},
    ),
    "filters outside of the spectrum": (
        "MelWeightMatrix",
        [np.array(4), np.array(16), np.array(100), np.float32(0), np.float32(90)],
        {},
    ),
    "a class that there is not": (
        "NegativeLogLikelihoodLoss",
        [floats(2, 3), np.array([0, 3])],
        {},
    ),
    "a cache that is too short": (
        "TensorScatter",
        [floats(2, 5, 3), floats(2, 2, 3), np.array([0, 4])],
        {},
    ),
    "a sum along no axis": ("CumSum", [floats(2, 3), np.array(2)], {}),
    "a reduction along no axis": ("ReduceSum", [floats(2, 3), np.array([-3])], {}),
}


def _bad_model(name: str) -> Any:
    kind, inputs, attributes = BAD[name]
    several = Several()
    several.add(kind, inputs, [None], Rounding(), **attributes)
    return several


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_an_error(name: str) -> None:
    several = _bad_model(name)
    generate(several.graph, Target.resolve("x86-64"))
    with compile_graph(several.graph) as model, pytest.raises(RuntimeFailure):
        model.run(several.feeds)
