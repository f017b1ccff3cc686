"""Operators of ai.onnx.ml and of texts beside the table: bad models, bad data, RE2's patterns,
maps.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import infuse
from infuse import dtypes, ops
from infuse.errors import (
    InfuseError,
    InputError,
    ShapeError,
    TypeMismatchError,
    UnsupportedOperatorError,
)
from infuse.ir import Graph, MapType, Node, SequenceType, TensorType, Value, tensor
from infuse.ir.equality import equal
from infuse.ir.types import UNKNOWN, Type
from infuse.ops.core.evaluate import evaluate
from infuse.ops.domains.ml import as_texts
from infuse.ops.text import compiled_pattern

ML = "ai.onnx.ml"
TREE: dict[str, Any] = {
    "nodes_treeids": (0, 0, 0),
    "nodes_nodeids": (0, 1, 2),
    "nodes_featureids": (1, 0, 0),
    "nodes_modes": ("BRANCH_LEQ", "LEAF", "LEAF"),
    "nodes_values": (0.5, 0.0, 0.0),
    "nodes_truenodeids": (1, 0, 0),
    "nodes_falsenodeids": (2, 0, 0),
    "target_treeids": (0, 0),
    "target_nodeids": (1, 2),
    "target_ids": (0, 0),
    "target_weights": (1.0, 2.0),
}


def node(kind: str, *types: Type, outputs: int = 1, **attributes: Any) -> Node:
    """A node of ai.onnx.ml, its types inferred."""
    values = [Value(type, f"x{i}") for i, type in enumerate(types)]
    made = Node(
        ops.REGISTRY[ML, kind](**attributes),
        values,
        [Value(UNKNOWN, f"y{i}") for i in range(outputs)],
    )
    made.op.infer_node(made)
    return made


@pytest.mark.parametrize(
    "changes",
    [
        {"nodes_values": (0.5, 0.0)},
        {"nodes_missing_value_tracks_true": (1,)},
        {"nodes_nodeids": (0, 1, 1)},
        {"nodes_truenodeids": (7, 0, 0)},
        {"nodes_truenodeids": (0, 0, 0)},
        {"nodes_featureids": (-1, 0, 0)},
        {"nodes_modes": ("BRANCH_SOMEHOW", "LEAF", "LEAF")},
        {"target_ids": (0, 1)},
        {"target_nodeids": (1, 9)},
        {"target_weights": (1.0,)},
        {"base_values": (1.0, 2.0, 3.0)},
        {"aggregate_function": "MEDIAN"},
        {"post_transform": "SQUARE"},
        {"nodes_treeids": ()},
    ],
    ids=str,
)
def test_broken_trees_are_refused(changes: dict[str, Any]) -> None:
    assert node("TreeEnsembleRegressor", tensor(dtypes.float32, 4, 2), **TREE).output.shape == (
        4,
        1,
    )
    with pytest.raises(TypeMismatchError):
        node("TreeEnsembleRegressor", tensor(dtypes.float32, 4, 2), **{**TREE, **changes})


def test_trees_need_the_columns_that_they_look_at() -> None:
    with pytest.raises(ShapeError, match="looks at: 2 is more than 1"):
        node("TreeEnsembleRegressor", tensor(dtypes.float32, 4, 1), **TREE)


MODERN: dict[str, Any] = {
    "tree_roots": (0,),
    "nodes_featureids": (0, 1),
    "nodes_modes": np.array([0, 6], np.uint8),
    "nodes_splits": np.array([0.5, 0.0], np.float32),
    "nodes_truenodeids": (1, 0),
    "nodes_trueleafs": (0, 1),
    "nodes_falsenodeids": (2, 1),
    "nodes_falseleafs": (1, 1),
    "leaf_targetids": (0, 0, 0),
    "leaf_weights": np.array([1, 2, 3], np.float32),
    "membership_values": np.array([4.0, 0.0, np.nan], np.float32),
}


@pytest.mark.parametrize(
    "changes",
    [
        {"tree_roots": (2,)},
        {"nodes_truenodeids": (0, 0)},
        {"nodes_falsenodeids": (9, 1)},
        {"nodes_modes": np.array([0, 7], np.uint8)},
        {"membership_values": None},
        {"leaf_targetids": (0, 0, 1)},
        {"leaf_weights": np.array([1.0], np.float32)},
        {"nodes_trueleafs": (0,)},
    ],
    ids=lambda c: next(iter(c)),
)
def test_broken_modern_trees_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(TypeMismatchError):
        node("TreeEnsemble", tensor(dtypes.float32, 4, 2), **{**MODERN, **changes})


def test_zero_is_a_member_of_a_set() -> None:
    x = np.array([[0, 0], [0, 4], [0, 5], [1, 0]], np.float32)
    assert ops.REGISTRY[ML, "TreeEnsemble"](**MODERN).eval(x).reshape(-1).tolist() == [1, 1, 2, 3]


def test_trees_of_one_leaf() -> None:
    op = ops.REGISTRY[ML, "TreeEnsemble"](
        **{**MODERN, "nodes_falseleafs": (1, 1), "nodes_falsenodeids": (2, 0), "tree_roots": (1, 1)}
    )
    assert op.eval(np.zeros((2, 2), np.float32)).reshape(-1).tolist() == [2, 2]


def test_operators_with_arrays_are_compared_by_their_elements() -> None:
    kind = ops.REGISTRY[ML, "TreeEnsemble"]
    same = {**MODERN, "leaf_weights": MODERN["leaf_weights"].copy()}
    assert kind(**MODERN) == kind(**same)
    assert hash(kind(**MODERN)) == hash(kind(**same))
    assert kind(**MODERN) != kind(**{**MODERN, "leaf_weights": np.array([1, 2, 4], np.float32)})


@pytest.mark.parametrize(
    ("kind", "type", "attributes"),
    [
        ("Scaler", tensor(dtypes.float32, 2, 3), {"offset": (1.0, 2.0), "scale": (1.0,)}),
        ("Scaler", tensor(dtypes.string, 2, 3), {"offset": (1.0,), "scale": (1.0,)}),
        ("Normalizer", tensor(dtypes.float32, 2, 3), {"norm": "L3"}),
        ("Imputer", tensor(dtypes.int64, 2, 3), {"imputed_value_floats": (1.0,)}),
        ("LinearRegressor", tensor(dtypes.float32, 2, 3), {"coefficients": (1.0, 2.0)}),
        ("LinearRegressor", tensor(dtypes.float32, 2, 3, 4), {"coefficients": (1.0,) * 4}),
        (
            "LinearClassifier",
            tensor(dtypes.float32, 2, 1),
            {"coefficients": (1.0,) * 3, "intercepts": (0.0,) * 3, "classlabels_ints": (1, 2)},
        ),
        ("LabelEncoder", tensor(dtypes.int64, 2), {"keys_int64s": (1, 2), "values_int64s": (1,)}),
        ("LabelEncoder", tensor(dtypes.int64, 2), {"keys_strings": ("a",), "values_int64s": (1,)}),
        (
            "LabelEncoder",
            tensor(dtypes.int64, 2),
            {"keys_int64s": (1,), "keys_floats": (1.0,), "values_int64s": (1,)},
        ),
        ("OneHotEncoder", tensor(dtypes.int64, 2), {"cats_strings": ("a",)}),
        ("OneHotEncoder", tensor(dtypes.int64, 2), {}),
        ("ZipMap", tensor(dtypes.float32, 2, 3), {"classlabels_int64s": (1, 2)}),
        ("DictVectorizer", tensor(dtypes.float32, 2), {"int64_vocabulary": (1, 2)}),
        (
            "SVMRegressor",
            tensor(dtypes.float32, 2, 3),
            {"coefficients": (1.0,), "kernel_type": "CUBE", "rho": (0.0,), "n_supports": 1},
        ),
    ],
    ids=lambda v: str(v)[:40],
)
def test_what_does_not_fit_is_refused(kind: str, type: Type, attributes: dict[str, Any]) -> None:
    with pytest.raises(InfuseError):
        node(kind, type, **attributes)


# -- maps ------------------------------------------------------------------------------------------


def zipped() -> Graph:
    graph = Graph("zipped")
    x = graph.add_input("x", tensor(dtypes.float32, "n", 2))
    made = Node(
        ops.REGISTRY[ML, "ZipMap"](classlabels_strings=("no", "yes")), [x], [Value(UNKNOWN, "z")]
    )
    graph.add_node(made).op.infer_node(made)
    graph.add_output(made.output, "z")
    return graph


def test_a_map_is_a_type_of_the_file_and_of_the_text(tmp_path: Path) -> None:
    graph = zipped()
    expected = SequenceType(MapType(dtypes.string, TensorType(dtypes.float32, ())))
    assert graph.outputs[0].type == expected
    assert str(expected) == "seq(map(string, float32[]))"
    for name in ("m.infuse", "m.onnx"):
        infuse.save(graph, tmp_path / name)
        again = infuse.load(tmp_path / name)
        assert again.outputs[0].type == expected
        assert again.nodes[0].op == graph.nodes[0].op
    assert equal(graph, infuse.load(tmp_path / "m.infuse")) is None
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)


def test_a_map_is_an_input() -> None:
    model = helper.make_model(
        helper.make_graph(
            [
                helper.make_node(
                    "DictVectorizer", ["x"], ["y"], domain=ML, string_vocabulary=["a", "b"]
                )
            ],
            "g",
            [
                helper.make_value_info(
                    "x",
                    helper.make_map_type_proto(
                        TensorProto.STRING, helper.make_tensor_type_proto(1, [])
                    ),
                )
            ],
            [helper.make_tensor_value_info("y", 1, [1, 2])],
        ),
        opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(ML, 1)],
    )
    graph = infuse.load(model)
    assert graph.inputs[0].type == MapType(dtypes.string, TensorType(dtypes.float32, ()))
    assert evaluate(graph, {"x": {"b": 2.5}})["y"].tolist() == [[0.0, 2.5]]
    for wrong in (np.zeros(2, np.float32), {1: 2.0}):
        with pytest.raises(InputError, match="map"):
            evaluate(graph, {"x": wrong})
    with pytest.raises(InfuseError, match="'c'"):
        evaluate(graph, {"x": {"c": 1.0}})


def test_the_old_label_encoder_is_lifted() -> None:
    for code, data, expected in (
        (8, as_texts(["b", "z"]), [1, 7]),
        (7, np.array([1, 9]), ["b", "?"]),
    ):
        encoder = helper.make_node(
            "LabelEncoder",
            ["x"],
            ["y"],
            domain=ML,
            classes_strings=["a", "b"],
            default_int64=7,
            default_string="?",
        )
        given = helper.make_tensor_value_info("x", code, [2])
        graph = helper.make_graph(
            [encoder], "g", [given], [helper.make_tensor_value_info("y", 15 - code, [2])]
        )
        opsets = [helper.make_opsetid("", 8), helper.make_opsetid(ML, 1)]
        assert (
            evaluate(infuse.load(helper.make_model(graph, opset_imports=opsets)), {"x": data})[
                "y"
            ].tolist()
            == expected
        )


# -- RE2's patterns --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        (r"\d+", ["12"], ["", "1a", "٣"]),
        (r"\w+\s", ["a_1 ", "b\n"], ["é ", "a\v"]),
        (r"[\D\W]+", ["é!"], ["1a"]),
        ("a$", ["a"], ["a\n"]),
        ("(?m)a$\nb", ["a\nb"], ["ab"]),
        ("(?i)é|B", ["É", "b", "B"], ["c"]),
        ("a(?i)b|c", ["aB", "C"], ["AB"]),
        ("(a(?i)b)c", ["aBc"], ["aBC"]),
        ("(?s).(?-s:.)", ["\na"], ["a\n"]),
        ("(?U)a*?", ["", "aa"], ["b"]),
        (r"\Qa.b\E+", ["a.b", "a.bb"], ["axb"]),
        (r"\x{1F600}\x41\101", ["😀AA"], ["AA"]),
        ("[[:alpha:][:digit:]-]+", ["a1-"], ["é"]),
        ("[]a[&&b]+", ["]a[&b"], ["c"]),
        ("[^a-c]", ["d"], ["b"]),
        ("a{,2}", ["a{,2}"], ["aa"]),
        ("x{2}{", ["xx{"], ["x"]),
        ("(?P<n>a)(?<m>b)(?:c)", ["abc"], ["ab"]),
        (r"\ba\b \Bb*", ["a "], ["ab", "a b"]),
        (r"\pL+[[:^alpha:]]", ["é1"], ["1", "éa"]),
    ],
)
def test_patterns_mean_what_they_mean_in_re2(
    pattern: str, matches: list[str], others: list[str]
) -> None:
    found = compiled_pattern(pattern)
    assert [text for text in matches if found.fullmatch(text) is None] == []
    assert [text for text in others if found.fullmatch(text) is not None] == []


@pytest.mark.parametrize(
    "pattern", ["(a*)*b", "(a|aa)+b", "(a|a)*b", "(.*a){9}b", "(?:a?){99}a{99}b"]
)
def test_patterns_match_in_linear_time(pattern: str) -> None:
    """Where one that tries again and again does not end."""
    assert compiled_pattern(pattern).fullmatch("a" * 100_000) is None


def test_patterns_need_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(UnsupportedOperatorError, match="needs the package google-re2"):
        compiled_pattern("a pattern that nobody compiled before")


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            r"(a)\1",
            "(?=a)",
            "(?<!a)b",
            "(?>a)",
            "a++",
            "a**",
            "a{2}{3}",
            "a{1001}",
            "(?P=n)",
            r"\Z",
            r"\y",
        ),
        *(
            "[a",
            "(a",
            "a)",
            r"\x{110000}",
            "*a",
            "(?#c)",
            "(?i",
            "\\",
            "[b-a]",
            "(?(1)a|b)",
            r"[\b]",
        ),
    ],
)
def test_patterns_that_re2_does_not_know_are_refused(pattern: str) -> None:
    with pytest.raises(UnsupportedOperatorError):
        compiled_pattern(pattern)
