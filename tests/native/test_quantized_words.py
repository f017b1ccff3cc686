"""Products of activations of 16 bits and weights of 8: two digits to the base 256, on every kind of
vectors, beside sums in 64 bits and ONNX Runtime.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import infuse
from infuse import dtypes, optimize
from infuse.build.compile import compile_graph
from infuse.dtypes import DType
from infuse.ir.graph import Value
from infuse.lowering.expand import expand
from infuse.lowering.expand.integer_products import multiplies_bytes
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.targets import Target
from tests.native.builder import Builder
from tests.native.kernel_tools import seldom, targets
from tests.native.test_quantized import convolved
from tests.support.emulation import NARROW_BYTES, NARROW_DOTS, NEWEST

pytestmark = [pytest.mark.row("Z1")]

Array = np.ndarray[Any, Any]
S16, U16 = dtypes.int16, dtypes.uint16
SCALE = np.float32(2**-10)
ROUNDED = 2.0**-22
"""Both sums of digits are rounded to float32, and so is what is made of them."""
OF_FLOATS = 1e-5
"""Where floats are multiplied, each addition rounds, and Winograd's tiles more so."""


@pytest.fixture(params=[*targets((NARROW_BYTES, NARROW_DOTS, NEWEST)), *seldom("x86-64-v4")])
def target(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


class Words(Builder):
    """Layers on integers of 16 bits that are fed, and what they have to give in 64 bits."""

    def __init__(self) -> None:
        super().__init__("words", seed=6)
        self.fed: dict[str, Array] = {}
        self.expected: list[tuple[Array, Array]] = []
        """Results, and the sums of magnitudes of what is added up for them."""

    def some(self, dtype: DType, *shape: int) -> Array:
        info = np.iinfo(dtype.numpy)
        return self.rng.integers(info.min, info.max + 1, shape).astype(dtype.numpy)

    def activation(self, x: Array, zero: int) -> Value:
        value = self.input(*x.shape, dtype=dtypes.by_numpy(x.dtype))
        self.fed[value.name] = x
        return self("DequantizeLinear", value, np.asarray(SCALE), np.array(zero, x.dtype))

    def weights(self, w: Array, scales: Array, axis: int) -> Value:
        return self("DequantizeLinear", w, scales, np.zeros(len(scales), np.int8), axis=axis)

    def expect(self, result: Value, exact: Array, magnitude: Array, scales: Array) -> None:
        self.output(result)
        factor = scales.astype(np.float64) * float(SCALE)
        self.expected.append((exact * factor, magnitude * np.abs(factor)))

    def product(self, x: Array, w: Array, zero: int) -> None:
        scales = self.rng.uniform(0.01, 0.02, w.shape[1]).astype(np.float32)
        result = self("MatMul", self.activation(x, zero), self.weights(w, scales, 1))
        wide = x.astype(np.int64) - zero
        digits = np.abs(wide) + 512  # 256 times the high one's, and the low one's
        self.expect(result, wide @ w, digits @ np.abs(w.astype(np.int64)), scales)

    def image(self, x: Array, w: Array, zero: int, **attributes: Any) -> None:
        scales = self.rng.uniform(0.01, 0.02, len(w)).astype(np.float32)
        activation, weights = self.activation(x, zero), self.weights(w, scales, 0)
        exact = convolved(x, w, zero, None, **attributes)
        digits = np.abs(x.astype(np.int64) - zero) + 512
        magnitude = convolved(digits, np.abs(w.astype(np.int64)), None, None, **attributes)
        result = self("Conv", activation, weights, **attributes)
        self.expect(result, exact, magnitude, scales.reshape(-1, 1, 1))

    def check(self, target: str, of_floats: float = OF_FLOATS) -> None:
        answers = compile_graph(self.graph, CompileOptions(target=target)).run(self.fed)
        share = ROUNDED if multiplies_bytes(Target.resolve(target).machine) else of_floats
        for (name, y), (exact, magnitude) in zip(answers.items(), self.expected, strict=True):
            assert y.dtype == np.float32
            assert np.all(np.abs(y - exact) <= share * magnitude), name


@pytest.mark.parametrize("dtype", [S16, U16], ids=str)
def test_products(target: str, dtype: DType) -> None:
    g, info = Words(), np.iinfo(dtype.numpy)
    for zero in (0, int(info.min), int(info.max), 12345):
        for m, k, n in ((1, 1, 1), (5, 3, 33), (17, 70, 45), (40, 64, 96)):
            g.product(g.some(dtype, m, k), g.some(dtypes.int8, k, n), zero)
    g.product(g.some(dtype, 2, 3, 5, 12), g.some(dtypes.int8, 12, 20), 7)
    g.check(target)


@pytest.mark.parametrize("dtype", [S16, U16], ids=str)
def test_images(target: str, dtype: DType) -> None:
    g = Words()
    zero = -321 if dtype is S16 else 40000
    g.image(g.some(dtype, 1, 5, 7, 9), g.some(dtypes.int8, 20, 5, 3, 3), zero, pads=(1, 1, 1, 1))
    g.image(g.some(dtype, 2, 64, 6, 6), g.some(dtypes.int8, 33, 64, 3, 3), zero, strides=(2, 2))
    g.image(g.some(dtype, 2, 33, 5, 6), g.some(dtypes.int8, 17, 33, 1, 1), zero)
    g.image(g.some(dtype, 1, 8, 6, 6), g.some(dtypes.int8, 6, 4, 3, 3), zero, group=2)
    g.image(
        g.some(dtype, 1, 36, 6, 6), g.some(dtypes.int8, 36, 1, 3, 3), zero, group=36,
        pads=(1, 1, 1, 1),
    )  # fmt: skip
    g.check(target)


def test_extreme_values_do_not_overflow(target: str) -> None:
    g = Words()
    for dtype in (S16, U16):
        info = np.iinfo(dtype.numpy)
        ends = (int(info.min), int(info.max))
        for x in ends:
            for zero in ends:
                for w in (-128, 127):
                    rows = np.full((13, 301), x, dtype.numpy)
                    g.product(rows, np.full((301, 33), w, np.int8), zero)
            image = np.full((1, 36, 5, 5), x, dtype.numpy)
            g.image(image, np.full((3, 36, 3, 3), -128, np.int8), ends[1], pads=(1, 1, 1, 1))
    g.check(target)


def test_sums_that_could_leave_32_bits_stay_floats() -> None:
    """65,793 products of -128 and 255 are just within; one more is not, and a float32 sum is as
    right as it was.
    """
    for depth, is_within in ((65793, True), (65794, False)):
        g = Words()
        rows = np.full((2, depth), -32768, np.int16)
        g.product(rows, np.full((depth, 1), -128, np.int8), 32767)
        kinds = {node.kind for node in expand(g.graph)[0].nodes}
        assert ("MatMulInteger" in kinds) is is_within
        assert ("MatMul" in kinds) is not is_within
        if is_within:
            g.check("native", of_floats=depth * 2.0**-24)  # equal terms round to one side


def test_weights_that_leave_8_bits_stay_floats() -> None:
    g = Words()
    x = g.activation(g.some(S16, 3, 4), 0)
    w = g.some(dtypes.uint8, 4, 5)
    w[0, 0] = 255
    g.output(g("MatMul", x, g("DequantizeLinear", w, np.asarray(SCALE), np.array(3, np.uint8))))
    assert "MatMul" in {node.kind for node in expand(g.graph)[0].nodes}


def test_processors_without_products_of_bytes_multiply_floats() -> None:
    machines = {
        name: Target.resolve(name).machine for name in ("x86-64-v3", "x86-64-v4+avx512_vnni")
    }
    g = Words()
    g.product(g.some(S16, 2, 3), g.some(dtypes.int8, 3, 4), 0)
    kinds = {n: {x.kind for x in expand(g.graph, m)[0].nodes} for n, m in machines.items()}
    assert "MatMul" in kinds["x86-64-v3"]
    assert "MatMulInteger" in kinds["x86-64-v4+avx512_vnni"]


def network(dtype: DType, batch: int | str = 1) -> Builder:
    """A convolution, a transposed one and a product that share activations of 16 bits."""
    g = Builder(seed=8)
    zero = np.array(-5 if dtype is S16 else 32700, dtype.numpy)

    def weights(axis: int, *shape: int) -> Value:
        scales = g.rng.uniform(0.001, 0.004, shape[axis]).astype(np.float32)
        array = g.rng.integers(-128, 128, shape).astype(np.int8)
        return g("DequantizeLinear", array, scales, np.zeros(shape[axis], np.int8), axis=axis)

    def stored(x: Value, scale: float) -> Value:
        step = np.asarray(scale, np.float32)
        return g("DequantizeLinear", g("QuantizeLinear", x, step, zero), step, zero)

    x = stored(g.input(batch, 6, 9, 10), 0.0001)
    first = g("Relu", g("Conv", x, weights(0, 20, 6, 3, 3), g.weight(20), pads=(1, 1, 1, 1)))
    first = stored(first, 0.0003)
    up = g("ConvTranspose", first, weights(1, 20, 32, 2, 2), g.weight(32), strides=(2, 2))
    flat = stored(g("Flatten", g("AveragePool", first, kernel_shape=(3, 3))), 0.0003)
    g.output(up, g("Gemm", flat, weights(0, 12, 1120), g.weight(12), transB=1))
    return g


@pytest.mark.parametrize("dtype", [S16, U16], ids=str)
def test_layers_share_digits(target: str, dtype: DType) -> None:
    g = network(dtype, "n")
    better = optimize(g.graph)
    nodes = expand(better)[0].nodes
    kinds = [node.kind for node in nodes]
    assert not {"Conv", "ConvTranspose", "Gemm", "MatMul"}.intersection(kinds)
    assert kinds.count("BitShift") == 3, "one for each activation"
    model = compile_graph(better, CompileOptions(target=target))
    for batch in (1, 0, 5):
        feeds = g.feeds({"n": batch})
        expected = evaluate(g.graph, feeds)
        for name, y in model.run(feeds).items():
            bound = 1e-4 * float(np.abs(expected[name]).max(initial=0))
            np.testing.assert_allclose(
                y, expected[name], 0, bound, err_msg="a rounding at a half may differ: 2⁻¹⁶ each"
            )


# -- what ONNX Runtime's quantizer writes ----------------------------------------------------------


def float_model(path: Path, rng: np.random.Generator) -> None:
    arrays = {
        "W": rng.normal(size=(8, 4, 3, 3)),
        "B": rng.normal(size=8),
        "M": rng.normal(size=(8, 20)),
        "G": rng.normal(size=(5, 20)),
        "C": rng.normal(size=5),
    }
    nodes = [
        helper.make_node("Conv", ["x", "W", "B"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Transpose", ["b"], ["c"], perm=[0, 2, 3, 1]),
        helper.make_node("MatMul", ["c", "M"], ["d"]),
        helper.make_node("ReduceMean", ["d", "axes"], ["e"], keepdims=0),
        helper.make_node("Gemm", ["e", "G", "C"], ["y"], transB=1),
    ]
    constants = [
        numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()
    ]
    constants.append(numpy_helper.from_array(np.array([1, 2], np.int64), "axes"))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, ["n", 4, 6, 7])],
        [helper.make_tensor_value_info("y", 1, ["n", 5])],
        constants,
    )
    opsets = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)


@pytest.mark.parametrize("contributed", [False, True], ids=["standard", "contributed"])
@pytest.mark.parametrize("kind", ["QInt16", "QUInt16"])
def test_models_of_the_quantizer_of_onnx_runtime(
    kind: str, contributed: bool, tmp_path: Path, rng: np.random.Generator
) -> None:
    import onnxruntime
    from onnxruntime import quantization as tools

    source, result = tmp_path / "float.onnx", tmp_path / "quantized.onnx"
    float_model(source, rng)
    runs = [{"x": rng.normal(size=(2, 4, 6, 7)).astype(np.float32)} for _ in range(4)]

    class Reader(tools.CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter(runs)

        def get_next(self) -> dict[str, Array] | None:
            return next(self.left, None)

    tools.quantize_static(
        source,
        result,
        Reader(),
        quant_format=tools.QuantFormat.QDQ,
        activation_type=tools.QuantType[kind],
        weight_type=tools.QuantType.QInt8,
        per_channel=True,
        extra_options={"UseQDQContribOps": contributed},
    )
    graph = optimize(infuse.load(result))
    kinds = [node.kind for node in expand(graph)[0].nodes]
    assert kinds.count("ConvInteger") == 2
    assert kinds.count("MatMulInteger") == 4
    feeds = {"x": rng.normal(size=(3, 4, 6, 7)).astype(np.float32)}
    theirs = onnxruntime.InferenceSession(result).run(None, feeds)[0]
    with infuse.compile(graph, infuse.CompileOptions(threads=1)) as model:
        (ours,) = model.run(feeds).values()
    step = float(np.abs(theirs).max()) / 2**14
    np.testing.assert_allclose(ours, theirs, 0, 4 * step, err_msg="a step of 16 bits or few")
