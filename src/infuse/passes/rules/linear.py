"""Matrix products with constants: bias, scale and normalization folded in."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir import dims
from infuse.ir.graph import Node, Value
from infuse.passes.rules.convolution import old_bias
from infuse.rewrite import Rule, require


class FuseMatMulAdd(Rule):
    """MatMul(x, w) + b → Gemm(x, w, b) for matrices"""

    rows = ("G15",)

    def match(self, x: Any, w: Any, b: Any) -> Any:
        return ops.matmul(x, ops.const(w)) + ops.const(b)

    def when(self, x: Value, w: Value, b: Value, root: Node) -> None:
        require(x.tensor.shape is not None and x.rank == 2 and w.rank == 2, "the operands are no matrices")
        require(b.rank <= 2 and b.shape in ((w.shape[1],), (1, w.shape[1])), "the addend is no bias")
        require(w.dtype.is_float and len(root.output.shape) == 2, f"elements of {w.dtype}")

    def build(self, x: Value, w: Value, b: Value) -> Any:
        return ops.gemm(x, w, b)


class FuseGemmAdd(Rule):
    """Gemm(x, w) + b, Gemm(x, w, c) + b → Gemm(x, w, c + b)"""

    rows = ("G15",)

    def match(self, x: Any, w: Any, c: Any, b: Any) -> Any:
        return ops.gemm(x, w, ops.const(ops.maybe(c)), name="gemm") + ops.const(b)

    def when(self, gemm: Node, b: Value, c: Value | None) -> None:
        n = gemm.output.shape[1]
        require(b.shape in ((n,), (1, n)), "the addend is no bias")
        require(c is None or c.shape in ((n,), (1, n)), "the Gemm adds a matrix")

    def build(self, gemm: Node, x: Value, w: Value, c: Value | None, b: Value) -> Any:
        given = dict(gemm.op.attributes())
        assert b.const is not None
        total = b.const.reshape(-1).astype(np.float64)
        if c is not None and c.const is not None:
            total = total + given["beta"] * c.const.reshape(-1).astype(np.float64)
        given["beta"] = 1.0
        return ops.gemm(x, w, total.astype(b.const.dtype), **given)


class FuseGemmBatchNormalization(Rule):
    """BatchNormalization(Gemm(x, w, b)) → Gemm with scaled weights"""

    rows = ("G17",)

    def match(self, x: Any, w: Any, b: Any, scale: Any, shift: Any, mean: Any, var: Any) -> Any:
        given = [ops.const(v) for v in (scale, shift, mean, var)]
        gemm = ops.gemm(x, ops.const(w), ops.const(ops.maybe(b)), name="gemm")
        return ops.batch_normalization(gemm, *given, name="norm")

    def when(self, gemm: Node, b: Value | None) -> None:
        require(b is None or b.rank == 1, "the Gemm adds a matrix")

    def build(
        self,
        gemm: Node,
        x: Value,
        w: Value,
        b: Value | None,
        scale: Value,
        shift: Value,
        mean: Value,
        var: Value,
        norm: Node,
    ) -> Any:
        s, t, m, v = (c.const.astype(np.float64) for c in (scale, shift, mean, var) if c.const is not None)
        factor = s / np.sqrt(v + norm.op.attributes()["epsilon"])
        given = dict(gemm.op.attributes())
        assert w.const is not None
        shaped = factor.reshape(-1, 1) if given["transB"] else factor
        bias = (given["beta"] * np.broadcast_to(old_bias(b, len(factor)), factor.shape) - m) * factor + t
        given["beta"] = 1.0
        kind = w.const.dtype
        return ops.gemm(x, (w.const * shaped).astype(kind), bias.astype(kind), **given)


class UnflattenGemm(Rule):
    """Reshape(Gemm(Reshape(x, (-1, k)), w, b), (…, n)) → MatMul(x, w) + b, without the reshapes"""

    level = "all"
    rows = ("G7", "G19")

    def match(self, x: Any, s: Any, w: Any, b: Any, t: Any) -> Any:
        flat = ops.reshape(x, s)
        gemm = ops.gemm(flat, ops.const(w), ops.const(ops.maybe(b)), transA=0, alpha=1.0, beta=1.0, name="gemm")
        return ops.reshape(gemm, t)

    def when(self, x: Value, w: Value, b: Value | None, gemm: Node, root: Node) -> None:
        require(x.tensor.shape is not None and root.output.tensor.shape is not None, "the shape is not known")
        require(x.rank >= 2 and x.shape[:-1] == root.output.shape[:-1], "the rows are arranged anew")
        k = gemm.inputs[0].shape[1] if gemm.inputs[0] is not None else None
        require(dims.compare("==", x.shape[-1], k if k is not None else 0) is True, "the rows are cut anew")
        require(b is None or b.rank == 1, "the Gemm adds a matrix")

    def build(self, x: Value, w: Value, b: Value | None, gemm: Node) -> Any:
        assert w.const is not None
        matrix = np.ascontiguousarray(w.const.T) if gemm.op.attributes()["transB"] else w
        product = ops.matmul(x, matrix)
        return product if b is None else product + b


RULES = (FuseMatMulAdd, FuseGemmAdd, FuseGemmBatchNormalization, UnflattenGemm)
