"""What readers build graphs with: names, scopes, sizes, bodies, the error for missing operators."""

import numpy as np
import pytest

from infuse import dtypes
from infuse.errors import GraphError, InfuseError, UnsupportedOperatorError
from infuse.ops.core.evaluate import evaluate
from infuse.tracing.importer import Importer, require_all


def test_a_graph_is_built_and_computes() -> None:
    g = Importer("net")
    x = g.input("x", dtypes.float32, ["batch", 3])
    weight = np.arange(6, dtype=np.float32).reshape(3, 2)
    g.output("y", g("Relu", g("MatMul", x, g.constant(weight, "weight"))))
    array = np.array([[1, -2, 3], [-1, 0, 0]], np.float32)
    y = evaluate(g.graph, {"x": array})["y"]
    np.testing.assert_array_equal(y, np.maximum(array @ weight, 0))
    assert str(g.graph.outputs[0].type) == "float32[batch, 2]"


def test_constants_are_not_copied() -> None:
    weight = np.zeros((4, 4), np.float32)
    value = Importer("net").constant(weight, "weight")
    assert value.const is not None
    assert np.shares_memory(value.const, weight)


def test_nodes_are_named_after_their_scopes() -> None:
    g = Importer("net")
    x = g.input("x", dtypes.float32, [2])
    with g.scope("layer1", "relu", source="model.py:7"):
        a = g("Relu", x)
        b = g("Relu", a)
    c = g("Relu", b)
    names = [v.producer.name for v in (a, b, c) if v.producer is not None]
    assert names == ["layer1/relu/Relu", "layer1/relu/Relu_1", "Relu"]
    assert a.producer is not None
    assert a.producer.metadata == {"source": "model.py:7"}


def test_an_error_says_where_in_the_model_it_arose() -> None:
    g = Importer("net")
    x = g.input("x", dtypes.float32, [2, 3])
    with (
        pytest.raises(InfuseError, match=r"layer1 \(model.py:7\)"),
        g.scope("layer1", source="model.py:7"),
    ):
        g("MatMul", x, x)


def test_names_of_inputs_and_outputs_are_unique() -> None:
    g = Importer("net")
    x = g.input("x", dtypes.float32, [2])
    g.output("y", x)
    with pytest.raises(GraphError, match="two inputs"):
        g.input("x", dtypes.float32, [3])
    with pytest.raises(GraphError, match="two outputs"):
        g.output("y", x)


def test_sizes_are_numbers_symbols_or_unknown() -> None:
    g = Importer("net")
    x = g.input("x", dtypes.float32, ["batch", None, 3])
    y = g.input("y", dtypes.float32, ["batch", None, 3])
    assert x.shape[0] == y.shape[0]
    assert x.shape[1] != y.shape[1]
    assert g.input("z", dtypes.float32, None).type.rank is None  # type: ignore[union-attr]


def test_a_shape_may_have_sizes_that_are_computed() -> None:
    g = Importer("net")
    x = g.input("x", dtypes.float32, ["batch", 4, 2])
    assert g.size_of(x, 1) == 4
    size = g.size_of(x, 0)
    g.output("y", g("Reshape", x, g.ints(size, 8)))
    array = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    np.testing.assert_array_equal(evaluate(g.graph, {"x": array})["y"], array.reshape(3, 8))
    assert str(g.graph.outputs[0].type) == "float32[batch, 8]"


def test_a_body_reads_values_around_it() -> None:
    g = Importer("net")
    x, flag = g.input("x", dtypes.float32, [2]), g.input("flag", dtypes.bool_, [])
    bodies = {}
    for name, kind in (("then_branch", "Relu"), ("else_branch", "Neg")):
        body = g.body(name)
        body.output("y", body(kind, x))
        bodies[name] = body
    g.output("y", g.control(1, "If", flag, bodies=bodies)[0])
    array = np.array([1, -2], np.float32)
    for value, right in ((True, [1, 0]), (False, [-1, 2])):
        result = evaluate(g.graph, {"x": array, "flag": np.array(value)})["y"]
        np.testing.assert_array_equal(result, right)


def test_all_missing_operators_are_named_at_once() -> None:
    calls = [("a", "x.py:1"), ("known", ""), ("b", ""), ("a", "x.py:9")]
    with pytest.raises(UnsupportedOperatorError) as caught:
        require_all(calls, {"known"}, "the program", "do so")
    text = str(caught.value)
    assert "2 operators" in text
    assert "a (2 ×, first at x.py:1)" in text
    assert "b (1 ×)" in text
    require_all(calls, {"known", "a", "b"}, "the program", "do so")
