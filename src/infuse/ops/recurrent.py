"""Recurrent networks: a cell that goes along a sequence and hands its state to the next step."""

from __future__ import annotations

from collections.abc import Sequence

from infuse.immutable import replace
from infuse.ir.graph import Value
from infuse.ops.core.base import Array, Inferred, same_dtype
from infuse.ops.core.sizes import agree_shapes, require_rank
from infuse.ops.core.traits import Trait
from infuse.ops.recurrent_base import Activation, Recurrent, Weights, product
from infuse.ops.recurrent_samples import one_sample, usual_samples


class OneState(Recurrent, abstract=True):
    """Cells whose state is their output."""

    def infer(
        self,
        X: Value,
        W: Value,
        R: Value,
        B: Value | None = None,
        sequence_lens: Value | None = None,
        initial_h: Value | None = None,
    ) -> Inferred:
        every, last = self._types(X, W, R, B, sequence_lens, initial_h)
        return every, last

    def eval(
        self,
        X: Array,
        W: Array,
        R: Array,
        B: Array | None = None,
        sequence_lens: Array | None = None,
        initial_h: Array | None = None,
    ) -> tuple[Array, Array]:
        return self.run(X, W, R, B, sequence_lens, initial_h)[:2]


class RNN(OneState):
    """h = f(x · Wᵀ + h · Rᵀ + biases) along a sequence."""

    traits = Trait.FLOAT32
    gates = 1
    usual = ("Tanh",)
    samples = usual_samples(1, 1, "B", "sequence_lens", "initial_h")

    def step(
        self, functions: Sequence[Activation], ws: Weights, x: Array, h: Array, c: Array
    ) -> tuple[Array, Array]:
        return functions[0]((x + product(h, ws.r) + ws.rb)[:, 0]), c


class GRU(OneState):
    """A gated recurrent unit: h = (1 − z) ⊙ g(x · Whᵀ + (r ⊙ h) · Rhᵀ) + z ⊙ h, with gates z and r
    of x and h.

    The gates lie in the order z, r, h. With `linear_before_reset`, r scales h · Rhᵀ and its bias
    instead.
    """

    traits = Trait.FLOAT32
    linear_before_reset: int = 0

    gates = 3
    usual = ("Sigmoid", "Tanh")
    samples = (
        *usual_samples(3, 2, "B", "sequence_lens", "initial_h"),
        *(
            replace(s, attributes={**s.attributes, "linear_before_reset": 1})
            for s in usual_samples(3, 2, "B", "sequence_lens", "initial_h")[:8]
        ),
    )

    def step(
        self, functions: Sequence[Activation], ws: Weights, x: Array, h: Array, c: Array
    ) -> tuple[Array, Array]:
        f, g = functions
        gates = f(x[:, :2] + product(h, ws.r[:2]) + ws.rb[:2])
        z, r = gates[:, 0], gates[:, 1]
        if self.linear_before_reset:
            linear = r * (product(h, ws.r[2:])[:, 0] + ws.rb[2])
        else:
            linear = product(r * h, ws.r[2:])[:, 0] + ws.rb[2]
        return (1.0 - z) * g(x[:, 2] + linear) + z * h, c


class LSTM(Recurrent):
    """Long short-term memory: c = f ⊙ c + i ⊙ g(…), h = o ⊙ h(c), with gates i, o and f of x, h
    and, by way of the peepholes P (for i, o, f), of c.

    The gates lie in the order i, o, f, c. With `input_forget`, f is 1 − i.
    """

    traits = Trait.FLOAT32
    input_forget: int = 0

    gates = 4
    usual = ("Sigmoid", "Tanh", "Tanh")
    samples = (
        *usual_samples(4, 3, "B", "sequence_lens", "initial_h", "initial_c", "P"),
        one_sample(4, 3, 2, 3, 17, "B", "P", input_forget=1),
        one_sample(4, 3, 2, 3, 4, "initial_c"),
    )

    def infer(
        self,
        X: Value,
        W: Value,
        R: Value,
        B: Value | None = None,
        sequence_lens: Value | None = None,
        initial_h: Value | None = None,
        initial_c: Value | None = None,
        P: Value | None = None,
    ) -> Inferred:
        every, last = self._types(X, W, R, B, sequence_lens, initial_h, initial_c)
        if P is not None:
            same_dtype(self.name, X, P)
            require_rank(P, 2, self.name, "P")
            if P.tensor.shape is not None and every.shape is not None:
                agree_shapes(
                    P.shape,
                    (self.directions, every.shape[3] * 3),
                    f"the shape of P of {self.name} and (…, 3 · hidden)",
                )
        return every, last, last

    def eval(
        self,
        X: Array,
        W: Array,
        R: Array,
        B: Array | None = None,
        sequence_lens: Array | None = None,
        initial_h: Array | None = None,
        initial_c: Array | None = None,
        P: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        return self.run(X, W, R, B, sequence_lens, initial_h, initial_c, P)

    def step(
        self, functions: Sequence[Activation], ws: Weights, x: Array, h: Array, c: Array
    ) -> tuple[Array, Array]:
        f, g, last = functions
        gates = x + product(h, ws.r) + ws.rb
        i = f(gates[:, 0] + ws.peepholes[0] * c)
        forget = 1.0 - i if self.input_forget else f(gates[:, 2] + ws.peepholes[2] * c)
        memory = forget * c + i * g(gates[:, 3])
        o = f(gates[:, 1] + ws.peepholes[1] * memory)
        return o * last(memory), memory
