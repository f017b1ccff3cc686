"""A witness of what a model means: ONNX's own reference evaluator, everything in float64.

Operators that the evaluator computes in loops of Python, rounds to float32 in between, or gets
wrong, are PyTorch's, SciPy's and NumPy's.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

Arrays = dict[str, np.ndarray]


class Exact:
    """An engine (benchmarks.engines): slow, and right to about 1e-15."""

    def __init__(self, path: Path, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        start = time.perf_counter()
        model = onnx.load(path)
        widen(model)
        self.evaluator = ReferenceEvaluator(model, new_ops=_operators())
        self.facts = {"open_s": time.perf_counter() - start}

    def run(self, inputs: Arrays) -> Any:
        """See Engine."""
        wide = {
            name: x.astype(np.float64) if x.dtype == np.float32 else x for name, x in inputs.items()
        }
        return self.evaluator.run(None, wide)

    def answer(self, inputs: Arrays) -> Arrays:
        """See Engine."""
        return dict(zip(self.evaluator.output_names, self.run(inputs), strict=True))


def widen(model: onnx.ModelProto) -> None:
    """Let everything in a model that is float32 be float64, in place: weights, constants, what Cast
    makes.
    """
    for graph in _graphs(model.graph):
        for tensor in graph.initializer:
            _widen_tensor(tensor)
        for node in graph.node:
            for attribute in node.attribute:
                _widen_attribute(attribute)
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                value.type.tensor_type.elem_type = TensorProto.DOUBLE


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from _graphs(attribute.g)


def _widen_attribute(attribute: AttributeProto) -> None:
    if attribute.type == AttributeProto.TENSOR:
        _widen_tensor(attribute.t)
    elif attribute.name in ("to", "dtype") and attribute.i == TensorProto.FLOAT:
        attribute.i = TensorProto.DOUBLE


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        tensor.CopyFrom(
            numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name)
        )


def _operators() -> list[type[OpRun]]:
    """The operators that take the place of the evaluator's."""
    import torch
    from scipy import special
    from torch.nn import functional

    def tensor(x: np.ndarray) -> Any:
        return torch.from_numpy(np.require(x, requirements=("C", "W")))

    def padded(x: Any, pads: Sequence[int], value: float) -> Any:
        """An image with the pads of an ONNX node around it."""
        half = len(pads) // 2
        pairs = [n for axis in reversed(range(half)) for n in (pads[axis], pads[axis + half])]
        return functional.pad(x, pairs, value=value) if any(pairs) else x

    def steps(given: dict[str, Any]) -> dict[str, Any]:
        """Strides and dilations, as PyTorch calls them."""
        if given.get("auto_pad", "NOTSET") != "NOTSET":
            raise NotImplementedError("padding that depends on the size")
        return {
            "stride": tuple(given.get("strides") or [1]),
            "dilation": tuple(given.get("dilations") or [1]),
        }

    class Conv(OpRun):
        op_domain = ""

        def _run(
            self, x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, **given: Any
        ) -> tuple[np.ndarray]:
            run = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}[x.ndim - 2]
            image, bias = (
                padded(tensor(x), given.get("pads") or (), 0.0),
                None if b is None else tensor(b),
            )
            return (
                run(image, tensor(w), bias, groups=given.get("group") or 1, **steps(given)).numpy(),
            )

    class MaxPool(OpRun):
        op_domain = ""

        def _run(self, x: np.ndarray, **given: Any) -> tuple[np.ndarray]:
            image, kernel = (
                padded(tensor(x), given.get("pads") or (), -np.inf),
                tuple(given["kernel_shape"]),
            )
            return (
                functional.max_pool2d(
                    image, kernel, ceil_mode=bool(given.get("ceil_mode")), **steps(given)
                ).numpy(),
            )

    class AveragePool(OpRun):
        op_domain = ""

        def _run(self, x: np.ndarray, **given: Any) -> tuple[np.ndarray]:
            asked = steps(given)
            if set(asked["dilation"]) != {1} or given.get("ceil_mode"):
                raise NotImplementedError("dilated means, and windows beyond the end")
            pads, kernel = given.get("pads") or (), tuple(given["kernel_shape"])
            whole = torch.ones((1, 1, *x.shape[2:]), dtype=torch.float64)
            mean, share = (
                functional.avg_pool2d(padded(image, pads, 0.0), kernel, asked["stride"])
                for image in (tensor(x), whole)
            )
            return ((mean if given.get("count_include_pad") else mean / share).numpy(),)

    class Erf(OpRun):
        op_domain = ""

        def _run(self, x: np.ndarray) -> tuple[np.ndarray]:
            return (special.erf(x),)

    class Gelu(OpRun):
        op_domain = ""

        def _run(self, x: np.ndarray, **given: Any) -> tuple[np.ndarray]:
            if given.get("approximate", "none") != "none":
                return (0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),)
            return (0.5 * x * (1 + special.erf(x / np.sqrt(2))),)

    class HardSwish(OpRun):
        op_domain = ""

        def _run(self, x: np.ndarray) -> tuple[np.ndarray]:
            return (x * np.clip(x / 6 + 0.5, 0, 1),)

    class GatherElements(OpRun):
        op_domain = ""

        def _run(self, x: np.ndarray, at: np.ndarray, axis: int = 0) -> tuple[np.ndarray]:
            part = tuple(slice(None if a == axis % x.ndim else n) for a, n in enumerate(at.shape))
            return (np.take_along_axis(x[part], at, axis),)

    return [Conv, MaxPool, AveragePool, Erf, Gelu, HardSwish, GatherElements]
