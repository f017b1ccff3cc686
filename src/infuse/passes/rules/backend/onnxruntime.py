"""What only ONNX Runtime has: activations in convolutions, residuals in normalizations, whole
attention layers.

Its processor kernels take float32; a rule fires only where they do. Rules leave alone what would
keep the runtime from its own layouts: a residual inside of FusedConv, for one.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from infuse import dtypes, ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ops.conversion import finite_limit
from infuse.ops.domains.microsoft import DOMAIN
from infuse.passes.rules.common import (
    attribute,
    number,
    require_shape,
    require_unread,
)
from infuse.rewrite import Rule, require

_LIMITS = {"low": np.float32(0), "high": np.float32(6)}
_SLOPES = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta")}


def own(kind: str, *operands: Any, **attributes: Any) -> Call:
    """A call of one of the runtime's own operators; trailing absent operands are left out."""
    inputs = list(operands)
    while inputs and inputs[-1] is None:
        inputs.pop()
    return Call(kind, tuple(inputs), attributes, domain=DOMAIN)


class RuntimeRule(Rule):
    """A rule that builds operators of ONNX Runtime."""

    level = "extended"
    rows = ("G33",)
    runtime = "onnxruntime"


def require_float32(*values: Value | None) -> None:
    """Refuse unless all values are float32: the runtime's kernels for processors take nothing
    else.
    """
    for value in values:
        require(
            value is None or value.dtype == dtypes.float32, "ONNX Runtime has it for float32 only"
        )


def require_elements(x: Value, axis: int) -> None:
    """Refuse unless axes from `axis` on are known to have elements: the runtime's normalizations
    refuse the run where there are none.
    """
    require_shape(x)
    sizes = x.shape[axis:]
    require(all(isinstance(size, int) and size > 0 for size in sizes), "its rows may be empty")


# -- activations -----------------------------------------------------------------------------------


def _activated(x: Any) -> list[Call]:
    """The patterns of all activations that the runtime's products apply themselves."""
    low, high = Variable("low", optional=True), Variable("high", optional=True)
    plain = [Call(kind, (x,)) for kind in ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid")]
    return [*plain, Call("Clip", (x, low, high))]


def _parameters(root: Node, low: Value | None, high: Value | None) -> tuple[float, ...]:
    """The numbers of an activation."""
    if root.kind == "Clip":
        far = finite_limit(dtypes.float32)
        assert far is not None
        ends = tuple(
            end if value is None else number(value) for value, end in ((low, -far), (high, far))
        )
        require(not any(np.isnan(ends)), "a limit is not a number")
        return ends
    return tuple(float(attribute(root, name)) for name in _SLOPES.get(root.kind, ()))


class FuseConvActivation(RuntimeRule):
    """activation(Conv(x, w, b)) → FusedConv(x, w, b, activation)"""

    rows = ("G18",)
    examples = ({"x": (1, 4, 5, 5), "w": (4, 4, 3, 3), "b": (4,), **_LIMITS},)

    def match(self, x: Variable, w: Variable, b: Variable) -> Any:
        return _activated(ops.conv(x, w, ops.maybe(b), name="conv"))

    def when(
        self, x: Value, root: Node, low: Value | None = None, high: Value | None = None
    ) -> None:
        require_float32(x)
        _parameters(root, low, high)

    def build(
        self,
        x: Value,
        w: Value,
        conv: Node,
        root: Node,
        b: Value | None,
        low: Value | None = None,
        high: Value | None = None,
    ) -> Any:
        attributes = {
            **conv.op.attributes(),
            "activation": root.kind,
            "activation_params": _parameters(root, low, high),
        }
        return own("FusedConv", x, w, b, **attributes)


class FuseGemmActivation(RuntimeRule):
    """activation(Gemm(a, b, c)) → FusedGemm(a, b, c, activation)"""

    rows = ("G18",)
    examples = ({"a": (3, 4), "b": (4, 5), "c": (5,), **_LIMITS},)
    _names: ClassVar = ("activation_alpha", "activation_beta")

    def match(self, a: Variable, b: Variable, c: Variable) -> Any:
        return [
            p for p in _activated(ops.gemm(a, b, ops.maybe(c), name="gemm")) if p.kind != "Clip"
        ]

    def when(
        self, a: Value, root: Node, low: Value | None = None, high: Value | None = None
    ) -> None:
        require_float32(a)
        _parameters(root, low, high)

    def build(
        self,
        a: Value,
        b: Value,
        gemm: Node,
        root: Node,
        c: Value | None,
        low: Value | None = None,
        high: Value | None = None,
    ) -> Any:
        numbers = dict(zip(self._names, _parameters(root, low, high)))
        return own("FusedGemm", a, b, c, **gemm.op.attributes(), activation=root.kind, **numbers)


class SwishAsQuickGelu(RuntimeRule):
    """Swish(x, alpha) → QuickGelu(x, alpha)"""

    rows = ("G18",)

    def match(self, x: Variable) -> Any:
        return ops.swish(x)

    def when(self, x: Value) -> None:
        require_float32(x)

    def build(self, x: Value, root: Node) -> Any:
        return own("QuickGelu", x, alpha=attribute(root, "alpha"))


class UseOwnGelu(RuntimeRule):
    """Gelu(x + bias) → BiasGelu(x, bias), or FastGelu where tanh approximates it; without a bias
    Gelu or FastGelu
    """

    rows = ("G32",)
    rounding = "the runtime's own approximation"

    def match(self, x: Variable, b: Variable) -> Any:
        return [ops.gelu(x + ops.const(b)), ops.gelu(x)]

    def when(self, x: Value, root: Node, b: Value | None = None) -> None:
        require_float32(x)
        require_shape(x)
        require(x.rank > 0, "the runtime's gelu takes no scalar")
        if b is not None:
            vector = b.rank == 1 and x.rank >= 1 and x.shape[-1] == b.shape[0]
            require(vector, "the bias is not a vector over the last axis")

    def build(self, x: Value, root: Node, b: Value | None = None) -> Any:
        if attribute(root, "approximate") == "tanh":
            return own("FastGelu", x, b)
        return own("Gelu", x) if b is None else own("BiasGelu", x, b)


# -- normalizations --------------------------------------------------------------------------------


class FuseSkipNormalization(RuntimeRule):
    """LayerNormalization(x + skip + bias) → SkipLayerNormalization(x, skip, bias)

    RMSNormalization becomes SkipSimplifiedLayerNormalization. On processors the runtime is faster
    with two nodes.
    """

    rows = ("G32",)
    opt_in = True
    rounding = "the sum is added up in another order"
    examples = (
        {
            "x": (2, 3, 4),
            "skip": (2, 3, 4),
            "bias": np.ones(4, np.float32),
            "gamma": (4,),
            "beta": (4,),
        },
        {"x": (2, 3, 4), "skip": (2, 3, 4), "gamma": (4,), "beta": (4,)},
    )

    def match(
        self, x: Variable, skip: Variable, bias: Variable, gamma: Variable, beta: Variable
    ) -> Any:
        total = ops.one_of(ops.add(ops.add(x, ops.const(bias)), skip), ops.add(x, skip))
        return [
            ops.layer_normalization(total, gamma, ops.maybe(beta)),
            ops.rms_normalization(total, gamma),
        ]

    def when(
        self,
        x: Value,
        skip: Value,
        gamma: Value,
        root: Node,
        beta: Value | None = None,
        bias: Value | None = None,
    ) -> None:
        require_float32(x, skip, gamma, beta)
        require_shape(*(v for v in (x, skip, gamma, beta, bias) if v is not None))
        require(
            x.rank == 3 and attribute(root, "axis") in (-1, 2),
            "it does not normalize the rows of three axes",
        )
        require(x.type == skip.type == root.output.type, "the operands of the sum are broadcast")
        for vector in (gamma, beta, bias):
            require(
                vector is None or vector.shape == x.shape[2:],
                "weights or bias are not vectors over the rows",
            )
        require_elements(x, 2)
        require(attribute(root, "stash_type") == 1, "it computes in another type")
        require_unread(root, "its statistics are")
        users = list(root.output.users())
        later = (
            len(users) == 1
            and users[0].kind in ("Mul", "Add")
            and any(v.is_const for v in users[0].operands())
        )
        require(not later, "weights that follow are to be merged first")

    def build(
        self,
        x: Value,
        skip: Value,
        gamma: Value,
        root: Node,
        beta: Value | None = None,
        bias: Value | None = None,
    ) -> Any:
        epsilon = {"epsilon": attribute(root, "epsilon")}
        if root.kind == "LayerNormalization":
            return own("SkipLayerNormalization", x, skip, gamma, beta, bias, **epsilon)
        return own("SkipSimplifiedLayerNormalization", x, skip, gamma, bias, **epsilon)


class UseSimplifiedNormalization(RuntimeRule):
    """RMSNormalization(x) → SimplifiedLayerNormalization(x)"""

    rows = ("G27",)

    def match(self, x: Variable, scale: Variable) -> Any:
        return ops.rms_normalization(x, scale)

    def when(self, x: Value, scale: Value, root: Node) -> None:
        require_float32(x, scale)
        require_elements(x, attribute(root, "axis"))

    def build(self, x: Value, scale: Value, root: Node) -> Any:
        return Call("SimplifiedLayerNormalization", (x, scale), dict(root.op.attributes()))


RULES = (
    FuseConvActivation,
    FuseGemmActivation,
    SwishAsQuickGelu,
    UseOwnGelu,
    FuseSkipNormalization,
    UseSimplifiedNormalization,
)
