"""Every operator of the table on NaN, zeros of both signs, infinities, subnormal and largest
numbers, limits of integers, empty axes and axes of one element: native code gives what the
interpreter does.

`python -m benchmarks.special_values` does so with more values and in all floating types.
"""

import numpy as np
import pytest

from infuse import dtypes
from infuse.build.compile import compile_graph
from infuse.ir.parser import parse
from infuse.ops.core.evaluate import evaluate
from tests.native.op_cases import GROUPS
from tests.native.special_cases import sweep

pytestmark = pytest.mark.row("C1")


@pytest.mark.parametrize("group", GROUPS)
def test_native_code_is_as_the_interpreter(group: str) -> None:
    messages = sweep(group)
    assert not messages, f"{len(messages)} differ:\n" + "\n".join(messages[:20])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_sum_of_windows_begins_at_zero_and_ends_with_the_bias(dtype: str) -> None:
    """Sums of -0 are 0, also where the bias is -0."""
    graph = parse(f"""graph "minus" (%x: {dtype}[1, 2, 4, 4], %w: {dtype}[3, 2, 2, 2],
        %moved: {dtype}[1, 8, 3, 3], %b: {dtype}[3]) {{
      %y = Conv(%x, %w, %b)
      %z = DeformConv(%x, %w, %moved, %b)
      return y = %y, z = %z
    }}""")
    feeds = {v.name: np.full([int(d) for d in v.shape], -0.0, dtype) for v in graph.inputs}
    for w in (1.0, -0.0):
        feeds["w"][...] = w
        expected = evaluate(graph, feeds)
        with compile_graph(graph) as model:
            for name, y in model.run(feeds).items():
                np.testing.assert_array_equal(np.signbit(y), np.signbit(expected[name]))
                assert not np.signbit(y).any()


def test_a_window_without_pixels_has_its_largest_nowhere() -> None:
    graph = parse("""graph "none" (%x: float32[n, 2, h, 4]) {
      %y, %at = MaxPool(%x, kernel_shape=(3, 2), pads=(1, 0, 1, 1), strides=(2, 2), ceil_mode=1)
      return y = %y, at = %at
    }""")
    with compile_graph(graph) as model:
        for height in (0, 1, 2):
            feeds = {"x": np.zeros((2, 2, height, 4), np.float32)}
            expected, found = evaluate(graph, feeds), model.run(feeds)
            for name, y in found.items():
                np.testing.assert_array_equal(y, expected[name])
            assert (found["at"] == -1).all() == (height == 0)


def test_a_step_of_adam_is_computed_in_float32() -> None:
    """0.01 · 1.5 + 10⁴ has no place for its last digits there, which is what then remains."""
    graph = parse("""graph "step" (%r: float32[], %t: int64[], %x: float32[], %g: float32[],
        %v: float32[], %h: float32[]) {
      %y, %mean, %square = ai.onnx.preview.training::Adam(%r, %t, %x, %g, %v, %h,
        alpha=0.5, norm_coefficient=0.01)
      return y = %y, mean = %mean
    }""")
    numbers = {"r": 0.125, "x": 1.5, "g": 1e4, "v": -1e4, "h": 1.0}
    feeds = {name: np.float32(number) for name, number in numbers.items()}
    feeds["t"] = np.int64(1)
    right = np.float32(0.5) * np.float32(-1e4) + np.float32(0.5) * np.float32(1e4 + 0.015)
    with compile_graph(graph) as model:
        for results in (evaluate(graph, feeds), model.run(feeds)):
            assert results["mean"] == right == np.float32(0.00732421875)


@pytest.mark.parametrize("largest", [0, 1])
def test_nan_of_short_floats_is_sorted_behind_all_numbers(largest: int) -> None:
    graph = parse(f"""graph "sorted" (%x: bfloat16[2, 5]) {{
      %y, %at = TopK(%x, int64[1]{{5}}, largest={largest})
      return at = %at
    }}""")
    x = np.array([[np.nan, 2, -1, np.nan, 0], [3, np.nan, np.inf, -np.inf, 1]])
    feeds = {"x": x.astype(dtypes.bfloat16.numpy)}
    order = [[0, 3, 1, 4, 2], [1, 2, 0, 4, 3]] if largest else [[2, 4, 1, 0, 3], [3, 4, 0, 2, 1]]
    with compile_graph(graph) as model:
        for results in (evaluate(graph, feeds), model.run(feeds)):
            np.testing.assert_array_equal(results["at"], order)


@pytest.mark.parametrize("op", ["Sum", "Mean", "Max", "Min", "Prod"])
def test_a_reduction_over_no_axes_is_the_identity(op: str) -> None:
    """Zeros keep their sign, as in ONNX Runtime 1.31; integers all of their digits."""
    graph = parse(f"""graph "none" (%x: float32[n, 5], %i: int64[3]) {{
      %y = Reduce{op}(%x, noop_with_empty_axes=1)
      %z = Reduce{op}(%i, noop_with_empty_axes=1, keepdims=0)
      return y = %y, z = %z
    }}""")
    x = np.array([[-0.0, 0.0, np.nan, np.inf, -np.inf], [1e-40, -1e-40, 3e38, -2.5, -0.0]])
    feeds = {"x": x.astype(np.float32), "i": np.array([2**62 + 1, -(2**63), 2**63 - 1])}
    with compile_graph(graph) as model:
        for found in (evaluate(graph, feeds), model.run(feeds)):
            np.testing.assert_array_equal(found["y"], feeds["x"])
            np.testing.assert_array_equal(np.signbit(found["y"]), np.signbit(feeds["x"]))
            np.testing.assert_array_equal(found["z"], feeds["i"])


def test_attention_tells_scores_of_minus_infinity_from_keys_that_are_hidden() -> None:
    """NaN where a query sees such scores alone, zeros where it sees no key."""
    options = ("is_causal=1", "left_window_size=1", "softcap=2.0", "is_causal=0")
    calls = [(mask, option) for mask in ("", ", %flags", ", %added") for option in options]
    lines = (f"%y{i} = Attention(%q, %k, %v{m}, {o})" for i, (m, o) in enumerate(calls))
    graph = parse(f"""graph "attention" (%q: float32[1, 2, 3, 4], %k: float32[1, 2, 3, 4],
        %v: float32[1, 2, 3, 4], %flags: bool[3, 3], %added: float32[3, 3]) {{
      {chr(10).join(lines)}
      return {", ".join(f"y{i} = %y{i}" for i in range(len(calls)))}
    }}""")
    rng = np.random.default_rng(0)
    feeds = {n: rng.normal(size=(1, 2, 3, 4)).astype(np.float32) for n in "qkv"}
    feeds["q"][0, :, 1:, 0], feeds["k"][..., 0] = np.inf, -1
    hidden = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 1]], bool)
    feeds |= {"flags": ~hidden, "added": np.where(hidden, -np.inf, np.float32(0.5))}
    with compile_graph(graph) as model:
        found = model.run(feeds)
    for (mask, option), (name, expected) in zip(calls, evaluate(graph, feeds).items()):
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-6)
        if option != "softcap=2.0":  # which makes finite scores of infinite ones
            assert np.isnan(expected[0, :, 1]).all()
            assert not np.isnan(expected[0, :, 0]).any()
        if mask:
            assert not expected[0, :, 2].any()


def test_the_small_weights_of_a_cubic_window_have_their_sign() -> None:
    """Just beside a pixel, the next but one weighs -0.75 t²: an infinity there is -∞."""
    graph = parse("""graph "cubic" (%x: float32[1, 1, 1, 4], %at: float32[1, 1, n, 2]) {
      %y = GridSample(%x, %at, mode="cubic", align_corners=1)
      return y = %y
    }""")
    places = np.array([1e-1, 1e-2, 1e-3, 3e-4, 2e-4, 1e-4, 1e-5, 3e-6, 1e-6])
    at = np.stack([places * 2 / 3 - 1, np.zeros(len(places))], -1)[None, None]
    feeds = {
        "x": np.array([1, 2, np.inf, 4], np.float32).reshape(1, 1, 1, 4),
        "at": at.astype(np.float32),
    }
    with compile_graph(graph) as model:
        for found in (evaluate(graph, feeds), model.run(feeds)):
            np.testing.assert_array_equal(found["y"], np.full((1, 1, 1, 9), -np.inf))
