"""Attention whose scores and weights go through graphs of the model (domain ai.onnx.preview)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import GraphError, TypeMismatchError
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.types import TensorType, Type
from infuse.ops.core.base import Array, Inferred, Rounding, same_dtype
from infuse.ops.core.control_flow import ControlFlow, Run
from infuse.ops.core.elementwise import require_kind
from infuse.ops.core.inference import infer_body
from infuse.ops.core.sizes import agree, require_rank, whole_parts

DOMAIN = "ai.onnx.preview"
BODIES = ("score_mod", "prob_mod")


class FlexAttention(ControlFlow):
    """softmax(Q · Kᵀ · scale) · V, the scores through the body `score_mod` and the weights through
    `prob_mod`.

    Each body takes and gives one tensor of (batch, heads, queries, keys), in the type of the
    softmax.
    """

    scale: float | None = None
    softmax_precision: DType | None = None

    domain = DOMAIN
    accuracy = Rounding(ulp=8, abs=4e-6, why="long sums round in another order")

    def infer(self, Q: Value, K: Value, V: Value) -> Inferred:
        dtype = require_kind(self.name, same_dtype(self.name, Q, K, V), "f")
        for value, name in ((Q, "Q"), (K, "K"), (V, "V")):
            require_rank(value, 4, self.name, name)
        if any(v.tensor.shape is None for v in (Q, K, V)):
            return TensorType(dtype, None)
        agree(Q.shape[3], K.shape[3], f"the widths of queries and keys of {self.name}")
        for axis in (1, 2):
            agree(
                K.shape[axis],
                V.shape[axis],
                f"the heads and lengths of keys and values of {self.name}",
            )
        for one in (K, V):
            agree(Q.shape[0], one.shape[0], f"the batches of {self.name}")
        whole_parts(Q.shape[1], K.shape[1], f"heads of queries and of keys of {self.name}")
        return TensorType(dtype, (*Q.shape[:3], V.shape[3]))

    def precision(self, dtype: DType) -> DType:
        """The type of scores and weights."""
        if self.softmax_precision is not None:
            return require_kind(self.name, self.softmax_precision, "f")
        return dtype if dtype == dtypes.float64 else dtypes.float32

    def factor(self, width: int) -> float:
        """What scores are multiplied by."""
        return 1 / float(np.sqrt(width)) if self.scale is None else self.scale

    def infer_bodies(self, node: Node) -> Sequence[Type]:
        q, k, v = (x for x in node.inputs if x is not None)
        result = self.infer(q, k, v)
        assert isinstance(result, TensorType)
        shape = (
            None if q.tensor.shape is None or k.tensor.shape is None else (*q.shape[:3], k.shape[2])
        )
        for name in BODIES:
            if name in node.subgraphs:
                self._infer_body(node.subgraphs[name], TensorType(self.precision(q.dtype), shape))
        return [result]

    def _infer_body(self, body: Graph, type: TensorType) -> None:
        if len(body.inputs) != 1 or len(body.outputs) != 1:
            raise GraphError(f"a body of {self.name} takes one tensor and gives one")
        body.inputs[0].type, body.inputs[0].content = type, None
        infer_body(body)
        if body.outputs[0].dtype != type.dtype:
            raise TypeMismatchError(
                f"a body of {self.name} gives {body.outputs[0].type}, not {type}"
            )

    def run_bodies(self, node: Node, inputs: Sequence[Any], run: Run) -> Sequence[Any]:
        q, k, v = (np.asarray(x, np.float64) for x in inputs)
        kind = self.precision(dtypes.by_numpy(inputs[0].dtype)).numpy
        shared = q.shape[1] // k.shape[1]
        keys, values = np.repeat(k, shared, axis=1), np.repeat(v, shared, axis=1)
        scores = _through(
            node, "score_mod", run, (q @ keys.swapaxes(2, 3) * self.factor(q.shape[3])).astype(kind)
        )
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = (powers / powers.sum(axis=-1, keepdims=True)).astype(kind)
        weights = _through(node, "prob_mod", run, weights)
        return [(weights @ values).astype(inputs[2].dtype)]


def _through(node: Node, name: str, run: Run, x: Array) -> Array:
    """What a body makes of a tensor, in float64."""
    body = node.subgraphs.get(name)
    result: Array = np.asarray(x if body is None else run(body, [x])[0]).astype(np.float64)
    return result
