"""ONNX Runtime's operators of bytes, exhaustively: scales that are powers of two make exact halves,
and with odd zero points it shows whether these are added before or after the rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import infuse
from infuse.ops.core.evaluate import evaluate
from tests.models.onnx_tools import run

pytestmark = pytest.mark.row("C1")
ZEROS = (7, 8, 128)


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
    model, feeds = node(kind, *operands, **attributes)
    exact = run(model, feeds)
    graph = infuse.load(model)
    with infuse.compile(graph, threads=1) as compiled:
        native = list(compiled.run(feeds).values())
    for found in (list(evaluate(graph, feeds).values()), native):
        for array, wanted in zip(found, exact, strict=True):
            if array.dtype == np.float32:
                np.testing.assert_allclose(array, wanted, rtol=1e-6, strict=True)
            else:
                np.testing.assert_array_equal(array, wanted, strict=True)
    return native[0]


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
    check("QLinearLeakyRelu", *given, one, shift, alpha=0.5)
    check("QLinearSigmoid", *given, np.float32(2**-8), shift)
    check("QLinearConcat", one, shift, *given, every, one, shift, axis=0)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("zero", ZEROS)
def test_of_images(zero: int, dtype: type) -> None:
    image = np.stack(pairs(dtype), -1).reshape(1, -1, 1, 2)
    given = (image, np.float32(1), _zero(dtype, 5), np.float32(1), _zero(dtype, zero))
    check("QLinearGlobalAveragePool", *given)
    check("QLinearAveragePool", *given, kernel_shape=[1, 2])


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(("ratio", "zero"), [(1.0, 3), (1.9, 8)])
def test_scales_are_put_together_first(ratio: float, zero: int, dtype: type) -> None:
    """Scales that float32 does not hold exactly leave the halves of (a + b) / 2 exact."""
    a, b = pairs(dtype)
    scale, shift = np.float32(0.1), _zero(dtype, zero)
    given = (scale, _zero(dtype, 7), np.float32(scale * ratio), shift)
    image = np.stack((a, b), -1).reshape(1, -1, 1, 2)
    check("QLinearGlobalAveragePool", image, *given)
    check("QLinearAveragePool", image, *given, kernel_shape=[1, 2])


@pytest.mark.parametrize("kind", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_of_two_with_other_scales(dtype: type, kind: str) -> None:
    """A product and a sum that the compiler puts together, or ONNX Runtime, are rounded once: what
    is a half to the last bit may be one step off, and nothing else.
    """
    a, b = pairs(dtype)
    first, second = (np.float32(0.1), _zero(dtype, 7)), (np.float32(0.13), _zero(dtype, 3))
    model, feeds = node(kind, a, *first, b, *second, np.float32(0.1), _zero(dtype, 3))
    (exact,) = run(model, feeds)
    graph = infuse.load(model)
    with infuse.compile(graph, threads=1) as compiled:
        native = compiled.run(feeds)["y0"]
    for found in (evaluate(graph, feeds)["y0"], native):
        apart = np.abs(found.astype(int) - exact)
        assert apart.max() <= 1
        assert (apart > 0).mean() < (0.03 if kind == "QLinearAdd" else 1e-3)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_products_of_all_pairs(dtype: type) -> None:
    every = pairs(dtype)[0][0]
    a, b = every.reshape(256, 1), every.reshape(1, 256)
    first, second = (np.float32(0.1), _zero(dtype, 7)), (np.float32(0.037), _zero(dtype, 255))
    bias = np.arange(-384, 384, 3, dtype=np.int32)
    columns = np.linspace(0.01, 0.9, 256, dtype=np.float32), np.full(256, second[1])
    to = (np.float32(0.013), _zero(dtype, 5))
    check("QGemm", a, *first, b, *columns, bias, *to, alpha=0.7)
    check("QGemm", a, *first, b.T.copy(), *second, bias, transB=1)
    check("MatMulIntegerToFloat", a, b, first[0], second[0], first[1], second[1])
    check("QLinearMatMul", a, *first, b, *second, *to, domain="")
    check("MatMulInteger", a, b, first[1], second[1], domain="")
    filters = b.reshape(256, 1, 1, 1)
    check("ConvInteger", a.reshape(1, 1, 256, 1), filters, first[1], second[1], domain="")
    image = (a.reshape(1, 1, 256, 1), *first)
    check("QLinearConv", *image, filters, *columns, *to, bias, domain="")


ODD = (
    *([0.0], [-1.0], [5, 7], [-5, -7], [3.4e38, 0], [-3.4e38, 0]),
    *([127.5, -0.5, 0.5, 1.5], [0.5, -0.5], [-0.0, 0.0]),
)


def test_ranges_that_are_found() -> None:
    for numbers in ODD:
        x = np.array(numbers, np.float32)
        check("DynamicQuantizeLinear", np.resize(x, 2), outputs=3, domain="")
