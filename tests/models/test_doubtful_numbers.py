"""Numbers that are easily taken for others: the interpreter and native code beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import infuse
from infuse.ops.core.evaluate import evaluate
from tests.models.onnx_tools import run

pytestmark = pytest.mark.row("C1")
INF, NAN = np.inf, np.nan


def both(text: str, feeds: dict[str, Any], *, alike: bool = True) -> np.ndarray:
    """What the interpreter and native code give for a model at the default level: the same, and
    that of ONNX Runtime unless it is known not to be `alike`.
    """
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    graph = infuse.load(proto)
    plain = evaluate(graph, feeds)["y"]
    with infuse.compile(infuse.optimize(graph), infuse.CompileOptions(threads=1)) as compiled:
        native = compiled.run(feeds)["y"]
    np.testing.assert_array_equal(native, plain, strict=True)
    if plain.dtype.kind == "f":
        odd = np.isnan(plain)
        np.testing.assert_array_equal(np.signbit(native[~odd]), np.signbit(plain[~odd]))
    if alike:
        np.testing.assert_array_equal(plain, run(proto, feeds)[0], strict=True)
    return native


def test_a_power_of_one_half_is_no_root() -> None:
    """ONNX Runtime 1.31.1 takes the root, and gives NaN for -∞; NumPy and C's pow do not."""
    x = np.array([-INF, INF, 0.0, 4.0, NAN, -1.0], np.float32)
    text = "m (float[6] x) => (float[6] y) { h = Constant<value = float {0.5}>() y = Pow(x, h) }"
    found = both(text, {"x": x}, alike=False)
    np.testing.assert_array_equal(found, [INF, INF, 0, 2, NAN, NAN])


@pytest.mark.parametrize("held", [True, False])
def test_what_beta_makes_zero_is_not_read(held: bool) -> None:
    c = np.array([NAN, INF, 1], np.float32)
    given = "" if held else ", float[3] c"
    constant = "c = Constant<value = float[3] {nan, inf, 1}>()" if held else ""
    text = f"""m (float[2, 4] x, float[4, 3] w{given}) => (float[2, 3] y) {{
      {constant} y = Gemm<beta = 0.0, alpha = 0.5>(x, w, c) }}"""
    feeds = {"x": np.ones((2, 4), np.float32), "w": np.ones((4, 3), np.float32)}
    found = both(text, feeds if held else {**feeds, "c": c})
    np.testing.assert_array_equal(found, np.full((2, 3), 2.0, np.float32))


@pytest.mark.parametrize("known", [True, False])
def test_indices_of_one_hot_are_cut_off_first(known: bool) -> None:
    """The text says so; ONNX Runtime 1.31.1 compares them as they are, and switches nothing on."""
    given = "" if known else ", float depth"
    constant = "depth = Constant<value = float {3}>()" if known else ""
    text = f"""m (float[6] x, float[2] v{given}) => (float[6, n] y) {{
      {constant} y = OneHot(x, depth, v) }}"""
    feeds: dict[str, Any] = {"x": np.array([0.9, 1.5, -0.7, -1.5, 2.999, 3.0], np.float32)}
    feeds["v"] = np.array([0, 1], np.float32)
    found = both(
        text, feeds if known else {**feeds, "depth": np.array(3.0, np.float32)}, alike=False
    )
    np.testing.assert_array_equal(found.argmax(1)[:5], [0, 1, 0, 2, 2])


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_powers_of_integers_wrap(kind: str) -> None:
    """ONNX is silent: ONNX Runtime goes through float64, and gives the least number."""
    x, y = (v.reshape(-1) for v in np.meshgrid([2, 3, -2, -3, 10, 0, 1, -1], [0, 1, 5, 31, 33, 40]))
    text = f"m ({kind}[n] x, {kind}[n] e) => ({kind}[n] y) {{ y = Pow(x, e) }}"
    found = both(text, {"x": x.astype(kind), "e": y.astype(kind)}, alike=False)
    bits = 8 * found.itemsize
    exact = [(int(a) ** int(b) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) for a, b in zip(x, y)]
    np.testing.assert_array_equal(found, exact)
    negative = both(text, {"x": x.astype(kind), "e": -1 - y.astype(kind)}, alike=False)
    np.testing.assert_array_equal(negative[:8], [0, 0, 0, 0, 0, 0, 1, -1])


def test_zeros_of_both_signs_and_no_numbers() -> None:
    """Of equal elements the first is taken, and NaN is never lost."""
    special = np.array([0.0, -0.0, NAN, 1.0, -1.0, INF, -INF], np.float32)
    a, b = (v.reshape(-1).copy() for v in np.meshgrid(special, special))
    for kind in ("Max", "Min"):
        text = f"m (float[n] a, float[n] b) => (float[n] y) {{ y = {kind}(a, b) }}"
        found = both(text, {"a": a, "b": b})
        zeros = (a == 0) & (b == 0)
        np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(a[zeros]))
        assert np.isnan(found[np.isnan(a) | np.isnan(b)]).all()
    relu = both("m (float[n] x) => (float[n] y) { y = Relu(x) }", {"x": special})
    np.testing.assert_array_equal(np.signbit(relu[:2]), [False, True])


@pytest.mark.parametrize("kind", ["Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
@pytest.mark.parametrize("takes", ["x, z", "z, x"])
def test_a_comparison_makes_the_limit_of_no_number(kind: str, takes: str) -> None:
    x = np.array([0.0, -0.0, NAN, 1.0, -1.0, INF, -INF], np.float32)
    text = f"""m (float[n] x) => (float[n] y) {{
      z = Constant<value = float {{0}}>() c = {kind}(x, z) y = Where(c, {takes}) }}"""
    found = both(text, {"x": x})
    with np.errstate(invalid="ignore"):
        function = getattr(np, kind.lower().replace("orequal", "_equal"))
        chosen = function(x, 0)
    first, second = (x if name == "x" else np.zeros_like(x) for name in takes.split(", "))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(np.where(chosen, first, second)))


def wrapped(x: float, bits: int, signed: bool) -> int:
    """What becomes of a float by the one definition (`ops.conversion`)."""
    wide = 64 if bits == 64 or (bits == 32 and not signed) else 32
    whole = int(x) if np.isfinite(x) else 1 << 80
    if bits == 64 and not signed and 2**63 <= whole < 2**64:
        return whole
    whole = whole if -(2 ** (wide - 1)) <= whole < 2 ** (wide - 1) else -(2 ** (wide - 1))
    low = whole % 2**bits
    return low - 2**bits if signed and low >= 2 ** (bits - 1) else low


@pytest.mark.parametrize("source", ["float", "double", "float16"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("signed", [True, False])
def test_floats_that_no_integer_is(source: str, bits: int, signed: bool) -> None:
    """The text leaves it open, and ONNX Runtime's answer depends on the processor."""
    numbers = [0.9, -0.9, 255.5, 256, -1, -129, 300, 65535, 65536, 3e9, -3e9, 2.0**31, -(2.0**31)]
    numbers += [2.0**32, 2.0**63, -(2.0**63), 1.5 * 2.0**63, 2.0**64, 1e30, -1e30, INF, -INF, NAN]
    dtype = {"float": np.float32, "double": np.float64, "float16": np.float16}[source]
    with np.errstate(over="ignore"):
        x = np.array(numbers).astype(dtype)
    kind = f"{'' if signed else 'u'}int{bits}"
    code = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    text = f"m ({source}[n] x) => ({kind}[n] y) {{ y = Cast<to = {code}>(x) }}"
    found = both(text, {"x": x}, alike=False)
    np.testing.assert_array_equal(
        found, np.array([wrapped(float(v), bits, signed) for v in x], kind)
    )
