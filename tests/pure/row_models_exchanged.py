"""Models for rows that exchange operators, or move and merge what surrounds them."""

from tests.pure.row_example import CONV, IMAGE, Example


def _cut(axis: int) -> str:
    """Operands of a Slice of two rows or columns."""
    return f"int64[1]{{0}}, int64[1]{{2}}, int64[1]{{{axis}}}"


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
        "a · x + b · y in one operator",
        "%a = Mul(%x, float32[]{0.3})\n%b = Mul(%z, float32[]{0.7})\n%c = Add(%a, %b)\n"
        "%d = Mul(%z, float32[]{1.5})\n%y = Sub(%c, %d)",
        "WeightedSum WeightedSum",
        "all",
        header="%x: float32[n, 4], %z: float32[n, 4]",
    ),
    Example(
        "G30",
        "a · x + b · y in one kernel",
        "%a = Mul(%x, float32[]{0.3})\n%b = Mul(%z, float32[]{0.7})\n%y = Add(%a, %b)",
        "Mul + Mul + Add of 2",
        native=True,
        header="%x: float32[n, 4], %z: float32[n, 4]",
        off=(("infuse.lowering.partition._has_room", lambda group, count: False),),
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
