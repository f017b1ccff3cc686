"""Traced programs beside NumPy: every function of the Array API, on arrays of fixed and of symbolic
sizes.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import InfuseError, TypeMismatchError, UnsupportedOperatorError
from infuse.ops.core.evaluate import evaluate

RNG = np.random.default_rng(7)
A = RNG.normal(size=(3, 4)).astype(np.float32)
B = RNG.normal(size=(3, 4)).astype(np.float32)
C = RNG.normal(size=(2, 3, 4))
POSITIVE = np.abs(A) + np.float32(0.1)
UNIT = (np.abs(A) / 4).astype(np.float32)
SPECIAL = np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, 2.5, -2.5, 1e-8], np.float64)
N = RNG.integers(-9, 9, (3, 4))
J = RNG.integers(1, 5, (3, 4)) * RNG.choice([-1, 1], (3, 4))
S = np.array([-128, -7, -1, 0, 1, 7, 127], np.int8)
U = RNG.integers(0, 200, (3, 4)).astype(np.uint8)
T = A > 0
V = np.array([3.0, 1.0, 2.0, 1.0, 3.0, 0.5])
Q = RNG.normal(size=(3, 3))

Case = tuple[str, Callable[..., Any], tuple[np.ndarray, ...]]


def _each(names: Sequence[str], arrays: list[Any]) -> dict[str, list[Any]]:
    return dict.fromkeys(names, arrays)


def elementwise() -> list[Case]:
    cases: list[Case] = []
    unary = {
        **_each(["acos", "asin", "atanh"], [UNIT]),
        **_each(["log", "log2", "log10", "log1p", "sqrt", "reciprocal"], [POSITIVE]),
        "acosh": [1 + POSITIVE],
        "log1p": [POSITIVE, np.array([1e-12, -1e-9, -0.5, 1e10, np.inf, 0.0])],
        "expm1": [A, np.array([1e-12, -1e-9, -40.0, 1.0, 0.0])],
        **_each(["asinh", "atan", "cos", "cosh", "exp", "sin", "sinh", "tan", "tanh"], [A]),
        **_each(["ceil", "floor", "round", "trunc", "sign"], [A, SPECIAL, N]),
        **_each(["abs", "negative", "positive", "square"], [A, N, SPECIAL]),
        **_each(["isnan", "isinf", "isfinite"], [SPECIAL, N]),
        "signbit": [SPECIAL],
        "logical_not": [T],
        "bitwise_invert": [N, T, U],
    }
    for name, arrays in unary.items():
        for k, x in enumerate(arrays):
            cases.append((f"{name} {k}", _call(name), (x,)))
    binary = {
        **_each(["add", "subtract", "multiply", "divide"], [(A, B), (N, J), (A, C), (U, S[:4])]),
        **_each(["maximum", "minimum"], [(A, B), (N, J)]),
        **_each(["floor_divide", "remainder"], [(A, B), (N, J), (U, np.uint8([1, 2, 3, 4]))]),
        "pow": [(POSITIVE, B), (N, np.abs(J))],
        **_each(
            ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"],
            [(A, B), (N, J), (A, N)],
        ),
        **_each(["logical_and", "logical_or", "logical_xor"], [(T, ~T), (T, B > 0)]),
        **_each(
            ["bitwise_and", "bitwise_or", "bitwise_xor"], [(N, J), (T, B > 0), (U, U.T[:3, :1])]
        ),
        **_each(
            ["bitwise_left_shift", "bitwise_right_shift"],
            [(N, np.abs(J)), (U, np.uint8([1, 2, 3, 0]))],
        ),
        "logaddexp": [(A, B), (np.array([-np.inf, 800.0]), np.array([-np.inf, 801.0]))],
        "hypot": [(A, B), (np.array([0.0, 1e300, np.inf]), np.array([0.0, 1e300, np.nan]))],
        "atan2": [(A, B), (np.repeat(SPECIAL, 10), np.tile(SPECIAL, 10))],
        "copysign": [(A, B), (A[0], SPECIAL[:4])],
    }
    for name, pairs in binary.items():
        for k, pair in enumerate(pairs):
            cases.append((f"{name} {k}", _call(name), pair))
    return cases


def _call(name: str) -> Callable[..., Any]:
    return lambda xp, *arrays: getattr(xp, name)(*arrays)


def others() -> list[Case]:
    f32, i64 = np.float32, np.int64
    return [
        ("number beside floats", lambda xp, x: x * 2 + 1.5, (A,)),
        ("number beside integers", lambda xp, x: (2 - x) // 3 % 5, (N,)),
        ("number first", lambda xp, x: 2.0**x / (1 - x), (B,)),
        ("a size beside floats", lambda xp, x: x / x.shape[0] + (x.shape[1] - 1) // 2, (A,)),
        ("in place", _in_place, (A,)),
        ("bool operators", lambda xp, x: ~(x & True) | (x ^ x), (T,)),
        ("where", lambda xp, t, x, y: xp.where(t, x, y), (T, A, N)),
        ("where with numbers", lambda xp, t, x: xp.where(t, x, 0), (T, A)),
        ("clip", lambda xp, x: xp.clip(x, -0.5, 0.5), (A,)),
        ("clip below", lambda xp, x: xp.clip(x, max=2), (N,)),
        ("astype", lambda xp, x: xp.astype(x, xp.int32), (A * 5,)),
        ("item", lambda xp, x: x[1, 2], (A,)),
        ("negative item", lambda xp, x: x[-1], (A,)),
        ("slice", lambda xp, x: x[1:, ::2], (A,)),
        ("negative slice", lambda xp, x: x[-2:, :-1], (A,)),
        ("reverse", lambda xp, x: x[::-1, 2::-1], (A,)),
        ("ellipsis", lambda xp, x: x[..., 1], (C,)),
        ("new axes", lambda xp, x: x[None, :, None, 1:], (A,)),
        ("item, slice, new axis", lambda xp, x: x[1, None, ::2, 0], (C,)),
        ("indices", lambda xp, x, i: x[i], (A, np.array([2, 0, -1, 2]))),
        ("indices behind a slice", lambda xp, x, i: x[:, i], (A, np.array([[2, 0], [-1, 1]]))),
        (
            "two arrays of indices",
            lambda xp, x, i, j: x[i, j],
            (A, np.array([0, 2]), np.array([3, 1])),
        ),
        ("indices inside", lambda xp, x, i, j: x[:, i, j], (C, np.array([0, 2]), np.array([3, 1]))),
        ("index at run time", lambda xp, x, i: x[i, 1], (A, np.array(2))),
        ("mask", lambda xp, x: x[x > 0], (A,)),
        ("mask of rows", lambda xp, x, t: x[t], (A, np.array([True, False, True]))),
        ("put item", _put((1, 2), 5.0), (A,)),
        ("put slice", _put((slice(None), slice(1, 3)), 0.0), (A,)),
        ("put mask", lambda xp, x: _put(x < 0, 0.0)(xp, x), (A,)),
        ("put indices", _put(np.array([0, 2]), 1.0), (A,)),
        ("take", lambda xp, x, i: xp.take(x, i, axis=1), (A, np.array([3, 0]))),
        (
            "take_along_axis",
            lambda xp, x, i: xp.take_along_axis(x, i, axis=1),
            (A, np.argsort(A)[:, :2]),
        ),
        ("arange", lambda xp, x: x + xp.arange(4), (A,)),
        ("arange of a size", lambda xp, x: x + xp.arange(x.shape[-1]), (A,)),
        ("arange with a step", lambda xp, x: x[0, :3] * xp.arange(1, 7, 2, dtype=xp.float32), (A,)),
        ("linspace", lambda xp, x: x * xp.linspace(0, 1, 4), (A,)),
        ("zeros", lambda xp, x: x + xp.zeros(x.shape, dtype=xp.float32), (A,)),
        ("ones, full", lambda xp, x: x + xp.ones((3, 1)) * xp.full((4,), 2.5), (A,)),
        ("likes", lambda xp, x: xp.zeros_like(x) + xp.ones_like(x) * xp.full_like(x, 3), (N,)),
        ("eye", lambda xp, x: x @ xp.eye(4, 5, k=1, dtype=xp.float32), (A,)),
        ("tril, triu", lambda xp, x: xp.tril(x, k=1) - xp.triu(x, k=-1), (C,)),
        (
            "meshgrid",
            lambda xp, x: xp.meshgrid(x[0, :], x[:, 0])[0] + xp.meshgrid(x[0, :], x[:, 0])[1],
            (A,),
        ),
        ("meshgrid ij", lambda xp, x: xp.meshgrid(x[0, :], x[:, 0], indexing="ij")[0], (A,)),
        ("asarray", lambda xp, x: x + xp.asarray([1.0, 2.0, 3.0, 4.0], dtype=xp.float32), (A,)),
        ("reshape", lambda xp, x: xp.reshape(x, (-1, 2)), (A,)),
        (
            "reshape by sizes",
            lambda xp, x: xp.reshape(x, (x.shape[0] * x.shape[1], x.shape[2])),
            (C,),
        ),
        ("permute_dims", lambda xp, x: xp.permute_dims(x, (2, 0, 1)), (C,)),
        ("transposes", lambda xp, x: x.mT, (C,)),
        ("T", lambda xp, x: x.T, (A,)),
        ("moveaxis", lambda xp, x: xp.moveaxis(x, 0, -1), (C,)),
        ("moveaxis of two", lambda xp, x: xp.moveaxis(x, (0, 1), (2, 0)), (C,)),
        (
            "expand_dims, squeeze",
            lambda xp, x: xp.squeeze(xp.expand_dims(x, axis=-1)[0:1], axis=0),
            (A,),
        ),
        ("concat", lambda xp, x, y: xp.concat([x, y, x], axis=-1), (A, N)),
        ("concat flat", lambda xp, x, y: xp.concat([x, y], axis=None), (A, B)),
        ("stack", lambda xp, x, y: xp.stack([x, y], axis=-1), (A, B)),
        ("unstack", lambda xp, x: xp.unstack(x, axis=1)[2], (A,)),
        ("flip", lambda xp, x: xp.flip(x), (A,)),
        ("flip of an axis", lambda xp, x: xp.flip(x, axis=(-1,)), (A,)),
        ("roll", lambda xp, x: xp.roll(x, 2, axis=-1), (A,)),
        ("roll of two", lambda xp, x: xp.roll(x, (-1, 5), axis=(0, 1)), (A,)),
        ("roll flat", lambda xp, x: xp.roll(x, -3), (A,)),
        ("repeat", lambda xp, x: xp.repeat(x, 3, axis=0), (A,)),
        ("repeat flat", lambda xp, x: xp.repeat(x, 2), (A,)),
        ("repeat by counts", lambda xp, x, n: xp.repeat(x, n, axis=0), (A, np.array([2, 0, 1]))),
        ("tile", lambda xp, x: xp.tile(x, (2, 1, 3)), (A,)),
        ("broadcast_to", lambda xp, x: xp.broadcast_to(x, (2, 3, 4)), (A,)),
        ("broadcast_arrays", lambda xp, x, y: xp.broadcast_arrays(x, y)[0], (A[:, :1], B[:1])),
        ("sum", lambda xp, x: xp.sum(x), (A,)),
        ("sum over axes", lambda xp, x: xp.sum(x, axis=(0, -1), keepdims=True), (C,)),
        ("sum of small integers", lambda xp, x: xp.sum(x, axis=0), (U,)),
        ("sum of truth values", lambda xp, x: xp.sum(x), (T,)),
        ("prod", lambda xp, x: xp.prod(x, axis=1), (A,)),
        ("max", lambda xp, x: xp.max(x, axis=0), (A,)),
        ("min", lambda xp, x: xp.min(x), (N,)),
        ("mean", lambda xp, x: xp.mean(x, axis=-1), (A,)),
        ("mean of integers", lambda xp, x: xp.mean(x), (N,)),
        ("var", lambda xp, x: xp.var(x, axis=1, correction=1), (C,)),
        ("std", lambda xp, x: xp.std(x, keepdims=True), (C,)),
        ("any", lambda xp, x: xp.any(x, axis=0), (T,)),
        ("all", lambda xp, x: xp.all(x > 0, axis=1), (A,)),
        ("count_nonzero", lambda xp, x: xp.count_nonzero(x, axis=1), (N,)),
        ("cumulative_sum", lambda xp, x: xp.cumulative_sum(x, axis=1), (A,)),
        (
            "cumulative_sum with a start",
            lambda xp, x: xp.cumulative_sum(x, axis=0, include_initial=True),
            (N,),
        ),
        ("cumulative_prod", lambda xp, x: xp.cumulative_prod(x, axis=-1), (A,)),
        ("diff", lambda xp, x: xp.diff(x, n=2), (A,)),
        ("argmax", lambda xp, x: xp.argmax(x, axis=1), (A,)),
        ("argmin of all", lambda xp, x: xp.argmin(x), (A,)),
        ("sort", lambda xp, x: xp.sort(x, axis=0), (A,)),
        ("argsort of equals", lambda xp, x: xp.argsort(x, stable=True), (V,)),
        ("nonzero", lambda xp, x: xp.nonzero(x)[1], (N,)),
        ("searchsorted", lambda xp, x, y: xp.searchsorted(x, y), (np.sort(V), A)),
        (
            "searchsorted right",
            lambda xp, x, y: xp.searchsorted(x, y, side="right"),
            (np.sort(V), V),
        ),
        ("unique_values", lambda xp, x: xp.unique_values(x), (V,)),
        ("unique_counts", lambda xp, x: xp.unique_counts(x)[1], (V,)),
        ("unique_inverse", lambda xp, x: xp.unique_inverse(x)[1], (N,)),
        ("unique_all", lambda xp, x: xp.unique_all(x)[1], (V,)),
        ("matmul", lambda xp, x, y: x @ y.mT, (A, C)),
        ("matmul of a vector", lambda xp, x, y: xp.matmul(x, y[0]), (A, B)),
        ("vecdot", lambda xp, x, y: xp.vecdot(x, y), (A, B)),
        ("tensordot", lambda xp, x, y: xp.tensordot(x, y, axes=((1, 2), (0, 1))), (C, A)),
        ("einsum", lambda xp, x, y: xp.einsum("bij,ij->bi", x, y), (C, A)),
        ("outer", lambda xp, x, y: xp.linalg.outer(x, y), (A[0], B[1])),
        ("cross", lambda xp, x, y: xp.linalg.cross(x, y, axis=0), (A, B)),
        ("det", lambda xp, x: xp.linalg.det(x), (Q,)),
        ("diagonal", lambda xp, x: xp.linalg.diagonal(x, offset=1), (C,)),
        ("trace", lambda xp, x: xp.linalg.trace(x, offset=-1), (C,)),
        ("vector_norm", lambda xp, x: xp.linalg.vector_norm(x, axis=-1), (A,)),
        ("vector_norm 3", lambda xp, x: xp.linalg.vector_norm(x, axis=0, ord=3), (A,)),
        ("vector_norm inf", lambda xp, x: xp.linalg.vector_norm(x, ord=xp.inf), (A,)),
        ("matrix_norm", lambda xp, x: xp.linalg.matrix_norm(x), (C,)),
        ("matrix_norm 1", lambda xp, x: xp.linalg.matrix_norm(x, ord=1), (C,)),
        ("slogdet", lambda xp, x: xp.linalg.slogdet(x)[1], (Q,)),
        ("sign of slogdet", lambda xp, x: xp.linalg.slogdet(x)[0], (Q,)),
        ("matrix_power", lambda xp, x: xp.linalg.matrix_power(x, 5), (Q,)),
        ("matrix_power 0", lambda xp, x: x + xp.linalg.matrix_power(x, 0), (Q,)),
        ("real, conj, imag", lambda xp, x: xp.real(x) + xp.conj(x) * xp.imag(x), (A,)),
        ("fftshift", lambda xp, x: xp.fft.fftshift(x) + xp.fft.ifftshift(x, axes=1), (A,)),
        (
            "fftfreq",
            lambda xp, x: x[0, :4] + xp.fft.fftfreq(4) * xp.fft.rfftfreq(6),
            (C[0],),
        ),
        ("types", lambda xp, x: x.astype(xp.result_type(x, xp.float64)), (A.astype(f32),)),
        ("iinfo", lambda xp, x: x + xp.iinfo(x.dtype).max, (N.astype(i64) - 20,)),
    ]


def _in_place(xp: Any, x: Any) -> Any:
    y = x + 0
    y += 1
    y *= x
    y -= 0.5
    return y


def _put(key: Any, value: float) -> Callable[..., Any]:
    def function(xp: Any, x: Any) -> Any:
        y = x + 0
        y[key] = value
        return y

    return function


CASES = [*elementwise(), *others()]


@pytest.mark.parametrize("sizes", ["fixed", "symbolic"])
@pytest.mark.parametrize(("name", "function", "arrays"), CASES, ids=[case[0] for case in CASES])
def test_a_traced_function_gives_what_numpy_gives(
    name: str, function: Callable[..., Any], arrays: tuple[np.ndarray, ...], sizes: str
) -> None:
    if sizes == "symbolic" and name in ("unstack", "diagonal", "trace", "eye"):
        pytest.skip("needs sizes that are known")
    specs = {
        f"x{i}": infuse.Spec(
            a.dtype,
            a.shape if sizes == "fixed" else tuple(f"size{i}{axis}" for axis in range(a.ndim)),
        )
        for i, a in enumerate(arrays)
    }

    def with_namespace(**inputs: Any) -> Any:
        xp = next(iter(inputs.values())).__array_namespace__()
        return function(xp, *inputs.values())

    def call(x0: Any, x1: Any = None, x2: Any = None) -> Any:
        present = [x for x in (x0, x1, x2) if x is not None]
        return with_namespace(**{f"x{i}": x for i, x in enumerate(present)})

    graph = infuse.trace(call, specs)
    result = evaluate(graph, dict(zip(specs, arrays)))["output"]
    with np.errstate(all="ignore"):
        right = np.asarray(function(np, *(a.copy() for a in arrays)))
    assert result.dtype == right.dtype
    assert result.shape == right.shape
    exact = right.dtype.kind != "f"
    tolerance = 0 if exact else 1e-5 if right.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(result, right, rtol=tolerance, atol=tolerance, strict=True)


def test_functions_are_run_on_numpy_too() -> None:
    def function(x: Any) -> Any:
        xp = x.__array_namespace__()
        return xp.sum(xp.exp(x), axis=-1)

    graph = infuse.trace(function, [infuse.Spec("float32", ("batch", 4))])
    assert str(graph.outputs[0].type) == "float32[batch]"
    np.testing.assert_allclose(evaluate(graph, {"x": A})["output"], function(A), rtol=1e-6)


def test_the_namespace_can_be_looked_through() -> None:
    """As torch's inductor does with all modules: a missing name is no attribute."""

    def looks(x: Any) -> Any:
        xp = x.__array_namespace__()
        assert not hasattr(xp, "torch")
        with pytest.raises(UnsupportedOperatorError, match="no array function 'cbrt'"):
            xp.cbrt(x)
        return xp.abs(x)

    graph = infuse.trace(looks, [A])
    assert [node.kind for node in graph.nodes] == ["Abs"]


def test_results_are_named() -> None:
    def several(x: Any) -> Any:
        return {"double": x * 2, "same": x}

    assert infuse.trace(several, {"x": A}).output_names == ["double", "same"]
    assert infuse.trace(lambda x: (x, x + 1), [A]).output_names == ["output_0", "output_1"]


def test_control_flow() -> None:
    def function(x: Any, n: Any) -> Any:
        xp = x.__array_namespace__()
        chosen = infuse.cond(xp.sum(x) > 0, lambda v: v * 2, lambda v: -v, [x])
        _, power = infuse.loop(lambda i, v: i < n, lambda i, v: (i + 1, v * 2.0), (0, chosen))
        (total,), sums = infuse.scan(
            lambda state, entry: ((state[0] + entry[0],), (state[0] + entry[0],)),
            (xp.zeros((4,), dtype=xp.float32),),
            (x,),
        )
        return {"power": power, "total": total, "sums": sums[0]}

    specs = {"x": infuse.Spec("float32", ("rows", 4)), "n": infuse.Spec("int64", ())}
    graph = infuse.trace(function, specs)
    for x in (A, -A):
        results = evaluate(graph, {"x": x, "n": np.int64(3)})
        right = (x * 2 if x.sum() > 0 else -x) * 8
        np.testing.assert_allclose(results["power"], right, rtol=1e-6)
        np.testing.assert_allclose(results["sums"], np.cumsum(x, axis=0), rtol=1e-5)
        np.testing.assert_allclose(results["total"], x.sum(axis=0), rtol=1e-5, atol=1e-6)


# -- bad programs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda x: x if x[0, 0] > 0 else -x, "truth of an array"),
        (lambda x: x * float(x[0, 0]), "an element"),
        (lambda x: max(*x), "its length"),
        (lambda x: x + np.asarray(x), "an array as a Python value"),
        (lambda x: x.__array_namespace__().svd(x), "'svd'"),
        (lambda x: x[0, 0, 0], "3 indices"),
        (lambda x: x["a"], "index of type str"),
        (lambda x: x.__array_namespace__().sum(x, axis=5), "no axis 5"),
        (lambda x: x + object(), None),
    ],
)
def test_what_cannot_be_traced_is_said_with_its_line(function: Any, what: str | None) -> None:
    specs = [infuse.Spec("float32", ("rows", 4))]
    if what is None:
        with pytest.raises(TypeError):
            infuse.trace(function, specs)
        return
    with pytest.raises(InfuseError, match=what) as caught:
        infuse.trace(function, specs)
    assert "test_arrays.py:" in str(caught.value)


def test_branches_of_different_types_are_refused() -> None:
    def function(x: Any) -> Any:
        return infuse.cond(x[0] > 0, lambda v: v, lambda v: v > 0, [x])

    with pytest.raises(TypeMismatchError, match="one branch returns float32, the other bool"):
        infuse.trace(function, [infuse.Spec("float32", (4,))])


def test_functions_outside_of_a_trace_are_refused() -> None:
    from infuse.tracing.arrays import namespace

    with pytest.raises(UnsupportedOperatorError, match="nothing is traced"):
        namespace.zeros((2, 2))
