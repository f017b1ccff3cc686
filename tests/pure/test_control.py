"""Control flow: evaluation against ONNX Runtime, types that hold whatever branch or iteration
runs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from infuse import dtypes
from infuse.errors import GraphError, ShapeError, TypeMismatchError, UnsupportedOperatorError
from infuse.frontends.onnx import load
from infuse.ir import Graph, Node, TensorType, Value, constant, dims, tensor
from infuse.ops.arithmetic import Add
from infuse.ops.control import If, Loop, Scan
from infuse.ops.core.evaluate import evaluate, evaluate_node
from infuse.ops.core.inference import infer_graph
from infuse.ops.movement import Concat
from infuse.ops.shaping import Reshape


@dataclass(frozen=True)
class Model:
    """A model as text, the types that must be inferred for its outputs, inputs to run it with.

    The oracle is ONNX Runtime, or where that cannot run it ONNX's reference.
    """

    text: str
    types: tuple[str, ...]
    feeds: tuple[dict[str, Any], ...]
    in_runtime: bool = True

    @property
    def proto(self) -> onnx.ModelProto:
        return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\n{self.text}')


F = np.float32
V = F([1, -2, 3])
MODELS = {
    "branches read values around them": Model(
        """m (bool c, float[n] x) => (float[n] y) {
             z = Neg(x)
             y = If (c) <then_branch = t () => (float[n] a) { a = Add(x, z) },
                         else_branch = e () => (float[n] b) { b = Mul(z, z) }>
        }""",
        ("float32[n]",),
        ({"c": np.array(True), "x": V}, {"c": np.array(False), "x": V}),
    ),
    "branches of different sizes": Model(
        """m (bool c, float[n] x) => (y, r) {
             axes = Constant<value_ints = [0]>()
             y, r = If (c) <then_branch = t () => (a, d) { a = Concat<axis = 0>(x, x)  d = Neg(x) },
                            else_branch = e () => (b, d) { b = Neg(x)  d = Unsqueeze(x, axes) }>
        }""",
        ("float32[_if_1]", "float32[?]"),
        ({"c": np.array(True), "x": V}, {"c": np.array(False), "x": V}),
    ),
    "a branch that is never taken need not fit": Model(
        """m (float[2, 3] x) => (y) {
             c = Constant<value = bool {0}>()
             seven = Constant<value_ints = [7]>()
             y = If (c) <then_branch = t () => (a) { a = Reshape(x, seven) },
                         else_branch = e () => (b) { b = Neg(x) }>
        }""",
        ("float32[2, 3]",),
        ({"x": np.ones((2, 3), F)},),
    ),
    "so many iterations": Model(
        """m (int64 n, float[k] x) => (y, rows) {
             go = Constant<value = bool {1}>()
             y, rows = Loop (n, go, x) <body = b (int64 i, bool c, float[k] s) =>
                 (bool d, float[k] t, float[k] u) {
               d = Identity(c)
               t = Add(s, x)
               u = Mul(t, t)
             }>
        }""",
        ("float32[k]", "float32[_loop_1, k]"),
        ({"n": np.array(3), "x": V}, {"n": np.array(1), "x": V}),
    ),
    "a known number of iterations": Model(
        """m (float[k] x) => (y, rows) {
             shape = Shape(x)
             zero = Constant<value_int = 0>()
             n = Gather(shape, zero)
             y, rows = Loop (n, "", x) <body = b (int64 i, bool c, float[k] s) =>
                 (bool d, float[k] t, float u) {
               d = Identity(c)
               f = Cast<to = 1>(i)
               t = Add(s, f)
               u = ReduceSum<keepdims = 0>(t)
             }>
        }""",
        ("float32[k]", "float32[k]"),
        ({"x": V},),
    ),
    "until a condition fails": Model(
        """m (float[1] x, float limit) => (y, count) {
             go = Constant<value = bool {1}>()
             start = Constant<value_int = 0>()
             y, count = Loop ("", go, x, start)
               <body = b (int64 i, bool c, float[1] s, int64 n) => (bool d, float[1] t, int64 m) {
                 one = Constant<value_int = 1>()
                 t = Add(s, s)
                 m = Add(n, one)
                 whole = ReduceSum<keepdims = 0>(t)
                 d = Less(whole, limit)
             }>
        }""",
        ("float32[1]", "int64[]"),
        ({"x": F([1]), "limit": np.array(100, F)}, {"x": F([200]), "limit": np.array(100, F)}),
    ),
    "a carried tensor that grows": Model(
        """m (int64 n, float[k] x) => (y) {
             go = Constant<value = bool {1}>()
             y = Loop (n, go, x) <body = b (int64 i, bool c, s) => (d, t) {
               d = Identity(c)
               t = Concat<axis = 0>(s, x)
             }>
        }""",
        ("float32[_loop_2]",),
        ({"n": np.array(0), "x": V}, {"n": np.array(4), "x": V}),
    ),
    "a loop in a loop": Model(
        """m (int64 n, float[k] x) => (y, rows) {
             go = Constant<value = bool {1}>()
             y, rows = Loop (n, go, x) <body = b (int64 i, bool c, float[k] s) => (d, t, e) {
               d = Identity(c)
               t, e = Loop (i, go, s) <body = w (int64 j, bool c2, float[k] s2) => (d2, t2) {
                 d2 = Identity(c2)
                 p = Cast<to = 1>(j)
                 q = Cast<to = 1>(i)
                 r = Add(p, q)
                 h = Mul(r, x)
                 t2 = Add(s2, h)
               }>
             }>
        }""".replace("t, e = Loop", "t = Loop").replace("(d, t, e)", "(d, t, t)"),
        ("float32[k]", "float32[_loop_2, k]"),
        ({"n": np.array(4), "x": V},),
    ),
    "a sequence that grows": Model(
        """m (int64 n, float[k] x) => (y, z) {
             go = Constant<value = bool {1}>()
             empty = SequenceEmpty<dtype = 1>()
             y = Loop (n, go, empty) <body = b (int64 i, bool c, seq(float[k]) s) => (d, t) {
               d = Identity(c)
               f = Cast<to = 1>(i)
               part = Mul(x, f)
               t = SequenceInsert(s, part)
             }>
             z = ConcatFromSequence<axis = 0>(y)
        }""",
        ("seq(float32[?])", "float32[?]"),
        ({"n": np.array(3), "x": V},),
    ),
    "scanned rows and a state": Model(
        """m (float[k] s, float[t, k] x) => (y, rows) {
             y, rows = Scan <num_scan_inputs = 1, body = b (float[k] a, float[k] p) => (c, d) {
               c = Add(a, p)
               d = Mul(c, p)
             }> (s, x)
        }""",
        ("float32[k]", "float32[t, k]"),
        ({"s": V, "x": np.arange(12, dtype=F).reshape(4, 3)},),
    ),
    "mapped parts of a sequence": Model(
        """m (float[6, 2] x, float[2] w) => (float[a, 2] y) {
             parts = SplitToSequence<axis = 0>(x)
             mapped = SequenceMap (parts, w) <body = b
                 (float[1, 2] p, float[2] q) => (r) { r = Mul(p, q) }>
             y = ConcatFromSequence<axis = 0>(mapped)
        }""",
        ("float32[_concat_1, 2]",),
        ({"x": np.arange(12, dtype=F).reshape(6, 2), "w": F([2, -1])},),
        in_runtime=False,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_control_flow_agrees_with_onnx_runtime(name: str) -> None:
    model = MODELS[name]
    graph = load(model.proto)
    session = ReferenceEvaluator(model.proto)
    if model.in_runtime:
        session = onnxruntime.InferenceSession(
            model.proto.SerializeToString(), providers=["CPUExecutionProvider"]
        )
    infer_graph(graph)
    assert tuple(str(v.type) for v in graph.outputs) == model.types
    for feeds in model.feeds:
        found = list(evaluate(graph, feeds).values())
        for ours, theirs in zip(found, session.run(None, feeds), strict=True):
            for a, b in (
                zip(ours, theirs, strict=True) if isinstance(ours, list) else [(ours, theirs)]
            ):
                assert a.dtype == b.dtype
                np.testing.assert_allclose(a, b, rtol=1e-6, strict=True)
        for value, result in zip(graph.outputs, found):
            if isinstance(value.type, TensorType) and value.type.shape is not None:
                sizes = {"k": 3, "n": 3, "t": 4}
                known = [dims.substitute(d, sizes) for d in value.type.shape]
                assert [n for k, n in zip(known, result.shape) if isinstance(k, int)] == [
                    k for k in known if isinstance(k, int)
                ]


def body(name: str, *types: TensorType) -> Graph:
    graph = Graph(name)
    for index, type in enumerate(types):
        graph.add_input(f"{name}{index}", type)
    return graph


def add(
    graph: Graph, op: Any, *inputs: Value | None, outputs: int = 1, **bodies: Graph
) -> list[Value]:
    made = [Value(tensor(dtypes.float32)) for _ in range(outputs)]
    graph.add_node(Node(op, inputs, made, name=f"the {op.name}", subgraphs=bodies))
    return made


ROW = tensor(dtypes.float32, 3)
NUMBER, TRUTH = tensor(dtypes.int64), tensor(dtypes.bool_)


def scanned(op: Scan, x: Any) -> tuple[Any, ...]:
    """The running sum of x along the scanned axis, and the state after it, by a Scan with these
    attributes.
    """
    inner = body("b", ROW, ROW)
    (total,) = add(inner, Add(), *inner.inputs)
    inner.add_output(total)
    inner.add_output(total)
    graph = Graph()
    state, data = graph.add_input("s", ROW), graph.add_input("x", tensor(dtypes.float32, *x.shape))
    for value, name in zip(add(graph, op, state, data, outputs=2, body=inner), ("last", "all")):
        graph.add_output(value, name)
    infer_graph(graph)
    found = evaluate(graph, {"s": np.zeros(3, F), "x": x})
    assert all(v.shape == found[n].shape for v, n in zip(graph.outputs, graph.output_names))
    return found["last"], found["all"]


def test_scans_run_along_any_axis_in_both_directions() -> None:
    x = np.arange(12, dtype=F).reshape(4, 3)
    last, sums = scanned(Scan(num_scan_inputs=1), x)
    assert np.array_equal(last, x.sum(0))
    assert np.array_equal(sums, x.cumsum(0))
    last, sums = scanned(Scan(num_scan_inputs=1, scan_input_axes=(-1,), scan_output_axes=(1,)), x.T)
    assert np.array_equal(sums, x.cumsum(0).T)
    _, sums = scanned(Scan(num_scan_inputs=1, scan_input_directions=(1,)), x)
    assert np.array_equal(sums, x[::-1].cumsum(0))
    _, sums = scanned(Scan(num_scan_inputs=1, scan_output_directions=(1,)), x)
    assert np.array_equal(sums, x.cumsum(0)[::-1])
    last, sums = scanned(Scan(num_scan_inputs=1, scan_output_axes=(-1,)), x[:0])
    assert np.array_equal(last, np.zeros(3))
    assert sums.shape == (3, 0)


def loop(carried: TensorType, op: Any, *extra: Value) -> tuple[Graph, Graph]:
    """A graph with a Loop over `carried`, whose body applies `op` to the carried value and `extra`,
    twice an output.
    """
    inner = body("b", NUMBER, TRUTH, carried)
    (result,) = add(inner, op, inner.inputs[2], *extra)
    inner.add_output(inner.inputs[1], "go")
    inner.add_output(result, "t")
    inner.add_output(result, "u")
    graph = Graph()
    trips, start = graph.add_input("n", NUMBER), graph.add_input("x", carried)
    for value, name in zip(
        add(graph, Loop(), trips, None, start, outputs=2, body=inner), ("y", "rows")
    ):
        graph.add_output(value, name)
    return graph, inner


def test_no_iteration_stacks_nothing() -> None:
    graph, _ = loop(ROW, Add(), constant(F([1])))
    infer_graph(graph)
    found = evaluate(graph, {"n": np.array(-5), "x": V})
    assert np.array_equal(found["y"], V)
    assert found["rows"].shape == (0, 3)
    assert found["rows"].dtype == F


def test_carried_sizes_widen_until_they_hold() -> None:
    graph, inner = loop(
        tensor(dtypes.float32, "a", 1), Concat(axis=0), constant(np.ones((2, 1), F))
    )
    infer_graph(graph)
    first = [str(v.type) for v in (*inner.inputs, *inner.outputs, *graph.outputs)]
    assert first == [
        *("int64[]", "bool[]", "float32[_loop_1, 1]"),
        *("bool[]", "float32[_loop_1 + 2, 1]", "float32[_loop_1 + 2, 1]"),
        *("float32[_loop_2, 1]", "float32[_loop_3, _body_1, 1]"),
    ]
    infer_graph(graph)
    assert [str(v.type) for v in (*inner.inputs, *inner.outputs, *graph.outputs)] == first
    rank_changes, _ = loop(ROW, Reshape(), constant(np.array([1, -1])))
    infer_graph(rank_changes)
    assert [str(v.type) for v in rank_changes.outputs] == [
        "float32[?]",
        "float32[_loop_1, 1, _body_1]",
    ]


def test_a_known_count_is_the_size_of_what_is_stacked() -> None:
    graph, _ = loop(ROW, Add(), constant(F([1])))
    node = next(iter(graph.unordered_nodes))
    node.set_operand(0, constant(np.array(5)))
    infer_graph(graph)
    assert str(graph.outputs[1].type) == "float32[5, 3]"
    node.set_operand(1, constant(np.array(False)))
    infer_graph(graph)
    assert str(graph.outputs[1].type) == "float32[_loop_1, 3]"


def test_errors_name_the_nodes_on_the_way() -> None:
    graph, _ = loop(ROW, Reshape(), constant(np.array([7])))
    with pytest.raises(ShapeError) as caught:
        infer_graph(graph)
    assert caught.value.where == "Loop node 'the Loop': Reshape node 'the Reshape'"
    with pytest.raises(Exception, match="cannot reshape") as run:
        evaluate(graph, {"n": np.array(1), "x": V})
    assert run.value.where == "Loop node 'the Loop': Reshape node 'the Reshape'"  # type: ignore[attr-defined]


def test_bodies_that_do_not_fit() -> None:
    graph, inner = loop(ROW, Add(), constant(F([1])))
    inner.add_input("more", ROW)
    with pytest.raises(TypeMismatchError, match="takes 4 inputs, 3 are given"):
        infer_graph(graph)

    with pytest.raises(GraphError, match="has no then_branch"):
        infer_graph_of(If(), constant(np.array(True)))

    one, two = body("t"), body("e")
    one.add_output(constant(V), "a")
    with pytest.raises(TypeMismatchError, match="its branches give 1 and 0 outputs"):
        infer_graph_of(If(), Value(TRUTH), then_branch=one, else_branch=two)
    two.add_output(constant(np.array([1])), "b")
    with pytest.raises(TypeMismatchError, match="have no common type"):
        infer_graph_of(If(), Value(TRUTH), then_branch=one, else_branch=two)
    with pytest.raises(TypeMismatchError, match="give 1 outputs, 2 are asked for"):
        infer_graph_of(If(), constant(np.array(True)), outputs=2, then_branch=one, else_branch=two)


def infer_graph_of(op: Any, *inputs: Value, outputs: int = 1, **bodies: Graph) -> None:
    graph = Graph()
    add(graph, op, *inputs, outputs=outputs, **bodies)
    infer_graph(graph)


def test_scanned_inputs_of_different_lengths() -> None:
    inner = body("b", tensor(dtypes.float32), tensor(dtypes.float32))
    inner.add_output(inner.inputs[0], "a")
    graph = Graph()
    x, y = (
        graph.add_input("x", tensor(dtypes.float32, "n")),
        graph.add_input("y", tensor(dtypes.float32, "m")),
    )
    graph.add_output(*add(graph, Scan(num_scan_inputs=2), x, y, body=inner), "z")
    infer_graph(graph)
    with pytest.raises(ShapeError, match=r"\[2, 3\] slices"):
        evaluate(graph, {"x": F([1, 2]), "y": V})
    x.type, y.type = tensor(dtypes.float32, 2), ROW
    with pytest.raises(ShapeError, match="scanned axes must be equal, found 2 and 3"):
        infer_graph(graph)


def test_a_body_without_its_graph_reads_constants_only() -> None:
    graph, inner = loop(ROW, Add(), constant(F([1])))
    infer_graph(graph)
    node = next(iter(graph.unordered_nodes))
    y, rows = evaluate_node(node, [np.array(2), None, V])
    assert np.array_equal(y, V + 2)
    assert np.array_equal(rows, [V + 1, V + 2])
    outer = Value(ROW, "outer")
    next(iter(inner.unordered_nodes)).set_operand(1, outer)
    with pytest.raises(GraphError, match="'outer' is read before it is made"):
        evaluate_node(node, [np.array(2), None, V])


def test_control_flow_has_no_types_without_bodies() -> None:
    for op in (If(), Loop(), Scan(num_scan_inputs=1)):
        with pytest.raises(GraphError, match="has no types without its"):
            op.infer(Value(TRUTH))
        with pytest.raises(UnsupportedOperatorError, match="has no evaluation"):
            op.eval(np.array(True))
