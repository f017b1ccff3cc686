"""Regions of networks as models of their own, for `benchmarks.compare`: what one kernel computes,
and where a copy can be left out.

`python -m benchmarks.region_models FOLDER`, then
`python -m benchmarks.compare OLD NEW --zoo FOLDER --threads 1`
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Model:
    """A model that is written node by node; weights are random."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []

    def input(self, *shape: int) -> str:
        """An input of float32."""
        name = f"x{len(self._inputs)}"
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def weight(self, *shape: int) -> str:
        """A constant whose products neither grow nor vanish."""
        name = f"w{len(self._weights)}"
        values = self._rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        self._weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def __call__(self, kind: str, *inputs: str, **attributes: object) -> str:
        name = f"n{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def conv(self, x: str, inner: int, outer: int, kernel: int = 1) -> str:
        """A convolution that keeps the size, and Relu."""
        filters, bias = self.weight(outer, inner, kernel, kernel), self.weight(outer)
        pads = [kernel // 2] * 4
        return self("Relu", self("Conv", x, filters, bias, pads=pads))

    def finished(self, *outputs: str) -> onnx.ModelProto:
        """The model that gives these."""
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self._nodes, "region", self._inputs, ends, self._weights)
        opset = helper.make_opsetid("", 17)
        return helper.make_model(graph, opset_imports=[opset], ir_version=8)


def skip_norm(rows: int, columns: int, *, is_read: bool) -> onnx.ModelProto:
    """A sum that is normalized, and an output, too, where it is read."""
    m = Model()
    x = m("Add", m.input(rows, columns), m.input(rows, columns))
    y = m("LayerNormalization", x, m.weight(columns), m.weight(columns), axis=-1)
    return m.finished(y, *[x] * is_read)


def diamond() -> onnx.ModelProto:
    """A difference that is read twice, a million elements."""
    m = Model()
    d = m("Sub", m.input(1024, 1024), m.weight(1024))
    return m.finished(m("Add", m("Mul", d, d), m("Abs", d)))


def stored() -> onnx.ModelProto:
    """A value that is an output and read once more, a million elements."""
    m = Model()
    y = m("Relu", m("Add", m.input(1024, 1024), m.weight(1024)))
    return m.finished(m("Mul", y, m("Sigmoid", y)), y)


def upsampled(kernel: int, inner: int, outer: int, side: int) -> onnx.ModelProto:
    """A transposed convolution in steps of two with Relu, between convolutions of pixels."""
    m = Model()
    x = m.conv(m.input(1, inner, side, side), inner, inner)
    pads = [(kernel - 2) // 2] * 4
    filters, bias = m.weight(inner, outer, kernel, kernel), m.weight(outer)
    x = m("Relu", m("ConvTranspose", x, filters, bias, strides=[2, 2], pads=pads))
    return m.finished(m.conv(x, outer, 16))


def channels_last() -> onnx.ModelProto:
    """A network of TensorFlow's that ends with a map of classes."""
    m = Model()
    x = m("Transpose", m.input(1, 128, 128, 16), perm=[0, 3, 1, 2])
    x = m.conv(m.conv(x, 16, 32, 3), 32, 21)
    return m.finished(m("Transpose", m("Sigmoid", x), perm=[0, 2, 3, 1]))


def dense() -> onnx.ModelProto:
    """Convolutions that each read all results before."""
    m = Model()
    x, channels = m.conv(m.input(1, 64, 28, 28), 64, 64), 64
    for _ in range(8):
        x = m("Concat", x, m.conv(x, channels, 32, 3), axis=1)
        channels += 32
    return m.finished(m("GlobalAveragePool", m.conv(x, channels, 64)))


REGIONS: dict[str, Callable[[], onnx.ModelProto]] = {
    "skip_norm": lambda: skip_norm(384, 768, is_read=False),
    "skip_norm_read": lambda: skip_norm(384, 768, is_read=True),
    "skip_norm_narrow": lambda: skip_norm(784, 192, is_read=True),
    "diamond": diamond,
    "stored": stored,
    "upsampled_2x2_deep": lambda: upsampled(2, 256, 128, 32),
    "upsampled_2x2_wide": lambda: upsampled(2, 64, 32, 128),
    "upsampled_4x4_deep": lambda: upsampled(4, 256, 128, 32),
    "upsampled_4x4_wide": lambda: upsampled(4, 64, 32, 128),
    "channels_last": channels_last,
    "dense": dense,
}


def main() -> None:
    """Write all models."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.region_models")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in REGIONS.items():
        onnx.save(make(), folder / f"{name}.onnx")


if __name__ == "__main__":
    main()
