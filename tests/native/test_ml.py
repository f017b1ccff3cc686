"""Tables and texts in native code beside the table: forests against a walk in Python, bad data,
stages for strings.
"""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import infuse
from infuse import dtypes, ops
from infuse.build.compile import compile_graph
from infuse.errors import RuntimeFailure
from infuse.ir import Graph, Node, Value, tensor
from infuse.ir.types import UNKNOWN
from infuse.onnxruntime import InferenceSession
from infuse.ops.domains.ml import as_texts
from infuse.options import CompileOptions
from infuse.runtime.hosted import HostedModel

ML = "ai.onnx.ml"
MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")


def model_of(
    graph: Graph,
    op: Any,
    shape: tuple[Any, ...],
    dtype: dtypes.DType = dtypes.float32,
    outputs: int = 1,
) -> Graph:
    """`graph` with one more node on an input of its own."""
    number = len(graph.inputs)
    x = graph.add_input(f"x{number}", tensor(dtype, *shape))
    made = Node(
        op, [x], [Value(UNKNOWN, f"y{number}_{i}") for i in range(outputs)], name=f"n{number}"
    )
    graph.add_node(made).op.infer_node(made)
    for value in made.outputs:
        graph.add_output(value)
    return graph


def forest(
    rng: np.random.Generator, trees: int, depth: int, targets: int, modes: tuple[str, ...]
) -> dict[str, Any]:
    """Attributes of random trees whose leaves vote for none, one or several targets."""
    nodes: dict[str, list[Any]] = {
        k: [] for k in ("treeids", "nodeids", "featureids", "values", "modes")
    }
    nodes |= {"truenodeids": [], "falsenodeids": [], "missing_value_tracks_true": []}
    votes: dict[str, list[Any]] = {k: [] for k in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(trees):
        open_, count = [(0, 0)], 1
        while open_:
            node, level = open_.pop()
            leaf = level == depth or rng.random() < 0.2
            nodes["treeids"].append(tree)
            nodes["nodeids"].append(node)
            nodes["featureids"].append(int(rng.integers(5)))
            nodes["values"].append(float(rng.integers(-2, 3)) / 2)
            nodes["modes"].append("LEAF" if leaf else f"BRANCH_{rng.choice(modes)}")
            nodes["missing_value_tracks_true"].append(int(rng.integers(2)) if len(modes) > 1 else 0)
            nodes["truenodeids"].append(0 if leaf else count)
            nodes["falsenodeids"].append(0 if leaf else count + 1)
            if not leaf:
                open_ += [(count, level + 1), (count + 1, level + 1)]
                count += 2
            for target in np.flatnonzero(rng.random(targets) < 0.6) if leaf else ():
                for key, value in zip(
                    votes, (tree, node, int(target), float(np.float32(rng.normal())))
                ):
                    votes[key].append(value)
    named = {f"nodes_{k}": tuple(v) for k, v in nodes.items()} | {
        f"target_{k}": tuple(v) for k, v in votes.items()
    }
    return {**named, "n_targets": targets}


@pytest.mark.parametrize("threads", [1, 3])
def test_forests_add_up_in_the_order_of_the_trees(threads: int) -> None:
    rng = np.random.default_rng(3)
    graph, cases = Graph("forests"), []
    for dtype in (dtypes.float32, dtypes.float64):
        for modes in (("LEQ",), ("GT",), MODES):
            for rows, trees, depth, targets, how in (
                (1, 21, 9, 1, "SUM"),
                (77, 9, 4, 3, "SUM"),
                (203, 5, 1, 1, "MAX"),
                (9, 3, 0, 2, "MIN"),
            ):
                op = ops.REGISTRY[ML, "TreeEnsembleRegressor"](
                    aggregate_function=how, **forest(rng, trees, depth, targets, modes)
                )
                x = (rng.integers(-4, 5, (rows, 5)) / 2).astype(dtype.numpy)
                x[rng.random(x.shape) < 0.1] = np.nan
                x[rng.random(x.shape) < 0.05] = np.inf
                model_of(graph, op, x.shape, dtype)
                cases.append((op, x))
    with compile_graph(graph, CompileOptions(threads=threads)) as model:
        found = model.run({f"x{i}": x for i, (_, x) in enumerate(cases)})
    for (op, x), actual in zip(cases, found.values()):
        assert actual.tobytes() == op.eval(x).tobytes()


def test_a_row_is_too_short_for_the_trees() -> None:
    op = ops.REGISTRY[ML, "TreeEnsembleRegressor"](
        **forest(np.random.default_rng(0), 3, 3, 1, ("LEQ",))
    )
    graph = model_of(Graph("short"), op, ("n", "m"))
    with compile_graph(graph, CompileOptions(threads=1)) as model:
        assert model.run({"x0": np.zeros((2, 5), np.float32)})["y0_0"].shape == (2, 1)
        assert model.run({"x0": np.zeros((0, 5), np.float32)})["y0_0"].shape == (0, 1)
        with pytest.raises(RuntimeFailure):
            model.run({"x0": np.zeros((2, 2), np.float32)})


def test_an_element_that_is_no_category_is_an_error() -> None:
    graph = model_of(
        Graph("codes"),
        ops.REGISTRY[ML, "OneHotEncoder"](cats_int64s=(3, 1), zeros=0),
        ("n",),
        dtypes.int64,
    )
    with compile_graph(graph, CompileOptions(threads=1)) as model:
        assert model.run({"x0": np.array([1, 3])})["y0_0"].tolist() == [[0, 1], [1, 0]]
        with pytest.raises(RuntimeFailure):
            model.run({"x0": np.array([1, 2])})


def test_equal_categories_and_edges_of_integers() -> None:
    graph, limit = Graph("edges"), np.iinfo(np.int64)
    x = np.array([limit.min, limit.max, 2**24 + 1, 0, -1])
    kinds = [
        ops.REGISTRY[ML, "OneHotEncoder"](cats_int64s=(0, -1, 0, int(limit.max))),
        ops.REGISTRY[ML, "LabelEncoder"](
            keys_int64s=(0, int(limit.max), 0, int(limit.min)), values_int64s=(1, 2, 3, 4)
        ),
        *(
            ops.REGISTRY[ML, "Binarizer"](threshold=t)
            for t in (-0.5, 16777216.0, 1e30, -1e30, float("nan"))
        ),
    ]
    for op in kinds:
        model_of(graph, op, x.shape, dtypes.int64)
    with compile_graph(graph, CompileOptions(threads=1)) as model:
        found = model.run({f"x{i}": x for i in range(len(kinds))})
    for op, actual in zip(kinds, found.values()):
        assert actual.tolist() == op.eval(x).tolist(), op


def named_classifier() -> bytes:
    """A classifier with names for classes, its scores as dictionaries."""
    classes = {"classlabels_strings": ["no", "yes", "é"]}
    graph = helper.make_graph(
        [
            helper.make_node("Scaler", ["x"], ["s"], domain=ML, offset=[0.5], scale=[2.0]),
            helper.make_node(
                *("LinearClassifier", ["s"], ["label", "p"]),
                **{"domain": ML, "post_transform": "SOFTMAX", **classes},
                coefficients=[1.0, 2.0, -1.0, 0.5, 0.0, 1.0],
                intercepts=[0.1, 0.2, 0.3],
            ),
            helper.make_node("ZipMap", ["p"], ["z"], domain=ML, **classes),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
        [
            helper.make_tensor_value_info("label", TensorProto.STRING, ["n"]),
            helper.make_empty_tensor_value_info("z"),
        ],
    )
    graph.output[1].type.sequence_type.elem_type.map_type.key_type = TensorProto.STRING
    graph.output[
        1
    ].type.sequence_type.elem_type.map_type.value_type.tensor_type.elem_type = TensorProto.FLOAT
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(ML, 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def test_only_the_names_of_classes_are_left_to_the_host(tmp_path: Any) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="is the witness")
    data, x = named_classifier(), np.random.default_rng(0).normal(size=(7, 2)).astype(np.float32)
    session = InferenceSession(data)
    assert sorted(step.split()[0] for step in session.host_steps) == ["Gather", "ZipMap"]
    expected = onnxruntime.InferenceSession(data).run(None, {"x": x})
    model = infuse.compile(infuse.load(data), output=tmp_path / "model")
    assert isinstance(model, HostedModel)
    for labels, maps in (
        session.run(None, {"x": x}),
        infuse.load_compiled(tmp_path / "model").execute([x]),
    ):
        assert labels.tolist() == expected[0].tolist()
        for one, other in zip(maps, expected[1], strict=True):
            assert list(one) == list(other)
            np.testing.assert_allclose(list(one.values()), list(other.values()), rtol=1e-5)


def test_strings_may_come_as_any_array_of_text() -> None:
    graph = Graph("texts")
    x, y = (graph.add_input(name, tensor(dtypes.string, 2)) for name in "xy")
    made = Node(ops.REGISTRY["", "StringConcat"](), [x, y], [Value(UNKNOWN, "z")])
    graph.add_node(made).op.infer_node(made)
    graph.add_output(made.output)
    with compile_graph(graph) as model:
        for a, b in (
            (np.array(["a", "é"]), as_texts(["b", ""])),
            (np.array([b"a", "é".encode()]), np.array(["b", ""])),
        ):
            assert model.run({"x": a, "y": b})["z"].tolist() == ["ab", "é"]


def test_a_graph_may_take_strings_and_need_none_of_them() -> None:
    graph = Graph("sizes")
    x = graph.add_input("x", tensor(dtypes.string, 2, 3))
    made = Node(ops.REGISTRY["", "Shape"](), [x], [Value(UNKNOWN, "y")])
    graph.add_node(made).op.infer_node(made)
    graph.add_output(made.output)
    with infuse.compile(graph) as model:
        assert model.run({"x": as_texts(["a"] * 6).reshape(2, 3)})["y"].tolist() == [2, 3]


def test_strings_are_padded_with_empty_ones() -> None:
    op = ops.REGISTRY["", "Pad"]()
    assert op.eval(as_texts(["a", "b", "c"]), np.array([1, -1])).tolist() == ["", "a", "b"]
