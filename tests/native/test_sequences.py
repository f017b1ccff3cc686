"""Sequences and optionals: plain tensors where their parts are known, host steps where they are
not.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import infuse
from infuse.build.compile import Compilation
from infuse.ir.graph import Graph
from infuse.lowering.expand.sequences import flatten
from infuse.ops.core.evaluate import evaluate

HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'
X = np.arange(24, dtype=np.float32).reshape(4, 6)

KNOWN = {
    "construct and take": """g (float[4, 6] x) => (float[4, 6] y, int64 n) {
        zero = Constant <value_int = 0> ()
        last = Constant <value_int = -1> ()
        negative = Neg (x)
        empty = SequenceEmpty ()
        one = SequenceInsert (empty, x)
        two = SequenceInsert (one, negative, zero)
        three = SequenceInsert (two, negative)
        less = SequenceErase (three, zero)
        same = Identity (less)
        y = SequenceAt (same, last)
        n = SequenceLength (less)
    }""",
    "a position that is computed": """g (float[4, 6] x) => (float[4, 6] y) {
        negative = Neg (x)
        both = SequenceConstruct (x, negative)
        first = ReduceMax <keepdims = 0> (x)
        place = Cast <to = 7> (first)
        two = Constant <value_int = 2> ()
        index = Mod (place, two)
        y = SequenceAt (both, index)
    }""",
    "split and join": """g (float[4, 6] x) => (float[a, b] y, float[c, d, e] z, float[4] t) {
        sizes = Constant <value_ints = [1, 3, 2]> ()
        four = Constant <value_int = 4> ()
        one = Constant <value_int = 1> ()
        parts = SplitToSequence <axis = 1> (x, sizes)
        y = ConcatFromSequence <axis = 0> (two)
        two = SplitToSequence <axis = 1> (x, three)
        three = Constant <value_int = 3> ()
        z = ConcatFromSequence <axis = -1, new_axis = 1> (two)
        wide = SplitToSequence <axis = -1> (x, four)
        rows = SplitToSequence <axis = 1, keepdims = 0> (x)
        t = SequenceAt (rows, one)
    }""",
    "map": """g (float[4, 6] x, float[6] w) => (float[4, 6] y) {
        two = Constant <value_int = 2> ()
        one = Constant <value_int = 1> ()
        parts = SplitToSequence (x, two)
        moved = SequenceMap (parts, w) <body = b
            (float[2, 6] p, float[6] v) => (float[2, 6] q) { q = Mul (p, v) }>
        y = ConcatFromSequence <axis = 0> (moved)
    }""",
    "optionals": """g (float[4, 6] x) => (float[4, 6] y, bool h, bool none, bool plain) {
        some = Optional (x)
        again = Identity (some)
        y = OptionalGetElement (again)
        h = OptionalHasElement (some)
        none = OptionalHasElement ()
        plain = OptionalHasElement (x)
    }""",
}
UNKNOWN = {
    "a sequence leaves the graph": """g (float[4, 6] x) => (seq(float[4, 6]) y) {
        negative = Neg (x)
        zero = Constant <value_int = 0> ()
        one = SequenceConstruct (x)
        y = SequenceInsert (one, negative, zero)
    }""",
    "parts of a size that is computed": """g (float[4, 6] x, int64 size) => (float[a, 6] y) {
        last = Constant <value_int = -1> ()
        parts = SplitToSequence (x, size)
        end = SequenceAt (parts, last)
        y = Neg (end)
    }""",
}


def read(text: str) -> Graph:
    return infuse.load(onnx.parser.parse_model(HEAD + text))


def fed(graph: Graph) -> Mapping[str, Any]:
    given = {"x": X, "w": np.arange(6, dtype=np.float32), "size": np.array(3)}
    return {value.name: given[value.name] for value in graph.inputs}


@pytest.mark.parametrize("text", KNOWN.values(), ids=KNOWN)
def test_known_parts_leave_no_sequence(text: str) -> None:
    graph = read(text)
    flat = flatten(graph)
    assert Compilation(graph).stages().host_nodes == []
    for one, other in zip(
        evaluate(graph, fed(graph)).values(), evaluate(flat, fed(graph)).values(), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("name", "hosted"),
    [
        ("a sequence leaves the graph", ["SequenceConstruct"]),
        ("parts of a size that is computed", ["SplitToSequence", "SequenceAt"]),
    ],
)
def test_the_others_stay_on_the_host(name: str, hosted: list[str]) -> None:
    graph = read(UNKNOWN[name])
    assert [node.kind for node in Compilation(graph).stages().host_nodes] == hosted


def test_native_results() -> None:
    for text in (KNOWN["split and join"], KNOWN["map"], UNKNOWN["a sequence leaves the graph"]):
        graph = read(text)
        with infuse.compile(graph, infuse.CompileOptions(threads=1)) as model:
            for one, other in zip(
                model.run(fed(graph)).values(), evaluate(graph, fed(graph)).values(), strict=True
            ):
                np.testing.assert_array_equal(one, other)


def test_a_graph_that_only_passes_a_sequence_on() -> None:
    graph = infuse.optimize(
        read("g (seq(float[4, 6]) s) => (seq(float[4, 6]) y) { y = Identity (s) }"), "all"
    )
    with infuse.compile(graph, infuse.CompileOptions(threads=1)) as model:
        np.testing.assert_array_equal(model.run({"s": [X, -X]})["y"], [X, -X])


def test_an_absent_optional_has_no_element() -> None:
    graph = read("""g () => (float[2] y) {
        none = Optional <type = float[2]> ()
        y = OptionalGetElement (none)
    }""")
    assert [node.kind for node in Compilation(graph).stages().host_nodes]
