"""Quantized operators where ONNX's reference says nothing, or something else: ONNX Runtime is the
witness.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import infuse
from tests.models.onnx_tools import session

RNG = np.random.default_rng(11)
Array = np.ndarray[Any, Any]


class Built:
    """Many nodes in one model, so that they compile once."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: dict[str, Array] = {}
        self.held: dict[str, Array] = {}
        self.outputs: list[str] = []

    def node(
        self,
        kind: str,
        *operands: Any,
        outputs: int = 1,
        fed: Sequence[int] = (0,),
        **attributes: Any,
    ) -> None:
        """Add a node of arrays, of which those numbered in `fed` are inputs of the model."""
        names = []
        for number, array in enumerate(operands):
            name = "" if array is None else f"v{len(self.inputs) + len(self.held)}"
            names.append(name)
            if array is not None:
                (self.inputs if number in fed else self.held)[name] = np.asarray(array)
        results = [f"y{len(self.outputs) + i}" for i in range(outputs)]
        self.outputs += results
        self.nodes.append(helper.make_node(kind, names, results, **attributes))

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "operators",
            [
                helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
                for k, v in self.inputs.items()
            ],
            [onnx.ValueInfoProto(name=name) for name in self.outputs],
            [numpy_helper.from_array(v, k) for k, v in self.held.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)

    def compare(self, witness: Callable[[onnx.ModelProto], Any] = session) -> None:
        model = self.model()
        expected = witness(model).run(None, self.inputs)
        options = infuse.SessionOptions()
        options.graph_optimization_level = 0
        found = infuse.InferenceSession(model.SerializeToString(), options).run(None, self.inputs)
        for number, (y, wanted) in enumerate(zip(found, expected, strict=True)):
            assert y.dtype == wanted.dtype, number
            np.testing.assert_array_equal(
                y, wanted, err_msg=f"output {number} of {[n.op_type for n in self.nodes]}"
            )


def u8(*shape: int) -> Array:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def i8(*shape: int) -> Array:
    """Signed weights of 7 bits: on a processor without VNNI, ONNX Runtime's sums of two products
    saturate with more.
    """
    return RNG.integers(-64, 64, shape).astype(np.int8)


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


def test_numbers_out_of_range() -> None:
    built = Built()
    x = f32(
        0.5,
        1.5,
        -0.5,
        2.5,
        1e9,
        -1e9,
        3e38,
        -3e38,
        np.inf,
        -np.inf,
        np.nan,
        -0.0,
        127.5,
        255.5,
        1e-40,
    )
    for zero in (np.uint8(0), np.uint8(128), np.int8(0), np.int8(-3), np.uint16(7), np.int16(-7)):
        for scale in (1.0, 0.02, 1e30):
            built.node("QuantizeLinear", x, np.float32(scale), zero)
    built.compare()


def test_ranges_of_nothing_but_zeros() -> None:
    built = Built()
    for x in (
        np.zeros((2, 3), np.float32),
        f32(1, 2, 3),
        f32(-1, -2),
        f32(-1, 5, 2),
        f32(1e-30, -1e-30),
    ):
        built.node("DynamicQuantizeLinear", x, outputs=3)
    built.compare()


def test_blocks_of_few_bits() -> None:
    built = Built()
    scales = RNG.uniform(0.01, 0.1, (2, 3)).astype(np.float32)
    for dtype in (ml_dtypes.int4, ml_dtypes.uint4):
        codes = RNG.integers(0, 16, (32, 3)).astype(np.uint8).view(dtype)
        zeros = RNG.integers(0, 16, (2, 3)).astype(np.uint8).view(dtype)
        for zero in (None, zeros):
            built.node("DequantizeLinear", codes, scales, zero, fed=(), axis=0, block_size=16)
    x = RNG.standard_normal((32, 3)).astype(np.float32)
    built.node("QuantizeLinear", x, scales, np.full((2, 3), 100, np.uint8), axis=0, block_size=16)
    built.compare()


def test_products_of_every_pair_of_types() -> None:
    built = Built()
    for a, b in ((u8, u8), (u8, i8), (i8, i8)):
        left, right = a(5, 33), b(33, 40)
        rows, columns = np.abs(a(5)).astype(left.dtype), np.abs(b(40)).astype(right.dtype)
        built.node("MatMulInteger", left, right)
        built.node("MatMulInteger", left, right, left[0, :1], right[:1, 0], fed=(0, 1))
        built.node("MatMulInteger", left, right, rows[0], columns)
        built.node("MatMulInteger", left, right, rows[0], columns, fed=(0, 1, 2, 3))
        built.node("MatMulInteger", a(2, 3, 4, 6), b(3, 6, 5), rows[0], columns[0], fed=(0, 1))
    built.compare()


def test_extremes_do_not_overflow() -> None:
    """Sums of the largest products: instructions of two products in 16 bits would saturate.

    Those of ONNX Runtime do on processors without VNNI, so ONNX's reference is the witness.
    """
    built = Built()
    most, least = np.full((3, 300), 255, np.uint8), np.full((300, 33), -128, np.int8)
    built.node("MatMulInteger", most, least)
    built.node("MatMulInteger", most, least, np.uint8(0), np.int8(127))
    built.node("MatMulInteger", np.zeros_like(most), least, np.uint8(255), np.int8(127))
    pixels, filters = np.full((1, 40, 5, 5), 255, np.uint8), np.full((6, 40, 3, 3), -128, np.int8)
    built.node("ConvInteger", pixels, filters, np.uint8(0))
    built.node("ConvInteger", pixels, filters, np.uint8(3), fed=(0, 1), pads=[1, 1, 1, 1])
    built.compare(ReferenceEvaluator)


def test_convolutions_with_computed_filters() -> None:
    built = Built()
    for w, groups in ((i8(6, 4, 3, 3), 1), (i8(6, 2, 3, 3), 2), (u8(4, 1, 3, 3), 4)):
        zero = w.reshape(-1)[:1]
        built.node(
            "ConvInteger",
            u8(2, 4, 7, 6),
            w,
            np.uint8(9),
            zero,
            fed=(0, 1, 2, 3),
            group=groups,
            pads=[1, 0, 1, 2],
        )
        built.node(
            "ConvInteger", u8(2, 4, 7, 6), w, np.uint8(9), fed=(0,), group=groups, strides=[2, 1]
        )
    built.compare()


def test_quantized_products_and_convolutions() -> None:
    built = Built()
    scale, zero = np.float32(0.02), np.uint8(120)
    for b in (u8, i8):
        w = b(33, 40)
        scales, zeros = RNG.uniform(0.01, 0.03, 40).astype(np.float32), np.zeros(40, w.dtype)
        built.node(
            "QLinearMatMul", u8(5, 33), scale, zero, w, scale, w[0, 0], np.float32(0.9), np.uint8(7)
        )
        built.node(
            "QLinearMatMul", u8(5, 33), scale, zero, w, scales, zeros, np.float32(0.9), np.uint8(7)
        )
        filters = b(6, 4, 3, 3)
        operands = (filters, scales[:6], np.zeros(6, w.dtype), np.float32(0.5), np.uint8(99))
        bias = RNG.integers(-999, 999, 6).astype(np.int32)
        built.node("QLinearConv", u8(2, 4, 7, 6), scale, zero, *operands, bias, pads=[1, 1, 1, 1])
    built.compare()
