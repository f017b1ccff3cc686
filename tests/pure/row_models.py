"""A small model for each row of the graph optimizer: what it is, and what is left of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from infuse.ir.graph import Array, Graph
from infuse.ir.parser import parse

Switch = tuple[str, Callable[..., Any]]
"""A function of the project by its path, and what stands in for it where the row is switched off.
"""


@dataclass(frozen=True)
class Example:
    """A model in text form, and the operators that are left of it at some level.

    A body `%y = Relu(%x)` gets `header` and a return of `%y` around it. Weights written `$w:
    float32[3, 4]` are random. With `native` it is about the kernels: the operators that each
    computes, and how many tensors it reads.
    """

    row: str
    what: str
    body: str
    left: str
    level: str = "basic"
    header: str = "%x: float32[n, 4]"
    runtime: str = ""
    enable: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    native: bool = False
    off: tuple[Switch, ...] = field(default=())
    """What to switch off beside the rules and passes that name the row."""

    def graph(self) -> Graph:
        """The model."""
        text = re.sub(r"(\$\w+: float32\[[\d, ]*\])$", r"\1#?", self.body.strip(), flags=re.M)
        whole = f'graph "row" ({self.header}) {{\n{text}\nreturn y = %y\n}}'
        return parse(whole, weights(whole))

    def __str__(self) -> str:
        return f"{self.row}: {self.what}"


def weights(text: str) -> dict[str, Array]:
    """Random numbers, far from zero, for the constants that a text only names."""
    rng = np.random.default_rng(0)
    found = re.findall(r"\$(\w+): float32\[([\d, ]*)\]#\?", text)
    return {
        name: _random(rng, [int(n) for n in shape.split(",") if n.strip()]) for name, shape in found
    }


def _random(rng: np.random.Generator, shape: list[int]) -> Array:
    return np.asarray(rng.uniform(0.5, 1.5, shape)).astype(np.float32)


IMAGE = "%x: float32[n, 4, 6, 6]"
CONV = "$w: float32[4, 4, 3, 3]\n%c = Conv(%x, $w)\n"
STATISTICS = "$s: float32[4]\n$h: float32[4]\n$m: float32[4]\n$v: float32[4]\n"
MATRIX = "$w: float32[4, 5]\n%p = MatMul(%x, $w)\n"


def _cut(axis: int) -> str:
    """Operands of a Slice of two rows or columns."""
    return f"int64[1]{{0}}, int64[1]{{2}}, int64[1]{{{axis}}}"


SEPARABLE = ", ".join(
    f"{n:.9}" for n in np.outer(np.linspace(1, 2, 12), np.linspace(-1, 1, 9)).reshape(-1).tolist()
)
"""Filters of three by three that are multiples of one another."""
APART: Switch = ("infuse.codegen.groups.has_epilogue", lambda node: False)
"""Native code with one kernel for each operator."""

FOLDING = (
    Example(
        "G1",
        "all inputs constant: a constant",
        "%a = Exp(float32[]{1.0})\n%b = Neg(%a)\n%y = Add(%x, %b)",
        "Add",
    ),
    Example(
        "G2",
        "Unsqueeze of a constant",
        "%c = Unsqueeze(float32[4]{1.0, 2.0, 3.0, 4.0}, int64[1]{1})\n%y = Add(%x, %c)",
        "Add",
        header="%x: float32[4, n]",
        off=(("infuse.passes.fold.Folder.__call__", lambda self, node: None),),
    ),
    Example(
        "G2",
        "Unsqueeze with constant axes costs nothing",
        "%u = Unsqueeze(%x, int64[1]{1})\n%y = Relu(%u)",
        "Reshape Relu",
        "all",
    ),
    Example(
        "G3",
        "a scalar constant becomes a literal of the kernel",
        "%a = Mul(%x, float32[]{2.0})\n%y = Add(%a, float32[]{1.0})",
        "Mul + Add of 1",
        native=True,
        off=(("infuse.codegen.groups._constant", lambda value: None),),
    ),
)
WITHOUT_MEANING = (
    Example(
        "G4",
        "Identity and Dropout",
        "%a = Identity(%x)\n%b = Dropout(%a, float32[]{0.5})\n%y = Relu(%b)",
        "Relu",
    ),
    Example(
        "G5",
        "parameters without meaning",
        """%a = Cast(%x, to=float32)
        %b = Slice(%a, int64[1]{0}, int64[1]{99}, int64[1]{1})
        %c = Transpose(%b, perm=(0, 1))
        %d = Pad(%c, int64[4]{0, 0, 0, 0})
        %e = Concat(%d, axis=0)
        %f = Mul(%e, float32[]{1.0})
        %g = Add(%f, float32[]{0.0})
        %h = Expand(%g, int64[1]{1})
        %i = Reshape(%h, int64[2]{0, 4})
        %y = Relu(%i)""",
        "Relu",
    ),
    Example(
        "G5",
        "a pooling over one pixel",
        "%p = MaxPool(%x, kernel_shape=(1, 1), strides=(1, 1))\n%y = Relu(%p)",
        "Relu",
        header=IMAGE,
    ),
    Example(
        "G6",
        "dead code and orphan constants",
        "$w: float32[4]\n%a = Exp(%x)\n%b = Add(%a, $w)\n%y = Relu(%x)",
        "Relu",
        off=(("infuse.rewrite.driver._is_dead", lambda node: False),),
    ),
    Example(
        "G6",
        "work for a shape alone",
        "%a = Exp(%x)\n%s = Shape(%a)\n%y = Add(%s, int64[2]{1, 1})",
        "Shape Add",
    ),
    Example(
        "G7",
        "Reshape before an addition that broadcasts",
        "%u = Reshape(%z, int64[2]{1, 4})\n%y = Add(%x, %u)",
        "Add",
        header="%x: float32[n, 4], %z: float32[4]",
    ),
    Example(
        "G7",
        "Squeeze after a reduction",
        "%r = ReduceMean(%x, int64[1]{1}, keepdims=1)\n%y = Squeeze(%r, int64[1]{1})",
        "ReduceMean",
    ),
    Example(
        "G8",
        "one Reshape, one Transpose, one Cast are left of two each",
        """%a = Reshape(%x, int64[3]{0, 2, 2})
        %b = Reshape(%a, int64[2]{0, 4})
        %c = Transpose(%b, perm=(1, 0))
        %d = Relu(%c)
        %e = Cast(%d, to=float64)
        %f = Cast(%e, to=float16)
        %g = Reshape(%f, int64[3]{2, 2, -1})
        %h = Transpose(%g, perm=(1, 0, 2))
        %y = Transpose(%h, perm=(2, 0, 1))""",
        "Transpose Relu Cast Reshape Transpose",
    ),
    Example(
        "G9",
        "what undoes itself",
        """%a = Unsqueeze(%x, int64[1]{0})
        %b = Squeeze(%a, int64[1]{0})
        %c = Transpose(%b, perm=(1, 0))
        %d = Transpose(%c, perm=(1, 0))
        %e = Cast(%d, to=float64)
        %f = Cast(%e, to=float32)
        %g, %h = Split(%f, num_outputs=2, axis=1)
        %i = Concat(%g, %h, axis=1)
        %y = Relu(%i)""",
        "Relu",
    ),
    Example(
        "G9",
        "numbers that are quantized twice",
        """%a = QuantizeLinear(%x, float32[]{0.02}, uint8[]{128})
        %b = DequantizeLinear(%a, float32[]{0.02}, uint8[]{128})
        %c = Transpose(%b, perm=(1, 0))
        %d = QuantizeLinear(%c, float32[]{0.02}, uint8[]{128})
        %y = DequantizeLinear(%d, float32[]{0.02}, uint8[]{128})""",
        "QuantizeLinear Transpose DequantizeLinear",
    ),
    Example(
        "G10",
        "a subgraph that is computed twice",
        "%a = Exp(%x)\n%b = Sin(%a)\n%c = Exp(%x)\n%d = Sin(%c)\n%y = Mul(%b, %d)",
        "Exp Sin Mul",
    ),
)
CONVOLUTIONS = (
    Example(
        "G11",
        "Conv + BatchNorm + activation",
        CONV + STATISTICS + "%b = BatchNormalization(%c, $s, $h, $m, $v)\n%y = Relu(%b)",
        "Conv Relu",
        header=IMAGE,
    ),
    Example(
        "G12",
        "Conv + constant",
        CONV + "$b: float32[4, 1, 1]\n%y = Add(%c, $b)",
        "Conv",
        header=IMAGE,
    ),
    Example(
        "G12",
        "the residual of a Conv",
        CONV + "%a = Add(%c, %z)\n%y = Relu(%a)",
        "Conv + Add + Relu of 3",
        native=True,
        header=f"{IMAGE}, %z: float32[n, 4, 4, 4]",
        off=(APART,),
    ),
    Example(
        "G13",
        "Conv + scale + activation",
        CONV + "%a = Mul(%c, float32[]{2.0})\n%d = Div(%a, float32[]{3.0})\n%y = Relu(%d)",
        "Conv Relu",
        header=IMAGE,
    ),
    Example(
        "G14",
        "Conv after pooling + MatMul",
        """$w: float32[3, 4, 1, 1]
        $v: float32[3, 2]
        %c = Conv(%x, $w)
        %f = Flatten(%c)
        %y = MatMul(%f, $v)""",
        "Conv Reshape",
        header="%x: float32[n, 4, 1, 1]",
    ),
    Example("G15", "MatMul + Add", MATRIX + "$b: float32[5]\n%y = Add(%p, $b)", "Gemm"),
    Example(
        "G16",
        "a scale before and one after a MatMul",
        "$w: float32[4, 5]\n%a = Mul(%x, float32[]{0.5})\n%p = MatMul(%a, $w)\n%y = Mul(%p, "
        "float32[]{3.0})",
        "MatMul",
        "all",
    ),
    Example(
        "G16",
        "the scale of a product of two results, in ONNX Runtime's operator",
        "%p = MatMul(%x, %z)\n%y = Mul(%p, float32[]{0.5})",
        "FusedMatMul",
        "extended",
        header="%x: float32[n, 3, 4], %z: float32[n, 4, 5]",
        runtime="onnxruntime",
    ),
    Example(
        "G17",
        "Gemm + BatchNorm",
        """$w: float32[4, 4]
        $c: float32[4]
        %p = Gemm(%x, $w, $c)
        """
        + STATISTICS
        + "%y = BatchNormalization(%p, $s, $h, $m, $v)",
        "Gemm",
    ),
    Example(
        "G17",
        "BatchNorm before Conv",
        STATISTICS
        + "$w: float32[4, 4, 3, 3]\n%b = BatchNormalization(%x, $s, $h, $m, $v)\n%y = Conv(%b, $w)",
        "Conv",
        header=IMAGE,
    ),
    *(
        Example(
            "G18",
            f"{kind} in the kernel of Conv",
            CONV + f"%y = {call}",
            f"Conv + {kind} of 2",
            "none",
            native=True,
            header=IMAGE,
            off=(APART,),
        )
        for kind, call in (
            ("Relu", "Relu(%c)"),
            ("Clip", "Clip(%c, float32[]{0.0}, float32[]{6.0})"),
            ("LeakyRelu", "LeakyRelu(%c, alpha=0.1)"),
            ("PRelu", "PRelu(%c, float32[1]{0.1})"),
            ("Sigmoid", "Sigmoid(%c)"),
            ("HardSwish", "HardSwish(%c)"),
            ("Swish", "Swish(%c)"),
            ("Gelu", "Gelu(%c)"),
        )
    ),
    Example(
        "G18",
        "GELU in the kernel of MatMul",
        MATRIX + "%y = Gelu(%p)",
        "MatMul + Gelu of 2",
        "none",
        native=True,
        off=(APART,),
    ),
    Example(
        "G20",
        "BatchNorm is a scale",
        STATISTICS + "%y = BatchNormalization(%x, $s, $h, $m, $v)",
        "Mul Add",
        "all",
        header=IMAGE,
    ),
    Example(
        "G19",
        "Conv of one pixel to Gemm, on request",
        "$w: float32[3, 4, 1, 1]\n%y = Conv(%x, $w)",
        "Reshape Gemm Reshape",
        header="%x: float32[n, 4, 1, 1]",
        enable=("ConvAsGemm",),
    ),
    Example(
        "G19",
        "Gemm to Conv of one pixel, on request",
        "$w: float32[4, 5]\n$b: float32[5]\n%y = Gemm(%x, $w, $b)",
        "Reshape Conv Reshape",
        enable=("GemmAsConv",),
    ),
    Example("G20", "PRelu with one slope", "%y = PRelu(%x, float32[1]{0.1})", "LeakyRelu"),
    Example(
        "G21", "two linears in a row", MATRIX + "$v: float32[5, 3]\n%y = MatMul(%p, $v)", "MatMul"
    ),
    Example(
        "G21",
        "two convolutions in a row",
        "$w: float32[4, 4, 1, 1]\n%c = Conv(%x, $w)\n$v: float32[4, 4, 3, 3]\n%y = Conv(%c, $v)",
        "Conv",
        header=IMAGE,
    ),
    Example(
        "G22",
        "a convolution of nearly separable filters, on request",
        f"%y = Conv(%x, float32[6, 2, 3, 3]{{{SEPARABLE}}})",
        "Conv Conv",
        header="%x: float32[n, 2, 6, 6]",
        enable=("SeparateConv",),
    ),
    Example(
        "G23",
        "a channel shuffle costs nothing before Conv",
        """$w: float32[4, 6, 1, 1]
        %a = Reshape(%x, int64[5]{0, 2, 3, 4, 4})
        %b = Transpose(%a, perm=(0, 2, 1, 3, 4))
        %c = Reshape(%b, int64[4]{0, 6, 4, 4})
        %y = Conv(%c, $w)""",
        "Conv",
        header="%x: float32[n, 6, 4, 4]",
    ),
    Example(
        "G23",
        "channels to squares of pixels",
        """%a = Reshape(%x, int64[6]{0, 2, 2, 2, 4, 4})
        %b = Transpose(%a, perm=(0, 3, 4, 1, 5, 2))
        %y = Reshape(%b, int64[4]{0, 2, 8, 8})""",
        "DepthToSpace",
        header="%x: float32[n, 8, 4, 4]",
    ),
    Example(
        "G23",
        "convolutions of parts: one in groups",
        """$a: float32[2, 2, 3, 3]
        $b: float32[2, 2, 3, 3]
        %u, %v = Split(%x, num_outputs=2, axis=1)
        %c = Conv(%u, $a)
        %d = Conv(%v, $b)
        %y = Concat(%c, %d, axis=1)""",
        "Conv",
        header=IMAGE,
    ),
    Example(
        "G23",
        "one in groups: convolutions of parts, on request",
        "$a: float32[4, 2, 3, 3]\n%y = Conv(%x, $a, group=2)",
        "Split Conv Conv Concat",
        header=IMAGE,
        enable=("SplitGroupedConv",),
        disable=("MergeSplitConvs",),
    ),
)
EXCHANGES = (
    Example(
        "G24",
        "transposes of both operands, moved down and cancelled",
        "%a = Transpose(%x, perm=(1, 0))\n%b = Transpose(%z, perm=(1, 0))\n%c = Add(%a, %b)\n"
        "%y = Transpose(%c, perm=(1, 0))",
        "Add",
        header="%x: float32[n, 4], %z: float32[n, 4]",
    ),
    Example(
        "G24",
        "what is the same in every iteration leaves the loop",
        """%y = Loop(int64[]{5}, _, %x) {
          body = graph "body" (%i: int64[], %going: bool[], %state: float32[3]) {
            %e = Sigmoid(%z)
            %next = Add(%state, %e)
            return going_on = %going, next = %next
          }
        }""",
        "Sigmoid Loop(Add)",
        header="%x: float32[3], %z: float32[3]",
    ),
    *(
        Example(
            "G24", f"Slice before {what}", f"{body}\n%y = Slice(%c, {cut})", left, header=header
        )
        for what, header, body, cut, left in (
            ("elementwise work", "%x: float32[n, 4]", "%c = Relu(%x)", _cut(1), "Slice Relu"),
            (
                "MatMul",
                "%x: float32[6, 4]",
                "$w: float32[4, 6]\n%c = MatMul(%x, $w)",
                _cut(0),
                "Slice MatMul",
            ),
            ("Conv", "%x: float32[5, 4, 6, 6]", CONV, _cut(0), "Slice Conv"),
        )
    ),
    Example(
        "G25",
        "a scale after the sum",
        "%a = Mul(%x, float32[]{3.0})\n%y = ReduceSum(%a, int64[1]{1})",
        "ReduceSum Mul",
    ),
    Example(
        "G25",
        "a shift after the mean",
        "%a = Add(%x, float32[]{3.0})\n%y = ReduceMean(%a, int64[1]{1})",
        "ReduceMean Add",
    ),
    Example(
        "G25",
        "a pooling before the convolution of single pixels",
        "$w: float32[8, 4, 1, 1]\n%c = Conv(%x, $w)\n%y = AveragePool(%c, kernel_shape=(2, 2), "
        "strides=(2, 2))",
        "AveragePool/2 Conv",
        header=IMAGE,
    ),
    Example(
        "G25",
        "steps are taken by the convolution before",
        """$w: float32[4, 4, 3, 3]
        $v: float32[4, 4, 1, 1]
        %c = Conv(%x, $w)
        %r = Relu(%c)
        %y = Conv(%r, $v, strides=(2, 2))""",
        "Conv/2 Relu Conv",
        header=IMAGE,
    ),
    Example(
        "G26",
        "constants merged, signs absorbed",
        """%a = Add(%x, float32[]{1.0})
        %b = Add(%a, float32[]{2.0})
        %c = Neg(%b)
        %y = Sub(%x, %c)""",
        "Add Add",
    ),
    Example(
        "G29",
        "Transpose before Gemm",
        "%t = Transpose(%z, perm=(1, 0))\n%y = Gemm(%x, %t)",
        "Gemm",
        header="%x: float32[n, 4], %z: float32[5, 4]",
    ),
    Example(
        "G29",
        "Transpose before a MatMul of ONNX Runtime",
        "%t = Transpose(%z, perm=(0, 2, 1))\n%y = MatMul(%x, %t)",
        "FusedMatMul",
        "extended",
        header="%x: float32[n, 3, 4], %z: float32[n, 5, 4]",
        runtime="onnxruntime",
    ),
    Example(
        "G30",
        "a · x + b · y in one kernel",
        "%a = Mul(%x, float32[]{0.3})\n%b = Mul(%z, float32[]{0.7})\n%y = Add(%a, %b)",
        "Mul + Mul + Add of 2",
        native=True,
        header="%x: float32[n, 4], %z: float32[n, 4]",
        off=(("infuse.codegen.groups._joinable", lambda node, term, member, needed: []),),
    ),
    Example(
        "G31",
        "ReduceMean over W, then over H",
        "%a = ReduceMean(%x, int64[1]{3}, keepdims=1)\n%y = ReduceMean(%a, int64[1]{2}, "
        "keepdims=1)",
        "GlobalAveragePool",
        "extended",
        header=IMAGE,
    ),
)
CENTRED = """%m = ReduceMean(%x, int64[1]{-1}, keepdims=1)
%d = Sub(%x, %m)
%q = Mul(%d, %d)
%v = ReduceMean(%q, int64[1]{-1}, keepdims=1)
%e = Add(%v, float32[]{1e-5})
%r = Sqrt(%e)
%n = Div(%d, %r)
"""
COMPOSED = (
    Example(
        "G27",
        "LayerNormalization",
        CENTRED + "$s: float32[4]\n$b: float32[4]\n%o = Mul(%n, $s)\n%y = Add(%o, $b)",
        "LayerNormalization",
        "extended",
        header="%x: float32[2, 3, 4]",
    ),
    Example(
        "G27",
        "LayerNormalization as TensorFlow spells it",
        """%m = ReduceMean(%x, int64[1]{-1}, keepdims=1)
        %d = Sub(%x, %m)
        %q = Mul(%d, %d)
        %v = ReduceMean(%q, int64[1]{-1}, keepdims=1)
        %e = Add(%v, float32[]{1e-5})
        %r = Sqrt(%e)
        %i = Reciprocal(%r)
        $s: float32[4]
        $b: float32[4]
        %k = Mul(%i, $s)
        %o = Mul(%m, %k)
        %p = Sub($b, %o)
        %t = Mul(%x, %k)
        %y = Add(%t, %p)""",
        "LayerNormalization",
        "extended",
        header="%x: float32[2, 3, 4]",
    ),
    Example(
        "G27",
        "InstanceNormalization",
        CENTRED + "$s: float32[3, 1]\n$b: float32[3, 1]\n%o = Mul(%n, $s)\n%y = Add(%o, $b)",
        "InstanceNormalization",
        "extended",
        header="%x: float32[2, 3, 9]",
    ),
    Example(
        "G27",
        "L2Norm",
        """%r = ReduceL2(%x, int64[1]{-1}, keepdims=1)
        %m = Clip(%r, float32[]{1e-12})
        %y = Div(%x, %m)""",
        "LpNormalization",
        "extended",
    ),
    Example(
        "G27",
        "RMSNormalization",
        """%q = Pow(%x, float32[]{2.0})
        %v = ReduceMean(%q, int64[1]{-1}, keepdims=1)
        %e = Add(%v, float32[]{1e-6})
        %r = Sqrt(%e)
        %y = Div(%x, %r)""",
        "RMSNormalization",
        "extended",
        header="%x: float32[2, 3, 4]",
    ),
    Example(
        "G27",
        "GroupNormalization",
        """%g = Reshape(%x, int64[3]{0, 2, -1})
        %i = InstanceNormalization(%g, float32[2]{1.0, 1.0}, float32[2]{0.0, 0.0})
        %y = Reshape(%i, int64[4]{0, 4, 6, 6})""",
        "GroupNormalization",
        "extended",
        header="%x: float32[2, 4, 6, 6]",
    ),
    Example(
        "G27",
        "Softmax",
        """%m = ReduceMax(%x, int64[1]{-1}, keepdims=1)
        %d = Sub(%x, %m)
        %e = Exp(%d)
        %s = ReduceSum(%e, int64[1]{-1}, keepdims=1)
        %y = Div(%e, %s)""",
        "Softmax",
        "extended",
    ),
    Example(
        "G27",
        "GELU by erf",
        """%a = Div(%x, float32[]{1.4142135})
        %e = Erf(%a)
        %b = Add(%e, float32[]{1.0})
        %c = Mul(%x, %b)
        %y = Mul(%c, float32[]{0.5})""",
        "Gelu",
        "extended",
    ),
    Example(
        "G27",
        "GELU by tanh",
        """%a = Pow(%x, float32[]{3.0})
        %b = Mul(%a, float32[]{0.044715})
        %c = Add(%x, %b)
        %d = Mul(%c, float32[]{0.7978846})
        %t = Tanh(%d)
        %e = Add(%t, float32[]{1.0})
        %f = Mul(%x, %e)
        %y = Mul(%f, float32[]{0.5})""",
        "Gelu",
        "extended",
    ),
    Example("G27", "SiLU", "%s = Sigmoid(%x)\n%y = Mul(%x, %s)", "Swish", "extended"),
    Example(
        "G27",
        "HardSwish",
        """%a = Add(%x, float32[]{3.0})
        %b = Clip(%a, float32[]{0.0}, float32[]{6.0})
        %c = Mul(%x, %b)
        %y = Div(%c, float32[]{6.0})""",
        "HardSwish",
        "extended",
    ),
    Example(
        "G27", "Mish", "%a = Softplus(%x)\n%t = Tanh(%a)\n%y = Mul(%x, %t)", "Mish", "extended"
    ),
    Example(
        "G28",
        "PRelu",
        """%a = Relu(%x)
        %n = Neg(%x)
        %b = Relu(%n)
        %c = Mul(%b, float32[4]{0.1, 0.2, 0.3, 0.4})
        %y = Sub(%a, %c)""",
        "PRelu",
        "all",
    ),
    Example(
        "G32",
        "skip + LayerNorm, in ONNX Runtime's operator",
        "$s: float32[4]\n$b: float32[4]\n%t = Add(%x, %z)\n%y = LayerNormalization(%t, $s, $b)",
        "SkipLayerNormalization",
        "extended",
        header="%x: float32[n, 3, 4], %z: float32[n, 3, 4]",
        runtime="onnxruntime",
        enable=("FuseSkipNormalization",),
    ),
    Example(
        "G32",
        "bias + GELU, in ONNX Runtime's operator",
        "$b: float32[4]\n%t = Add(%x, $b)\n%y = Gelu(%t)",
        "BiasGelu",
        "extended",
        header="%x: float32[n, 3, 4]",
        runtime="onnxruntime",
    ),
    Example(
        "G32",
        "an embedding whose types of segments are all one",
        """$t: float32[30, 4]
        $s: float32[2, 4]
        %h = Shape(%i)
        %z = Expand(int64[1, 1]{0}, %h)
        %w = Gather($t, %i)
        %g = Gather($s, %z)
        %y = Add(%w, %g)""",
        "Gather",
        header="%i: int64[b, n]",
    ),
    Example(
        "G32",
        "bias + GELU in the kernel of MatMul",
        MATRIX + "$b: float32[5]\n%a = Add(%p, $b)\n%y = Gelu(%a)",
        "MatMul + Add + Gelu of 3",
        "none",
        native=True,
        off=(APART,),
    ),
    Example(
        "G33",
        "attention",
        """%k = Transpose(%k0, perm=(0, 1, 3, 2))
        %p = MatMul(%x, %k)
        %s = Mul(%p, float32[]{0.5})
        %m = Add(%s, %mask)
        %w = Softmax(%m, axis=-1)
        %y = MatMul(%w, %v)""",
        "Attention",
        "extended",
        header=(
            "%x: float32[b, 3, n, 4], %k0: float32[b, 3, m, 4], %v: float32[b, 3, m, 4], %mask: "
            "float32[n, m]"
        ),
    ),
    Example(
        "G33",
        "attention of heads that share keys and values",
        """%a = Unsqueeze(%k, int64[1]{2})
        %b = Expand(%a, int64[5]{2, 2, 2, 6, 8})
        %c = Reshape(%b, int64[4]{2, 4, 6, 8})
        %d = Unsqueeze(%v, int64[1]{2})
        %e = Expand(%d, int64[5]{2, 2, 2, 6, 8})
        %f = Reshape(%e, int64[4]{2, 4, 6, 8})
        %g = Transpose(%c, perm=(0, 1, 3, 2))
        %p = MatMul(%x, %g)
        %s = Mul(%p, float32[]{0.35})
        %w = Softmax(%s)
        %y = MatMul(%w, %f)""",
        "Attention",
        "extended",
        header="%x: float32[2, 4, 5, 8], %k: float32[2, 2, 6, 8], %v: float32[2, 2, 6, 8]",
    ),
    Example(
        "G33",
        "rotary embedding",
        """%a = Concat(%c, %c, axis=2)
        %b = Concat(%s, %s, axis=2)
        %d = Unsqueeze(%a, int64[1]{1})
        %e = Unsqueeze(%b, int64[1]{1})
        %u = Slice(%x, int64[1]{0}, int64[1]{4}, int64[1]{3})
        %v = Slice(%x, int64[1]{4}, int64[1]{8}, int64[1]{3})
        %w = Neg(%v)
        %r = Concat(%w, %u, axis=3)
        %p = Mul(%x, %d)
        %q = Mul(%r, %e)
        %y = Add(%p, %q)""",
        "RotaryEmbedding",
        "extended",
        header="%x: float32[b, 3, n, 8], %c: float32[b, n, 4], %s: float32[b, n, 4]",
    ),
)
EXAMPLES = (*FOLDING, *WITHOUT_MEANING, *CONVOLUTIONS, *EXCHANGES, *COMPOSED)
