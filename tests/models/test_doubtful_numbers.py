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
    with infuse.compile(infuse.optimize(graph), threads=1) as compiled:
        native = compiled.run(feeds)["y"]
    np.testing.assert_array_equal(native, plain, strict=True)
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
