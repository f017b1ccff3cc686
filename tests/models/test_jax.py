"""Functions of JAX against JAX itself: primitives, jax.numpy, models, sizes that are symbols."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import InputError, OptionError, UnsupportedOperatorError
from infuse.frontends.jax.calls import TABLE
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402  only where JAX is there
from jax import lax  # noqa: E402

import tests.models.jax_cases_control  # noqa: E402
import tests.models.jax_cases_joined  # noqa: E402
import tests.models.jax_cases_places  # noqa: E402, F401  all add their cases
from tests.models.jax_cases import CASES, X, floats, whole  # noqa: E402
from tests.models.jax_models import MODELS, NUMPY  # noqa: E402


@pytest.fixture(autouse=True, scope="module")
def quick() -> Any:
    """JAX compiles in less time, without its optimizer."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(tree)]


def evaluated(graph: Graph, *args: Any) -> list[np.ndarray]:
    feeds = dict(zip([value.name for value in graph.inputs], leaves(args), strict=True))
    with np.errstate(all="ignore"):
        return list(evaluate(graph, feeds).values())


def same(results: Any, expected: Any, tolerance: float = 2e-5) -> None:
    wanted = leaves(expected)
    assert len(results) == len(wanted)
    for result, right in zip(results, wanted):
        assert result.dtype == right.dtype
        assert result.shape == right.shape
        if result.dtype.kind in "biu":
            np.testing.assert_array_equal(result, right)
        else:
            bound = tolerance if result.dtype.itemsize >= 4 else 1e-2
            wide = (array.astype(np.float64) for array in (result, right))
            np.testing.assert_allclose(*wide, rtol=bound, atol=bound / 5)


@pytest.mark.parametrize("name", list(CASES))
def test_primitive(name: str) -> None:
    function, args = CASES[name]
    graph = infuse.from_jax(function, args)
    same(evaluated(graph, *args), jax.jit(function)(*args), 1e-5)


@pytest.mark.parametrize("name", list(NUMPY))
def test_function_of_jax_numpy(name: str) -> None:
    function, args = NUMPY[name]
    graph = infuse.from_jax(function, args)
    same(evaluated(graph, *args), jax.jit(function)(*args))


@pytest.mark.parametrize("name", list(MODELS))
def test_model(name: str) -> None:
    function, params, x = MODELS[name]
    graph = infuse.from_jax(function, (params, x), constants=["params"])
    assert [value.name for value in graph.inputs] == ["tokens" if name == "transformer" else "x"]
    expected = jax.jit(function)(params, x)
    same(evaluated(graph, x), expected)
    model = infuse.compile(infuse.optimize(graph))
    same(list(model.run({graph.inputs[0].name: x}).values()), expected, 1e-4)


@pytest.mark.parametrize("name", ["perceptron", "convolutional", "transformer", "recurrent"])
def test_model_of_a_batch_that_is_a_symbol(name: str) -> None:
    function, params, x = MODELS[name]
    (batch,) = jax.export.symbolic_shape("batch")
    spec = jax.ShapeDtypeStruct((batch, *x.shape[1:]), x.dtype)
    graph = infuse.from_jax(function, (params, spec), constants=["params"])
    assert str(graph.inputs[0].shape[0]) == "batch"
    for size in (1, 3):
        rows = np.concatenate([x, x])[:size]
        same(evaluated(graph, rows), jax.jit(function)(params, rows))


SYMBOLIC: dict[str, Any] = {
    "reshape": lambda x: x.reshape(-1),
    "double": lambda x: jnp.concatenate([x, x]).reshape(2, x.shape[0], 3)[1],
    "floor": lambda x: x[: x.shape[0] // 2],
    "size": lambda x: x.sum() / x.shape[0],
    "range": lambda x: jnp.arange(x.shape[0] * 3).reshape(-1, 3),
    "zeros": lambda x: jnp.zeros((x.shape[0] + 1, 2)),
    "pad": lambda x: jnp.pad(x, ((1, x.shape[0]), (0, 0))),
    "rev": lambda x: x[::-1],
    "step": lambda x: x[1::2],
    "scan": lambda x: lax.scan(lambda c, v: (c + v * x.shape[0], c), jnp.zeros(3), x, reverse=True),
    "fori": lambda x: lax.fori_loop(0, x.shape[0], lambda i, s: s + x[i] * i, jnp.zeros(3)),
    "sort": lambda x: (jnp.sort(x, 0), jnp.argsort(x[:, 0])),
    "cummax": lambda x: lax.cummax(x, 0),
    "gather": lambda x: x[jnp.array([0, -1, 1])],
    "fill": lambda x: jnp.take(x, jnp.array([0, 2, 5]), 0),
    "update": lambda x: x.at[0].set(7.0),
    "add": lambda x: x.at[jnp.array([0, 9])].add(7.0),
    "slice": lambda x: lax.dynamic_slice(x, (x.shape[0], 0), (1, 2)),
    "dot": lambda x: x @ x.T,
    "max": lambda x: x[: jax.core.max_dim(x.shape[0] - 3, 1)],
    "mod": lambda x: jnp.full(x.shape[0] % 3 + 1, 2.0),
    "window": lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 1), (1, 1), "VALID"),
    "cond": lambda x: lax.cond(x[0, 0] > 0, lambda v: v * v.shape[0], lambda v: v, x),
}


@pytest.mark.parametrize("name", list(SYMBOLIC))
def test_size_that_is_a_symbol(name: str) -> None:
    function = SYMBOLIC[name]
    scope = jax.export.SymbolicScope(["rows >= 2"])
    shape = jax.export.symbolic_shape("rows, 3", scope=scope)
    graph = infuse.from_jax(function, (jax.ShapeDtypeStruct(shape, np.float32),))
    for rows in (2, 5):
        x = floats(rows, 3)
        same(evaluated(graph, x), jax.jit(function)(x))


def test_wide_types() -> None:
    with jax.enable_x64(True):
        x, i = floats(3, 4, dtype=np.float64), whole(3, 4, dtype=np.int64)

        def function(x: Any, i: Any) -> Any:
            wide = (x * 1e300, i * 2**40, jnp.sum(i), jnp.argmax(x), jnp.arange(3), i.astype(int))
            return (*wide, jnp.exp(x), (x * 1e20).astype(jnp.int64), x.astype(jnp.uint64))

        graph = infuse.from_jax(function, (x, i))
        assert [str(value.dtype) for value in graph.inputs] == ["float64", "int64"]
        same(evaluated(graph, x, i), jax.jit(function)(x, i), 1e-12)


def test_names_say_where_arrays_are_in_the_arguments() -> None:
    def function(params: Any, *rest: Any, flag: Any) -> Any:
        return {"sum": params["a"][0] + rest[0], "rest": (rest[1], flag)}

    args = {"a": [X, None]}, X, X
    graph = infuse.from_jax(function, args, {"flag": np.bool_(True)})
    names = [value.name for value in graph.inputs]
    assert names == ["params.a.0", "rest_0", "rest_1", "flag"]
    assert graph.output_names == ["rest.0", "rest.1", "sum"]
    assert infuse.from_jax(lambda x: (x, [x + 1]), (X,)).output_names == ["output_0", "output_1.0"]
    assert infuse.from_jax(jnp.sin, (1.0,)).output_names == ["output"]


def test_nodes_know_scopes_and_lines() -> None:
    def function(x: Any) -> Any:
        with jax.named_scope("part"):
            return jnp.sin(x)

    (node,) = infuse.from_jax(function, (X,)).nodes
    assert node.name == "part/Sin"
    assert "test_jax.py:" in node.metadata["source"]


def test_all_missing_primitives_are_named_at_once() -> None:
    def function(x: Any) -> Any:
        y = jnp.linalg.cholesky(x @ x.T)
        return lax.scan(lambda c, v: (c + lax.igamma(v, v), c), y[0], y)

    with pytest.raises(UnsupportedOperatorError, match=r"2 operators.*test_jax.py:\d+") as error:
        infuse.from_jax(function, (X,))
    assert "cholesky" in str(error.value)
    assert "igamma" in str(error.value)


def test_random_numbers_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedOperatorError, match="random_bits") as error:
        infuse.from_jax(lambda x: x + jax.random.normal(jax.random.key(0), x.shape), (X,))
    assert "random numbers outside" in str(error.value)


def test_random_numbers_that_nobody_needs_are_left_out() -> None:
    def function(x: Any) -> Any:
        key = jax.random.split(jax.random.key(0))[0]
        return jax.jit(lambda x, key: x + 1)(x, key)

    assert [node.kind for node in infuse.from_jax(function, (X,)).nodes] == ["Add"]


def test_effects_are_refused() -> None:
    def function(x: Any) -> Any:
        jax.debug.print("{}", x)
        return x + 1

    with pytest.raises(UnsupportedOperatorError, match="debug"):
        infuse.from_jax(function, (X,))


def test_what_cannot_be_read_is_told() -> None:
    refused = {
        "complex": (lambda x: x + 1, X.astype(np.complex64)),
        "a function of its own": (lambda x: lax.reduce(x, 0.0, lambda a, b: a * b + a, (0,)), X),
        "of another width": (lambda x: lax.bitcast_convert_type(x, jnp.int8), X),
        "batch_group_count": (
            lambda x: lax.conv_general_dilated(x, x, (1, 1), "SAME", batch_group_count=2),
            floats(2, 2, 3, 3),
        ),
    }
    for text, (function, x) in refused.items():
        with pytest.raises(UnsupportedOperatorError, match=text):
            infuse.from_jax(function, (x,))


def test_bad_arguments_are_told() -> None:
    with pytest.raises(InputError, match="not a function"):
        infuse.from_jax(3, ())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="not a tuple"):
        infuse.from_jax(jnp.sin, X)
    with pytest.raises(OptionError, match="called params"):
        infuse.from_jax(jnp.sin, (X,), constants=["params"])
    with pytest.raises(OptionError, match="constants"):
        infuse.from_jax(jnp.sin, (X,), constants="x")
    spec = jax.ShapeDtypeStruct((3,), np.float32)
    with pytest.raises(InputError, match="no elements"):
        infuse.from_jax(lambda x: x, (spec,), constants=["x"])
    fixed = jax.jit(lambda x, n: x * n, static_argnums=1)
    with pytest.raises(InputError, match=r"functools\.partial"):
        infuse.from_jax(fixed, (X, 3))


def test_many_primitives_are_known() -> None:
    assert len(TABLE) >= 110
