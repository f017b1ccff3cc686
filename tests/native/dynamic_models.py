"""Models with sizes that only a run finds out and with control flow, and feeds for them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Spec = tuple[str, int, Sequence[int | str] | None]
Make = Callable[[], onnx.ModelProto]


def model(
    nodes: Sequence[Any], inputs: Sequence[Spec], outputs: Sequence[Spec], **constants: Any
) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "dynamic",
        [helper.make_tensor_value_info(*v) for v in inputs],
        [helper.make_tensor_value_info(*v) for v in outputs],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def body(nodes: Sequence[Any], inputs: Sequence[Spec], outputs: Sequence[Spec]) -> onnx.GraphProto:
    return helper.make_graph(
        list(nodes),
        "body",
        [helper.make_tensor_value_info(*v) for v in inputs],
        [helper.make_tensor_value_info(*v) for v in outputs],
    )


node = helper.make_node


def nonzero_gather() -> onnx.ModelProto:
    """How many elements there are, later work cannot know."""
    nodes = [
        node("NonZero", ["x"], ["at"]),
        node("Squeeze", ["at", "zero"], ["places"]),
        node("Gather", ["x", "places"], ["kept"]),
        node("Relu", ["kept"], ["y"]),
        node("Shape", ["kept"], ["count"]),
    ]
    return model(
        nodes, [("x", FLOAT, ["n"])], [("y", FLOAT, ["k"]), ("count", INT, [1])], zero=np.array([0])
    )


def branches() -> onnx.ModelProto:
    """Branches whose results differ in size, and that read values of the graph around."""
    then = body([node("Add", ["x", "one"], ["t"])], [], [("t", FLOAT, None)])
    other = body([node("Concat", ["x", "half"], ["e"], axis=0)], [], [("e", FLOAT, None)])
    nodes = [
        node("Mul", ["x", "point"], ["half"]),
        node("If", ["c"], ["r"], then_branch=then, else_branch=other),
        node("Neg", ["r"], ["y"]),
    ]
    inputs = [("x", FLOAT, ["n"]), ("c", BOOL, [])]
    return model(nodes, inputs, [("y", FLOAT, ["m"])], one=np.float32([1]), point=np.float32(0.5))


def growing_loop() -> onnx.ModelProto:
    """A state, a state that grows, a state that is passed on as it is, and a stacked output."""
    inside = body(
        [
            node("Add", ["s", "x"], ["s2"]),
            node("Concat", ["k", "s2"], ["k2"], axis=0),
            node("ReduceSum", ["s2"], ["sum"], keepdims=0),
            node("Less", ["sum", "limit"], ["go"]),
            node("Mul", ["s2", "fixed"], ["q"]),
        ],
        [
            ("i", INT, []),
            ("c", BOOL, []),
            ("s", FLOAT, None),
            ("k", FLOAT, None),
            ("fixed", FLOAT, None),
        ],
        [
            ("go", BOOL, []),
            ("s2", FLOAT, None),
            ("k2", FLOAT, None),
            ("fixed", FLOAT, None),
            ("q", FLOAT, None),
        ],
    )
    nodes = [node("Loop", ["m", "c", "x", "x", "x"], ["a", "b", "same", "stacked"], body=inside)]
    inputs = [("x", FLOAT, ["n"]), ("m", INT, []), ("c", BOOL, [])]
    outputs = [
        ("a", FLOAT, ["n"]),
        ("b", FLOAT, ["k"]),
        ("same", FLOAT, ["n"]),
        ("stacked", FLOAT, ["t", "n"]),
    ]
    return model(nodes, inputs, outputs, limit=np.float32(100))


def swapping_loop() -> onnx.ModelProto:
    """Fibonacci: each state becomes what the other was."""
    inside = body(
        [
            node("Add", ["a", "b"], ["sum"]),
            node("Identity", ["c"], ["go"]),
            node("Identity", ["b"], ["a2"]),
        ],
        [("i", INT, []), ("c", BOOL, []), ("a", INT, []), ("b", INT, [])],
        [("go", BOOL, []), ("a2", INT, []), ("sum", INT, []), ("a2", INT, [])],
    )
    nodes = [node("Loop", ["m", "", "zero", "one"], ["a", "b", "all"], body=inside)]
    outputs = [("a", INT, []), ("b", INT, []), ("all", INT, ["t"])]
    return model(nodes, [("m", INT, [])], outputs, zero=np.array(0), one=np.array(1))


def nested_loops() -> onnx.ModelProto:
    """A branch in a loop in a loop, with values of every level."""
    then = body([node("Add", ["inner", "x"], ["t"])], [], [("t", FLOAT, ["n"])])
    other = body([node("Sub", ["inner", "outer"], ["e"])], [], [("e", FLOAT, ["n"])])
    low = body(
        [
            node("Equal", ["j", "i"], ["same"]),
            node("If", ["same"], ["next"], then_branch=then, else_branch=other),
            node("Identity", ["cj"], ["goj"]),
        ],
        [("j", INT, []), ("cj", BOOL, []), ("inner", FLOAT, ["n"])],
        [("goj", BOOL, []), ("next", FLOAT, ["n"])],
    )
    high = body(
        [node("Loop", ["m", "", "outer"], ["sum"], body=low), node("Identity", ["ci"], ["goi"])],
        [("i", INT, []), ("ci", BOOL, []), ("outer", FLOAT, ["n"])],
        [("goi", BOOL, []), ("sum", FLOAT, ["n"]), ("sum", FLOAT, ["n"])],
    )
    nodes = [node("Loop", ["m", "", "x"], ["y", "ys"], body=high)]
    return model(
        nodes,
        [("x", FLOAT, ["n"]), ("m", INT, [])],
        [("y", FLOAT, ["n"]), ("ys", FLOAT, ["t", "n"])],
    )


def scan(**attributes: Any) -> Make:
    inside = body(
        [node("Add", ["s", "e"], ["s2"]), node("Mul", ["s2", "e"], ["o"])],
        [("s", FLOAT, [2]), ("e", FLOAT, [2])],
        [("s2", FLOAT, [2]), ("o", FLOAT, [2])],
    )

    def make() -> onnx.ModelProto:
        nodes = [node("Scan", ["s", "x"], ["a", "y"], body=inside, num_scan_inputs=1, **attributes)]
        axis = attributes.get("scan_input_axes", [0])[0]
        out = attributes.get("scan_output_axes", [0])[0]
        sizes = [["t", 2], [2, "t"]]
        return model(
            nodes,
            [("s", FLOAT, [2]), ("x", FLOAT, sizes[axis])],
            [("a", FLOAT, [2]), ("y", FLOAT, sizes[out])],
        )

    return make


def one(
    kind: str, inputs: Sequence[Spec], rank: int, count: int = 1, **attributes: Any
) -> Callable[[], onnx.ModelProto]:
    """One operator with parameters as inputs, and elementwise work after it."""

    def make() -> onnx.ModelProto:
        dtype = inputs[0][1] if kind != "OneHot" else FLOAT
        names = [v[0] for v in inputs]
        names = [n if n != "none" else "" for n in names]
        outputs = [f"r{i}" for i in range(count)]
        nodes = [node(kind, names, outputs, **attributes), node("Neg", ["r0"], ["y"])]
        return model(
            nodes,
            [v for v in inputs if v[0] != "none"],
            [("y", dtype, [f"d{i}" for i in range(rank)])],
        )

    return make


X: Spec = ("x", FLOAT, ["p", "q"])


def twin_slices() -> onnx.ModelProto:
    """Two nodes that are the same, whose results have a size that only the run tells and that
    others name.
    """
    slices = [node("Slice", ["table", "start", "far", "zero"], [f"part{i}"]) for i in range(2)]
    sums = [node("Add", ["x", f"part{i}"], [f"sum{i}"]) for i in range(2)]
    nodes = [
        node("Shape", ["x"], ["size"]),
        node("Sub", ["eight", "size"], ["start"]),
        *slices,
        sums[0],
        node("Relu", ["sum0"], ["a"]),
        sums[1],
        node("Neg", ["sum1"], ["b"]),
    ]
    constants = {
        "table": np.arange(8, dtype=np.float32),
        "eight": ints(8),
        "far": ints(99),
        "zero": ints(0),
    }
    return model(
        nodes, [("x", FLOAT, ["n"])], [("a", FLOAT, ["n"]), ("b", FLOAT, ["n"])], **constants
    )


def expand_to_a_row() -> onnx.ModelProto:
    """The wanted size is that of a first row, of which there may be none."""
    nodes = [
        node("Slice", ["table", "zero", "one", "zero"], ["row"]),
        node("Shape", ["row"], ["wanted"]),
        node("Expand", ["x", "wanted"], ["wide"]),
        node("Neg", ["wide"], ["y"]),
    ]
    inputs = [("x", FLOAT, ["n", 1]), ("table", FLOAT, ["m", 3])]
    return model(nodes, inputs, [("y", FLOAT, ["n", 3])], zero=ints(0), one=ints(1))


RNG = np.random.default_rng(0)
PLANE = RNG.normal(size=(5, 6)).astype(np.float32)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


CASES: dict[str, tuple[Make, list[dict[str, Any]]]] = {
    "nonzero": (nonzero_gather, [{"x": np.float32([0, 1, -2, 0, 3])}, {"x": np.zeros(3,
        np.float32)}]),
    "branches": (branches, [{"x": np.float32([1, 2]), "c": np.array(c)} for c in (True, False,
        True)]),
    "growing loop": (
        growing_loop,
        [{"x": np.float32([1, 2]), "c": np.array(c), "m": np.array(m)} for m, c in [(4, True), (0,
            True), (3, False)]]
        + [{"x": np.float32([20, 30, 1]), "c": np.array(True), "m": np.array(9)}],
    ),
    "twin slices": (twin_slices, [{"x": np.float32(range(n))} for n in (3, 8, 5)]),
    "expand to a row": (
        expand_to_a_row,
        [{"x": np.ones((n, 1), np.float32), "table": np.zeros((m, 3), np.float32)} for n, m in [(4,
            2), (1, 5)]],
    ),
    "swapping loop": (swapping_loop, [{"m": np.array(m)} for m in (1, 2, 7, 0)]),
    "nested loops": (nested_loops, [{"x": np.float32([1, 2, 3]), "m": np.array(m)} for m in (3, 1,
        4)]),
    "scan": (scan(), [{"s": np.zeros(2, np.float32), "x": RNG.normal(size=(5,
        2)).astype(np.float32)}]),
    "scan along axis 1, backwards": (
        scan(scan_input_axes=[1], scan_input_directions=[1], scan_output_axes=[1],
            scan_output_directions=[1]),
        [{"s": np.ones(2, np.float32), "x": RNG.normal(size=(2,
            n)).astype(np.float32)} for n in (4, 1)],
    ),
    "Range": (one("Range", [("a", INT, []), ("b", INT, []), ("c", INT, [])], 1), [
        {"a": np.array(a), "b": np.array(b), "c": np.array(c)} for a, b, c in [(1, 9, 3), (5, 5,
            1), (4, -3, -2)]
    ]),
    "Reshape": (one("Reshape", [X, ("s", INT, [3])], 3), [
        {"x": PLANE, "s": ints(*s)} for s in [(3, -1, 2), (0, 2, 3), (1, 1, 30)]
    ]),
    "Expand": (one("Expand", [X, ("s", INT, [3])], 3), [
        {"x": PLANE[:1], "s": ints(2, 4, 6)}, {"x": PLANE, "s": ints(2, 1, 1)}, {"x": PLANE[:, :1],
            "s": ints(1, 5, 3)}
    ]),
    "Slice": (
        one("Slice", [X, ("s", INT, [2]), ("e", INT, [2]), ("a", INT, [2]), ("t", INT, [2])], 2),
        [
            {"x": PLANE, "s": ints(-1, 1), "e": ints(-100, 5), "a": ints(0, -1), "t": ints(-2, 2)},
            {"x": PLANE, "s": ints(2, 0), "e": ints(2, 9), "a": ints(1, 0), "t": ints(1, 1)},
        ],
    ),
    "Pad": (one("Pad", [X, ("p", INT, [2]), ("none", INT, []), ("a", INT, [1])], 2), [
        {"x": PLANE, "p": ints(-1, 2), "a": ints(-1)}, {"x": PLANE, "p": ints(3, 0), "a": ints(0)}
    ]),
    "Tile": (one("Tile", [X, ("r", INT, [2])], 2), [{"x": PLANE, "r": ints(2, 3)}, {"x": PLANE,
        "r": ints(0, 1)}]),
    "TopK": (one("TopK", [X, ("k", INT, [1])], 2, count=2), [{"x": PLANE,
        "k": ints(k)} for k in (2, 6, 0)]),
    "OneHot": (
        one("OneHot", [("i", INT, ["n"]), ("d", INT, []), ("v", FLOAT, [2])], 2, axis=0),
        [{"i": ints(0, 3, -1, 9), "d": np.array(d), "v": np.float32([-1, 2])} for d in (4, 5)],
    ),
    "Compress": (one("Compress", [X, ("c", BOOL, ["k"])], 2, axis=1), [
        {"x": PLANE, "c": np.array([1, 0, 1, 1], bool)}, {"x": PLANE, "c": np.zeros(6, bool)}
    ]),
    "Split": (one("Split", [X, ("s", INT, [2])], 2, count=2, axis=1), [{"x": PLANE, "s": ints(2,
        4)}]),
    "Squeeze": (one("Squeeze", [X, ("a", INT, [1])], 1), [
        {"x": PLANE[:1], "a": ints(0)}, {"x": PLANE[:, :1], "a": ints(-1)}
    ]),
    "Unsqueeze": (one("Unsqueeze", [X, ("a", INT, [1])], 3), [{"x": PLANE,
        "a": ints(a)} for a in (0, -1, 1)]),
    "CenterCropPad": (one("CenterCropPad", [X, ("s", INT, [2])], 2), [{"x": PLANE, "s": ints(8,
        3)}]),
}  # fmt: skip
