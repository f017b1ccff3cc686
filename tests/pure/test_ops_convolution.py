"""Convolution and pooling: geometry for all sizes, and cases with a known answer."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from infuse.errors import ShapeError
from infuse.ir.graph import constant
from infuse.ir.types import tensor
from infuse.ops.core.base import Op
from tests.pure.inferred_types import F32, infer, op, shape_text


@st.composite
def geometries(draw: st.DrawFn) -> tuple[dict[str, Any], int, int]:
    """Attributes of one spatial axis, the input's size and the window's."""
    kernel, stride, dilation = (
        draw(st.integers(1, 4)),
        draw(st.integers(1, 4)),
        draw(st.integers(1, 3)),
    )
    attributes: dict[str, Any] = {"strides": (stride,), "dilations": (dilation,)}
    attributes["auto_pad"] = draw(st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    if attributes["auto_pad"] == "NOTSET":
        attributes["pads"] = (draw(st.integers(0, kernel - 1)), draw(st.integers(0, kernel - 1)))
    return attributes, draw(st.integers(1, 17)), kernel


def agree_on_sizes(operator: Op, size: int, *rest: Any) -> None:
    """Types for a number and for a symbol agree with what `eval` gives."""
    x = np.arange(4 * size, dtype=np.float32).reshape(2, 2, size)
    arrays = [np.asarray(r) for r in rest]
    try:
        static = infer(operator, tensor(F32, 2, 2, size), *map(constant, arrays))
    except ShapeError:
        with pytest.raises(ShapeError):
            operator.eval(x, *arrays)
        return
    found = operator.eval(x, *arrays)
    found = found[0] if isinstance(found, tuple) else found
    assert static.shape == found.shape
    symbolic = infer(operator, tensor(F32, "batch", 2, "width"), *map(constant, arrays))
    assert symbolic.substitute({"batch": 2, "width": size}).shape == found.shape


@given(geometries(), st.sampled_from(["MaxPool", "AveragePool", "LpPool"]), st.integers(0, 1))
def test_pool_sizes(geometry: tuple[dict[str, Any], int, int], kind: str, ceil_mode: int) -> None:
    attributes, size, kernel = geometry
    agree_on_sizes(op(kind, kernel_shape=(kernel,), ceil_mode=ceil_mode, **attributes), size)


@given(geometries())
def test_convolution_sizes(geometry: tuple[dict[str, Any], int, int]) -> None:
    attributes, size, kernel = geometry
    agree_on_sizes(op("Conv", **attributes), size, np.ones((3, 2, kernel), np.float32))


@given(geometries(), st.integers(0, 2))
def test_transposed_convolution_sizes(
    geometry: tuple[dict[str, Any], int, int], extra: int
) -> None:
    attributes, size, kernel = geometry
    assume(extra < max(attributes["strides"][0], attributes["dilations"][0]))
    begin, end = attributes.get("pads", (0, 0))
    grown = (
        attributes["strides"][0] * (size - 1)
        + (kernel - 1) * attributes["dilations"][0]
        + 1
        + extra
    )
    assume(begin + end < grown)
    operator = op("ConvTranspose", output_padding=(extra,), **attributes)
    agree_on_sizes(operator, size, np.ones((2, 3, kernel), np.float32))


@given(geometries())
def test_transposed_convolution_is_the_transpose(geometry: tuple[dict[str, Any], int, int]) -> None:
    attributes, size, kernel = geometry
    rng = np.random.default_rng(size)
    w = rng.normal(size=(3, 2, kernel))
    forward = op("Conv", **{**attributes, "auto_pad": "NOTSET"})
    x = rng.normal(size=(1, 2, size))
    try:
        y = forward.eval(x, w)
    except ShapeError:
        assume(False)
    rest = (
        size + sum(attributes.get("pads", (0, 0))) - (kernel - 1) * attributes["dilations"][0] - 1
    ) % attributes["strides"][0]
    backward = op("ConvTranspose", output_padding=(rest,), **{**attributes, "auto_pad": "NOTSET"})
    z = rng.normal(size=y.shape)
    # ⟨conv(x), z⟩ = ⟨x, convᵀ(z)⟩
    np.testing.assert_allclose(np.vdot(y, z), np.vdot(x, backward.eval(z, w)), rtol=1e-9, atol=1e-9)


def test_symbolic_images_keep_readable_sizes() -> None:
    image, filters = tensor(F32, "batch", 3, "h", "w"), tensor(F32, 8, 3, 3, 3)
    halved = infer(op("Conv", pads=(1, 1, 1, 1), strides=(2, 2)), image, filters)
    assert shape_text(halved) == "batch, 8, ((h + 1) // 2), ((w + 1) // 2)"
    same = infer(op("Conv", auto_pad="SAME_UPPER", strides=(2, 2)), image, filters)
    assert same == halved
    assert shape_text(infer(op("Conv", pads=(1, 1, 1, 1)), image, filters)) == "batch, 8, h, w"
    assert shape_text(infer(op("Conv", auto_pad="SAME_UPPER"), image, filters)) == "batch, 8, h, w"
    pooled = infer(op("MaxPool", kernel_shape=(3, 3), strides=(2, 2), ceil_mode=1), image)
    assert shape_text(pooled) == "batch, 3, (h // 2), (w // 2)"


def test_depthwise_convolution_by_hand() -> None:
    x = np.arange(8, dtype=np.float32).reshape(1, 2, 4)
    w = np.float32([[[1, 1]], [[1, -1]]])
    assert op("Conv", group=2).eval(x, w).tolist() == [[[1, 3, 5], [-1, -1, -1]]]


def test_half_precision_sums_in_single() -> None:
    x = np.ones((1, 4096, 1), np.float16)
    w = np.ones((1, 4096, 1), np.float16)
    assert op("Conv").eval(x, w).item() == 4096
    assert op("MatMul").eval(x[:, :, 0], w[0]).item() == 4096
    assert op("ReduceSum").eval(x).item() == 4096
    assert op("GlobalAveragePool").eval(np.full((1, 1, 100, 100), 10, np.float16)).item() == 10


def test_pooling_indices_name_the_first_of_equals() -> None:
    x = np.zeros((1, 1, 4), np.float32)
    values, indices = op("MaxPool", kernel_shape=(2,), strides=(2,)).eval(x)
    assert values.tolist() == [[[0, 0]]]
    assert indices.tolist() == [[[0, 2]]]


def test_pooling_of_the_lowest_number_stays_inside() -> None:
    x = np.full((1, 1, 2), -128, np.int8)
    values, indices = op("MaxPool", kernel_shape=(2,), pads=(1, 1)).eval(x)
    assert values.tolist() == [[[-128] * 3]]
    assert indices.tolist() == [[[0, 0, 1]]]


def test_average_counts_what_it_is_told_to_count() -> None:
    x = np.ones((1, 1, 4), np.float32)
    geometry: dict[str, Any] = {
        "kernel_shape": (3,),
        "pads": (1, 1),
        "strides": (2,),
        "ceil_mode": 1,
    }
    assert op("AveragePool", **geometry).eval(x).tolist() == [[[1, 1, 1]]]
    counted = op("AveragePool", count_include_pad=1, **geometry).eval(x)
    np.testing.assert_allclose(counted, [[[2 / 3, 1, 1 / 2]]], rtol=1e-6)
