"""A small model for each row of the graph optimizer: what it is, and what is left of it."""

from tests.pure.row_example import IMAGE, Example
from tests.pure.row_models_composed import COMPOSED
from tests.pure.row_models_exchanged import EXCHANGES
from tests.pure.row_models_linear import CONVOLUTIONS

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
        "scalar constants become attributes",
        "%a = Mul(%x, float32[]{2.5})\n%b = Sigmoid(%a)\n%c = Pow(%b, float32[1]{1.5})\n"
        "%d = Sub(float32[]{1.0}, %c)\n%e = Div(float32[]{3.0}, %d)\n"
        "%y = Sub(%e, float32[]{0.5})",
        "MulScalar Sigmoid PowScalar RSubScalar RDivScalar AddScalar",
        "all",
    ),
    Example(
        "G3",
        "a scalar constant becomes a literal of the kernel",
        "%a = Mul(%x, float32[]{2.0})\n%y = Add(%a, float32[]{1.0})",
        "Mul + Add of 1",
        native=True,
        off=(("infuse.lowering.groups._constant", lambda value: None),),
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
EXAMPLES = (*FOLDING, *WITHOUT_MEANING, *CONVOLUTIONS, *EXCHANGES, *COMPOSED)
