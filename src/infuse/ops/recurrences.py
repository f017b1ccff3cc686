"""Recurrences of language models over a state: causal convolutions, linear attention."""

from __future__ import annotations

import numpy as np

from infuse.errors import ShapeError, TypeMismatchError
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.relations import must_equal
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op, Rounding, same_dtype
from infuse.ops.core.elementwise import require_kind
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.samples import Floats, cases
from infuse.ops.core.sizes import (
    agree,
    agree_shapes,
    nonempty,
    require_rank,
    whole_parts,
)
from infuse.ops.core.special import sigmoid
from infuse.ops.core.traits import Trait


class CausalConvWithState(Op):
    """Every channel convolved with its own filter over the elements so far, after those of
    `past_state`.

    The second output is the state for the elements that follow: the last ones that the filter still
    reaches.
    """

    traits = Trait.FLOAT32
    activation: str = "none"

    since = 27
    accuracy = Rounding(ulp=8, abs=2e-6, why="sums round in another order")
    samples = cases(
        input=[(2, 3, 9), (1, 4, 1), (2, 5, 40), (1, 2, 2)],
        weight=[(3, 1, 4), (4, 1, 3), (5, 1, 1), (2, 1, 5)],
        bias=[(3,), None, (5,), None],
        past_state=[None, (1, 4, 2), None, (1, 2, 4)],
        activation=["none", "silu", "swish"],
    )

    def infer(
        self,
        input: Value,
        weight: Value,
        bias: Value | None = None,
        past_state: Value | None = None,
    ) -> Inferred:
        dtype = require_kind(self.name, same_dtype(self.name, input, weight, bias, past_state), "f")
        if self.activation not in ("none", "silu", "swish"):
            raise TypeMismatchError(
                f"{self.name} has no activation {self.activation!r}", hint="none, silu or swish"
            )
        for value, rank, name in (
            (input, 3, "the input"),
            (weight, 3, "the weight"),
            (past_state, 3, "the state"),
        ):
            if value is not None:
                require_rank(value, rank, self.name, name)
        if input.tensor.shape is None or weight.tensor.shape is None:
            return TensorType(dtype, input.tensor.shape), TensorType(dtype, None)
        batch, channels, _ = input.shape
        agree_shapes(weight.shape[:2], (channels, 1), f"the sizes of the weight of {self.name}")
        state = batch, channels, weight.shape[2] - 1
        if bias is not None and bias.tensor.shape is not None:
            agree_shapes(bias.shape, (channels,), f"the sizes of the bias of {self.name}")
        if past_state is not None and past_state.tensor.shape is not None:
            agree_shapes(past_state.shape, state, f"the sizes of the state of {self.name}")
        return TensorType(dtype, input.shape), TensorType(dtype, state)

    def eval(
        self,
        input: Array,
        weight: Array,
        bias: Array | None = None,
        past_state: Array | None = None,
    ) -> tuple[Array, Array]:
        reach, length = weight.shape[2] - 1, input.shape[2]
        past = (
            np.zeros((*input.shape[:2], reach), input.dtype) if past_state is None else past_state
        )
        whole = np.concatenate([past, input], axis=2)
        taps = weight.astype(np.float64)[:, 0, :, None]
        start = np.zeros(1) if bias is None else bias[:, None].astype(np.float64)
        result = np.broadcast_to(start, input.shape)
        for tap in range(reach + 1):
            result = result + whole[:, :, tap : tap + length] * taps[:, tap]
        if self.activation != "none":
            result = result * sigmoid(result)
        return result.astype(input.dtype), whole[:, :, length:]

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(shapes.made * shapes.input(1)[-1], shapes.made * int(shapes.has(2)))


class LinearAttention(Op):
    """Attention without softmax: every head keeps the sum of keys times values, and queries read
    it.

    With a decay, the sum fades first; with `beta`, what the key already finds in it is taken from
    the value.
    """

    traits = Trait.FLOAT32

    kv_num_heads: int
    q_num_heads: int
    chunk_size: int = 64
    scale: float = 0.0
    update_rule: str = "gated_delta"

    since = 27
    accuracy = Rounding(ulp=16, abs=4e-6, why="the state carries the rounding of every step")
    samples = (
        cases(
            query=[(2, 5, 8), (1, 3, 6)],
            key=[Floats((2, 5, 8), -0.5, 0.5), Floats((1, 3, 6), -0.5, 0.5)],
            value=[(2, 5, 6), (1, 3, 40)],
            past_state=[None, (1, 2, 3, 20)],
            kv_num_heads=[2],
            q_num_heads=[2],
            update_rule=["linear"],
        ),
        cases(
            query=[(2, 5, 16), (1, 3, 16)],
            key=[Floats((2, 5, 8), -0.5, 0.5), Floats((1, 3, 8), -0.5, 0.5)],
            value=[(2, 5, 6), (1, 3, 70)],
            past_state=[None, (1, 2, 4, 35)],
            decay=[Floats((2, 5, 2), -2, 0), Floats((1, 3, 8), -2, 0)],
            kv_num_heads=[2],
            q_num_heads=[4],
            update_rule=["gated"],
            scale=[0.0, 0.5],
        ),
        cases(
            query=[(2, 5, 8), (1, 3, 8)],
            key=[Floats((2, 5, 8), -0.5, 0.5), Floats((1, 3, 8), -0.5, 0.5)],
            value=[(2, 5, 6), (1, 3, 34)],
            past_state=[(2, 2, 4, 3), None],
            decay=[Floats((2, 5, 2), -2, 0), Floats((1, 3, 8), -2, 0)],
            beta=[Floats((2, 5, 2), 0, 1), Floats((1, 3, 1), 0, 1)],
            kv_num_heads=[2],
            q_num_heads=[2],
        ),
        cases(
            query=[(2, 5, 8)],
            key=[Floats((2, 5, 4), -0.5, 0.5)],
            value=[(2, 5, 17)],
            beta=[Floats((2, 5, 1), 0, 1)],
            kv_num_heads=[1],
            q_num_heads=[2],
            update_rule=["delta"],
        ),
    )

    def infer(
        self,
        query: Value,
        key: Value,
        value: Value,
        past_state: Value | None = None,
        decay: Value | None = None,
        beta: Value | None = None,
    ) -> Inferred:
        dtype = require_kind(self.name, same_dtype(self.name, query, key, value, decay, beta), "f")
        self._check_options(decay, beta)
        state_dtype = (
            dtype if past_state is None else require_kind(self.name, past_state.dtype, "f")
        )
        inputs = {"query": query, "key": key, "value": value, "decay": decay, "beta": beta}
        for name, one in inputs.items():
            if one is not None:
                require_rank(one, 3, self.name, name)
        if any(v.tensor.shape is None for v in (query, key, value)):
            return TensorType(dtype, None), TensorType(state_dtype, None)
        batch, length, _ = query.shape
        for one in (key, value, decay, beta):
            if one is not None and one.tensor.shape is not None:
                agree_shapes(
                    one.shape[:2], (batch, length), f"batch and length of the inputs of {self.name}"
                )
        width = self._width(query.shape[2], self.q_num_heads)
        agree(
            self._width(key.shape[2], self.kv_num_heads),
            width,
            f"the widths of queries and keys of {self.name}",
        )
        nonempty(width, self.name)
        size = self._width(value.shape[2], self.kv_num_heads)
        state = batch, self.kv_num_heads, width, size
        if past_state is not None and past_state.tensor.shape is not None:
            agree_shapes(past_state.shape, state, f"the sizes of the state of {self.name}")
        for one, widths in (
            (decay, (self.kv_num_heads, key.shape[2])),
            (beta, (1, self.kv_num_heads)),
        ):
            if one is None or one.tensor.shape is None:
                continue
            numbers, (few, many) = one.shape[2], widths
            if not must_equal((numbers - few) * (numbers - many), 0):
                raise ShapeError(
                    f"decay or beta of {self.name} has {numbers} numbers a step, not {few} or "
                    f"{many}"
                )
        return TensorType(dtype, (batch, length, size * self.q_num_heads)), TensorType(
            state_dtype, state
        )

    def _check_options(self, decay: Value | None, beta: Value | None) -> None:
        if self.update_rule not in ("linear", "gated", "delta", "gated_delta"):
            raise TypeMismatchError(f"{self.name} has no rule {self.update_rule!r}")
        if self.kv_num_heads < 1 or self.q_num_heads < 1 or self.q_num_heads % self.kv_num_heads:
            raise ShapeError(
                f"{self.name}: {self.q_num_heads} heads do not share {self.kv_num_heads}"
            )
        for one, name in ((decay, "gated"), (beta, "delta")):
            if (one is not None) != (name in self.update_rule):
                raise TypeMismatchError(
                    f"{self.name} with the rule {self.update_rule!r} has other inputs"
                )

    def _width(self, size: Dim, heads: int) -> Dim:
        return whole_parts(size, heads, f"numbers and heads of {self.name}")

    def factor(self, width: int) -> float:
        """What the results are multiplied by."""
        return self.scale or 1 / float(np.sqrt(width))

    def eval(
        self,
        query: Array,
        key: Array,
        value: Array,
        past_state: Array | None = None,
        decay: Array | None = None,
        beta: Array | None = None,
    ) -> tuple[Array, Array]:
        batch, length, _ = query.shape
        heads, shared = self.kv_num_heads, self.q_num_heads // self.kv_num_heads
        q, k, v = (
            x.astype(np.float64).reshape(batch, length, n, x.shape[2] // n)
            for x, n in ((query, self.q_num_heads), (key, heads), (value, heads))
        )
        state = np.zeros((batch, heads, k.shape[3], v.shape[3]))
        if past_state is not None:
            state = past_state.astype(np.float64)
        fades = (
            None
            if decay is None
            else np.exp(decay.astype(np.float64)).reshape(
                batch, length, heads, decay.shape[2] // heads
            )
        )
        rates = None if beta is None else beta.astype(np.float64)[..., None]
        result = np.zeros((batch, length, self.q_num_heads, v.shape[3]))
        for t in range(length):
            new = v[:, t]
            if fades is not None:
                state = state * fades[:, t, :, :, None]
            if rates is not None:
                new = rates[:, t] * (new - np.einsum("bhdm,bhd->bhm", state, k[:, t]))
            state = state + k[:, t, :, :, None] * new[:, :, None, :]
            read = np.repeat(state, shared, axis=1)
            result[:, t] = np.einsum("bhd,bhdm->bhm", q[:, t], read) * self.factor(q.shape[3])
        state_dtype = query.dtype if past_state is None else past_state.dtype
        return result.reshape(batch, length, self.q_num_heads * v.shape[3]).astype(
            query.dtype
        ), state.astype(state_dtype)

    def flops(self, shapes: Shapes) -> Flops:
        """Every step reads the state once and writes it once; decay and correction read it once
        more each.
        """
        batch, steps = shapes.input(0)[:2]
        state = dims.product(shapes.outputs[1][1:]) if len(shapes.outputs) > 1 else 0
        shared = dims.floordiv(self.q_num_heads, self.kv_num_heads)
        further = {"linear": 1, "gated": 2, "delta": 2, "gated_delta": 3}[self.update_rule]
        return Flops(batch * steps * state * (shared + further))
