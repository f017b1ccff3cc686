"""ONNX Runtime's operators of bytes, exhaustively: scales that are powers of two make exact halves,
and with odd zero points it shows whether these are added before or after the rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import infuse
from infuse.ir.parser import parse
from infuse.ops.core.evaluate import evaluate
from tests.models.onnx_tools import run
from tests.native.together import Part, Together

pytestmark = pytest.mark.row("C1")
ZEROS = (7, 8, 128)
SUM = """graph "sum" (%a: uint8[256, 256], %b: uint8[256, 256]) {
  %x = DequantizeLinear(%a, float32[]{0.1}, uint8[]{7})
  %z = DequantizeLinear(%b, float32[]{0.13}, uint8[]{3})
  %s = Add(%x, %z)
  %y = QuantizeLinear(%s, float32[]{0.1}, uint8[]{9})
  return y = %y
}"""


def pairs(dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of bytes."""
    every = np.arange(256).astype(np.uint8).view(dtype)
    first, second = np.meshgrid(every, every)
    return first.copy(), second.copy()


def node(kind: str, *operands: Any, **attributes: Any) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """A model of one node; operands of more than one element are fed."""
    names = [f"v{i}" for i in range(len(operands))]
    feeds = {n: v for n, v in zip(names, operands) if v.size > 1}
    held = [numpy_helper.from_array(v, n) for n, v in zip(names, operands) if v.size == 1]
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in feeds.items()
    ]
    domain = attributes.pop("domain", "com.microsoft")
    results = [f"y{i}" for i in range(attributes.pop("outputs", 1))]
    call = helper.make_node(kind, names, results, domain=domain, **attributes)
    found = [onnx.ValueInfoProto(name=y) for y in results]
    graph = helper.make_graph([call], "g", inputs, found, held)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8), feeds


def check(kind: str, *operands: Any, **attributes: Any) -> np.ndarray:
    """The result, which is the same in the interpreter, natively and in ONNX Runtime."""
    return check_together(node(kind, *operands, **attributes))[0]


def check_together(*models: tuple[onnx.ModelProto, dict[str, Any]]) -> list[np.ndarray]:
    """As `check`, for several models, whose native code is one library."""
    parts = {i: Part(infuse.load(model), feeds) for i, (model, feeds) in enumerate(models)}
    compiled = Together(parts, infuse.CompileOptions(threads=1))
    for i, (model, feeds) in enumerate(models):
        exact, interpreted = run(model, feeds), evaluate(parts[i].graph, feeds)
        for found in (interpreted.values(), compiled[i].values()):
            for array, wanted in zip(found, exact, strict=True):
                if array.dtype == np.float32:
                    np.testing.assert_allclose(array, wanted, rtol=1e-6, strict=True)
                else:
                    np.testing.assert_array_equal(array, wanted, strict=True, err_msg=str(model))
    return [next(iter(compiled[i].values())) for i in parts]


def _zero(dtype: type, zero: int) -> np.ndarray:
    return np.array(zero).astype(np.uint8).view(dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("zero", ZEROS)
@pytest.mark.parametrize("kind", ["QLinearAdd", "QLinearMul"])
def test_of_two(kind: str, zero: int, dtype: type) -> None:
    a, b = pairs(dtype)
    scale, shift = np.float32(0.5), _zero(dtype, zero)
    found = check(kind, a, scale, _zero(dtype, 5), b, scale, _zero(dtype, 3), np.float32(1), shift)
    x, y = (0.5 * (v.astype(float) - _zero(dtype, z).astype(float)) for v, z in ((a, 5), (b, 3)))
    exact = np.rint((x + y if kind == "QLinearAdd" else x * y) + shift.astype(float))
    limits = np.iinfo(dtype)
    np.testing.assert_array_equal(found, np.clip(exact, limits.min, limits.max).astype(dtype))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("zero", ZEROS)
def test_of_one(zero: int, dtype: type) -> None:
    every, half, shift = pairs(dtype)[0][0], np.float32(0.5), _zero(dtype, zero)
    given, one = (every, half, _zero(dtype, 5)), np.float32(1)
    check_together(
        node("QLinearLeakyRelu", *given, one, shift, alpha=0.5),
        node("QLinearSigmoid", *given, np.float32(2**-8), shift),
        node("QLinearConcat", one, shift, *given, every, one, shift, axis=0),
    )


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("zero", ZEROS)
def test_of_images(zero: int, dtype: type) -> None:
    image = np.stack(pairs(dtype), -1).reshape(1, -1, 1, 2)
    given = (image, np.float32(1), _zero(dtype, 5), np.float32(1), _zero(dtype, zero))
    check_together(
        node("QLinearGlobalAveragePool", *given),
        node("QLinearAveragePool", *given, kernel_shape=[1, 2]),
    )


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(("ratio", "zero"), [(1.0, 3), (1.9, 8)])
def test_scales_are_put_together_first(ratio: float, zero: int, dtype: type) -> None:
    """Scales that float32 does not hold exactly leave the halves of (a + b) / 2 exact."""
    a, b = pairs(dtype)
    scale, shift = np.float32(0.1), _zero(dtype, zero)
    given = (scale, _zero(dtype, 7), np.float32(scale * ratio), shift)
    image = np.stack((a, b), -1).reshape(1, -1, 1, 2)
    check_together(
        node("QLinearGlobalAveragePool", image, *given),
        node("QLinearAveragePool", image, *given, kernel_shape=[1, 2]),
    )


@pytest.mark.parametrize("kind", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("scales", [(0.1, 0.13, 0.1), (0.07, 0.3, 0.05)])
def test_of_two_with_other_scales(scales: Sequence[float], dtype: type, kind: str) -> None:
    """Halves that float32 has nearly decide on the order of the steps and on their roundings."""
    a, b = pairs(dtype)
    first, second, to = (
        (np.float32(s), _zero(dtype, z)) for s, z in zip(scales, (7, 3, 9), strict=True)
    )
    check(kind, a, *first, b, *second, *to)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_means_of_larger_windows(dtype: type) -> None:
    """The interpreter sums as ONNX Runtime does; kernels sum in an order of their own."""
    image = np.random.default_rng(0).integers(0, 256, (1, 9, 12, 13)).astype(np.uint8).view(dtype)
    given = (image, np.float32(0.05), _zero(dtype, 7), np.float32(0.1), _zero(dtype, 95))
    check("QLinearGlobalAveragePool", *given)
    check("QLinearGlobalAveragePool", *given, channels_last=1)
    for attributes in ({"kernel_shape": [2, 2]}, {"kernel_shape": [5, 4], "pads": [1, 0, 2, 1]}):
        model, feeds = node("QLinearAveragePool", *given, **attributes)
        (exact,) = run(model, feeds)
        graph = infuse.load(model)
        np.testing.assert_array_equal(evaluate(graph, feeds)["y0"], exact, strict=True)
        with infuse.compile(graph, infuse.CompileOptions(threads=1)) as compiled:
            apart = np.abs(compiled.run(feeds)["y0"].astype(int) - exact)
        assert apart.max() <= 1
        assert (apart > 0).mean() < 5e-3


@pytest.mark.parametrize("scale", [0.1, 0.3, 0.007, 0.05])
def test_quotients_near_exact_halves(scale: float) -> None:
    """A product by the reciprocal of a scale would be off by one here."""
    halves = (np.arange(-150, 150, dtype=np.float32) + np.float32(0.5)) * np.float32(scale)
    x = np.concatenate([halves, *(np.nextafter(halves, np.float32(way)) for way in (-99, 99))])
    found = check("QuantizeLinear", x, np.float32(scale), np.int8(3), domain="")
    exact = np.clip(np.rint(x / np.float32(scale)) + 3, -128, 127)
    np.testing.assert_array_equal(found, exact.astype(np.int8))


def test_sums_that_are_quantized() -> None:
    """Compiled code gives what the interpreter does where both operands are dequantized."""
    a, b = pairs(np.uint8)
    graph = parse(SUM)
    feeds = {"a": a, "b": b}
    with infuse.compile(graph, infuse.CompileOptions(threads=1)) as compiled:
        np.testing.assert_array_equal(compiled.run(feeds)["y"], evaluate(graph, feeds)["y"])


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_products_of_all_pairs(dtype: type) -> None:
    every = pairs(dtype)[0][0]
    a, b = every.reshape(256, 1), every.reshape(1, 256)
    first, second = (np.float32(0.1), _zero(dtype, 7)), (np.float32(0.037), _zero(dtype, 255))
    bias = np.arange(-384, 384, 3, dtype=np.int32)
    columns = np.linspace(0.01, 0.9, 256, dtype=np.float32), np.full(256, second[1])
    to = (np.float32(0.013), _zero(dtype, 5))
    filters = b.reshape(256, 1, 1, 1)
    image = (a.reshape(1, 1, 256, 1), *first)
    check_together(
        node("QGemm", a, *first, b, *columns, bias, *to, alpha=0.7),
        node("QGemm", a, *first, b.T.copy(), *second, bias, transB=1),
        node("MatMulIntegerToFloat", a, b, first[0], second[0], first[1], second[1]),
        node("QLinearMatMul", a, *first, b, *second, *to, domain=""),
        node("MatMulInteger", a, b, first[1], second[1], domain=""),
        node("ConvInteger", a.reshape(1, 1, 256, 1), filters, first[1], second[1], domain=""),
        node("QLinearConv", *image, filters, *columns, *to, bias, domain=""),
    )


ODD = (
    *([0.0], [-1.0], [5, 7], [-5, -7], [3.4e38, 0], [-3.4e38, 0]),
    *([127.5, -0.5, 0.5, 1.5], [0.5, -0.5], [-0.0, 0.0]),
)


def test_ranges_that_are_found() -> None:
    rows = [np.resize(np.array(numbers, np.float32), 2) for numbers in ODD]
    check_together(*(node("DynamicQuantizeLinear", x, outputs=3, domain="") for x in rows))
