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
    call = helper.make_node(kind, names, ["y"], domain="com.microsoft", **attributes)
    graph = helper.make_graph([call], "g", inputs, [onnx.ValueInfoProto(name="y")], held)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8), feeds


def check(kind: str, *operands: Any, **attributes: Any) -> np.ndarray:
    """The result, which is the same in the interpreter, natively and in ONNX Runtime."""
    model, feeds = node(kind, *operands, **attributes)
    (exact,) = run(model, feeds)
    graph = infuse.load(model)
    with infuse.compile(graph, threads=1) as compiled:
        native = compiled.run(feeds)["y"]
    for found in (evaluate(graph, feeds)["y"], native):
        np.testing.assert_array_equal(found, exact, strict=True)
    return native


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
