"""What files have and the text of ONNX does not allow, beside ONNX Runtime, which computes it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import infuse
from infuse.ops.core.evaluate import evaluate
from tests.models.onnx_tools import run

pytestmark = pytest.mark.row("C1")


def parsed(text: str, opset: int = 21) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> {text}')


def both(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """The result, of the interpreter and of native code."""
    graph = infuse.load(proto)
    plain = evaluate(graph, feeds)["y"]
    with infuse.compile(infuse.optimize(graph), infuse.CompileOptions(threads=1)) as compiled:
        native = compiled.run(feeds)["y"]
    np.testing.assert_allclose(native, plain, rtol=1e-5, atol=1e-3, strict=True)
    return native


@pytest.mark.parametrize("kind", ["ReduceLogSum", "ReduceLogSumExp"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_logarithms_of_integers_are_cut_off(kind: str, dtype: str) -> None:
    proto = parsed(f"""m ({dtype}[2, 3] x) => ({dtype}[2] y) {{
      a = Constant<value = int64[1] {{1}}>() y = {kind}<keepdims = 0>(x, a) }}""")
    x = np.array([[1, 2, 3], [10, 10, 10]], dtype)
    np.testing.assert_array_equal(both(proto, {"x": x}), run(proto, {"x": x})[0], strict=True)


def test_a_signal_without_an_axis_of_parts_is_real() -> None:
    proto = parsed("""m (float[batch, length] x) => (float[a, b, c, d] y) {
      s = Constant<value = int64 {8}>() l = Constant<value = int64 {16}>()
      y = STFT<onesided = 1>(x, s, , l) }""")
    x = np.random.default_rng(0).standard_normal((2, 64), np.float32)
    found = both(proto, {"x": x})
    np.testing.assert_allclose(found, run(proto, {"x": x})[0], rtol=1e-4, atol=1e-4, strict=True)


@pytest.mark.parametrize("stash", [1, 10])
def test_a_range_says_in_what_it_is_counted(stash: int) -> None:
    proto = parsed(
        f"m (float16 a, float16 b, float16 c) => (float16[n] y) "
        f"{{ y = Range<stash_type = {stash}>(a, b, c) }}",
        27,
    )
    feeds = {n: np.array(v, np.float16) for n, v in zip("abc", (0, 300, 0.3))}
    step = np.float32(feeds["c"])
    count = int(np.ceil(np.float32(300) / step))
    found = both(proto, feeds)
    if stash == 1:
        np.testing.assert_array_equal(found, (np.arange(count) * step).astype(np.float16))


def test_of_initializers_of_one_name_the_last_counts() -> None:
    held = [numpy_helper.from_array(np.float32(v), "w") for v in ([1, 2], [10, 20])]
    x, y = (helper.make_tensor_value_info(n, 1, [2]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], held)
    imports = [helper.make_opsetid("", 17)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=8)
    feeds = {"x": np.zeros(2, np.float32)}
    with pytest.warns(RuntimeWarning, match="several initializers of one name .'w'."):
        found = both(proto, feeds)
    np.testing.assert_array_equal(found, run(proto, feeds)[0], strict=True)


def test_texts_of_truth_are_read_back() -> None:
    proto = parsed("m (bool[n] x) => (int64[n] y) { t = Cast<to = 8>(x) y = Cast<to = 7>(t) }")
    feeds = {"x": np.array([True, False])}
    np.testing.assert_array_equal(both(proto, feeds), [1, 0])


@pytest.mark.parametrize("batch", ["2", "batch"])
def test_a_mask_of_ends_and_starts(batch: str) -> None:
    limits = "4" if batch == "2" else "2 * batch"
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.standard_normal((2, 5, 8), np.float32),
        "w": rng.standard_normal((8, 24), np.float32),
        "b": rng.standard_normal(24, np.float32),
        "m": np.array([4, 5, 1, 2], np.int32),
    }
    shapes = {"x": [batch, 5, 8], "w": [8, 24], "b": [24], "m": [limits]}
    inputs = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(v.dtype),
            [int(n) if str(n).isdecimal() else n for n in shapes[name]],
        )
        for name, v in feeds.items()
    ]
    node = helper.make_node("Attention", list("xwbm"), ["y"], domain="com.microsoft", num_heads=2)
    y = onnx.ValueInfoProto(name="y")
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    proto = helper.make_model(
        helper.make_graph([node], "g", inputs, [y]), opset_imports=imports, ir_version=8
    )
    found = both(proto, feeds)
    np.testing.assert_allclose(found, run(proto, feeds)[0], rtol=1e-4, atol=1e-5, strict=True)


def test_what_is_no_string_is_read_as_its_text() -> None:
    proto = parsed("""m (string[n] x) => (string[n] t, string[n] y) {
      t = StringConcat(x, x) y = Identity(x) }""")
    odd = [None, np.nan, 3, 2.5, True, b"b", np.float32(0.1), np.str_("q"), "a"]
    graph = infuse.load(proto)
    with infuse.compile(graph, infuse.CompileOptions(threads=1)) as compiled:
        for x in (np.array(odd, object), np.array(["a", ""], object), np.array([], object)):
            expected = dict(zip(("t", "y"), run(proto, {"x": x}), strict=True))
            for found in (evaluate(graph, {"x": x}), compiled.run({"x": x})):
                assert {k: v.tolist() for k, v in found.items()} == {
                    k: v.tolist() for k, v in expected.items()
                }
