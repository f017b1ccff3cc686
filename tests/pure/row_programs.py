"""Small models that mix the rows of a batch, each in another way, and models that do not.

Each is a function of a builder and its input: float32[batch, 6], and gives an output whose first
axis has the rows.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN, tensor
from tests.native.builder import Builder

Program = Callable[[Builder, Value], Value]
WIDTH = 6
MIXING: dict[str, Program] = {}
INDEPENDENT: dict[str, Program] = {}


def mixing(program: Program) -> Program:
    MIXING[program.__name__] = program
    return program


def independent(program: Program) -> Program:
    INDEPENDENT[program.__name__] = program
    return program


def built(program: Program) -> Graph:
    build = Builder(program.__name__)
    x = build.input("batch", WIDTH, name="x")
    build.graph.add_output(program(build, x), "y")
    return build.graph


def whole(build: Builder, x: Value) -> Value:
    """As integers."""
    return build("Cast", build("Mul", x, 3.0), to=dtypes.int64)


def linear(build: Builder, x: Value) -> Value:
    return build("MatMul", x, build.weight(WIDTH, WIDTH))


def each(kind: str, **attributes: Any) -> Program:
    """x less a reduction over the rows."""

    def program(build: Builder, x: Value) -> Value:
        return build("Sub", x, build(kind, x, [0], keepdims=1, **attributes))

    program.__name__ = f"{kind} over rows"
    return program


for name in (
    *("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceL1", "ReduceL2"),
    *("ReduceSumSquare", "ReduceLogSumExp", "ReduceProd"),
):
    mixing(each(name))


def along(kind: str, *operands: Any, **attributes: Any) -> Program:
    """An operator along the axis of the rows."""

    def program(build: Builder, x: Value) -> Value:
        return build(kind, x, *operands, **attributes)

    program.__name__ = f"{kind} along rows"
    return program


for program in (
    along("Softmax", axis=0),
    along("LogSoftmax", axis=0),
    along("Hardmax", axis=0),
    along("LpNormalization", axis=0),
    along("CumSum", np.array(0)),
    along("MeanVarianceNormalization", axes=(0, 1)),
):
    mixing(program)


@mixing
def integers_added_up(build: Builder, x: Value) -> Value:
    return build("CumSum", whole(build, x), np.array(0))


@mixing
def threshold_of_all(build: Builder, x: Value) -> Value:
    """As exporters write `if x.max() > 1: x = x / 255`."""
    large = build("Greater", build("ReduceMax", x, keepdims=0), 1.0)
    return build("Where", large, build("Div", x, 255.0), x)


@mixing
def branch_on_all(build: Builder, x: Value) -> Value:
    large = build("Greater", build("ReduceMax", x, keepdims=0), 1.0)
    return branch(build, x, large)


def branch(build: Builder, x: Value, condition: Value) -> Value:
    """x / 255 where the condition holds, else x."""
    bodies = {}
    for name, kind, operand in (("then_branch", "Div", 255.0), ("else_branch", "Add", 0.5)):
        inner = Builder(name)
        inner.graph.add_output(inner(kind, x, operand), "r")
        bodies[name] = inner.graph
    out = Value(UNKNOWN, "chosen")
    made = build.graph.add_node(
        Node(make_operator("", "If", {}), [condition], [out], subgraphs=bodies, name="choice")
    )
    made.op.infer_node(made)
    return out


@mixing
def dynamic_scale(build: Builder, x: Value) -> Value:
    q, scale, zero = build.several(3, "DynamicQuantizeLinear", x)
    return build("DequantizeLinear", q, scale, zero)


@mixing
def quantized_at_run(build: Builder, x: Value) -> Value:
    """As ONNX Runtime's `quantize_dynamic` writes a layer."""
    q, scale, zero = build.several(3, "DynamicQuantizeLinear", x)
    weights = constant(build.rng.integers(-127, 127, (WIDTH, WIDTH), np.int8))
    sums = build("Cast", build("MatMulInteger", q, weights, zero), to=dtypes.float32)
    return build("Mul", sums, build("Mul", scale, 0.01))


@mixing
def scale_of_all(build: Builder, x: Value) -> Value:
    """A quantizer whose scale is computed from all elements."""
    most = build("ReduceMax", build("Abs", x), keepdims=0)
    scale = build("Div", build("Max", most, 1e-6), 127.0)
    zero = constant(np.array(0, np.int8))
    return build("DequantizeLinear", build("QuantizeLinear", x, scale, zero), scale, zero)


@mixing
def similarity(build: Builder, x: Value) -> Value:
    """Attention of rows to rows."""
    weights = build("Softmax", build("MatMul", x, build("Transpose", x, perm=(1, 0))), axis=-1)
    return build("MatMul", weights, x)


@mixing
def place_of_all(build: Builder, x: Value) -> Value:
    """The number of the row with the largest element, added to all."""
    best = build("ArgMax", x, axis=0, keepdims=1)
    return build("Add", x, build("Cast", best, to=dtypes.float32))


@mixing
def rows_by_number(build: Builder, x: Value) -> Value:
    """Rows read at places that rows name: here, the largest of the batch."""
    best = build("ArgMax", x, axis=0, keepdims=0)
    first = build("Gather", best, np.array(0), axis=0)
    return build("Add", x, build("Gather", x, first, axis=0))


@mixing
def reversed_rows(build: Builder, x: Value) -> Value:
    return build("Slice", x, [-1], [-(2**31)], [0], [-1])


@mixing
def first_row(build: Builder, x: Value) -> Value:
    return build("Sub", x, build("Slice", x, [0], [1], [0]))


@mixing
def neighbours(build: Builder, x: Value) -> Value:
    """Rows as the places of one sequence."""
    planes = build("Unsqueeze", build("Transpose", x, perm=(1, 0)), [0])
    kernel = build.weight(WIDTH, WIDTH, 3)
    found = build("Conv", planes, kernel, pads=(1, 1), kernel_shape=(3,))
    return build("Transpose", build("Squeeze", found, [0]), perm=(1, 0))


@mixing
def pooled_rows(build: Builder, x: Value) -> Value:
    planes = build("Unsqueeze", x, [0, 1])
    found = build("MaxPool", planes, kernel_shape=(3, 1), pads=(1, 0, 1, 0))
    return build("Squeeze", found, [0, 1])


@mixing
def sequence_of_rows(build: Builder, x: Value) -> Value:
    """Rows as the steps of a recurrence."""
    steps = build("Unsqueeze", x, [1])
    w, r = build.weight(1, 4 * WIDTH, WIDTH), build.weight(1, 4 * WIDTH, WIDTH)
    found, _, _ = build.several(3, "LSTM", steps, w, r, hidden_size=WIDTH)
    return build("Squeeze", found, [1, 2])


@mixing
def sorted_columns(build: Builder, x: Value) -> Value:
    """The largest of each column, added to all rows."""
    best, _ = build.several(2, "TopK", x, [1], axis=0)
    return build("Add", x, best)


@mixing
def number_of_rows(build: Builder, x: Value) -> Value:
    size = build("Cast", build("Shape", x, start=0, end=1), to=dtypes.float32)
    return build("Div", x, size)


@mixing
def numbers_of_rows(build: Builder, x: Value) -> Value:
    """The place of each row in the batch, added to it."""
    size = build("Squeeze", build("Shape", x, start=0, end=1), [0])
    places = build("Range", np.array(0), size, np.array(1))
    return build("Add", x, build("Unsqueeze", build("Cast", places, to=dtypes.float32), [1]))


@mixing
def flattened_norm(build: Builder, x: Value) -> Value:
    flat = build("Reshape", x, [1, -1])
    return build("Reshape", build("Softmax", flat, axis=-1), [-1, WIDTH])


@mixing
def turned_blocks(build: Builder, x: Value) -> Value:
    """Columns become rows: the elements keep their order, but not their rows."""
    return build("Reshape", build("Transpose", x, perm=(1, 0)), [-1, WIDTH])


@mixing
def distinct(build: Builder, x: Value) -> Value:
    numbers = build("Reshape", whole(build, x), [-1])
    _, _, inverse, _ = build.several(4, "Unique", numbers)
    return build("Reshape", build("Cast", inverse, to=dtypes.float32), [-1, WIDTH])


@mixing
def chosen_elements(build: Builder, x: Value) -> Value:
    """The mean of what is positive."""
    places = build("NonZero", build("Greater", x, 0.0))
    found = build("GatherND", x, build("Transpose", places, perm=(1, 0)))
    return build("Sub", x, build("ReduceMean", found, keepdims=0))


@mixing
def written_over(build: Builder, x: Value) -> Value:
    """What one row says, written into the first."""
    best = build("ArgMax", x, axis=0, keepdims=0)
    index = build("Unsqueeze", build("Gather", best, np.array([0]), axis=0), [1])
    return build("ScatterND", x, index, build("Slice", build("Neg", x), [0], [1], [0]))


@mixing
def summed_by_letters(build: Builder, x: Value) -> Value:
    return build("Add", x, build("Einsum", x, equation="bi->i"))


@mixing
def counted_loop(build: Builder, x: Value) -> Value:
    """As many rounds as the largest element of all says."""
    return loop(build, x, build("Cast", build("ReduceMax", x, keepdims=0), to=dtypes.int64))


def loop(build: Builder, x: Value, count: Value) -> Value:
    inner = Builder("body")
    inner.graph.add_input("i", tensor(dtypes.int64))
    go = inner.graph.add_input("go", tensor(dtypes.bool_))
    carried = inner.graph.add_input("v", x.type)
    inner.graph.add_output(inner("Identity", go), "on")
    inner.graph.add_output(inner("Mul", carried, 1.5), "w")
    out = Value(UNKNOWN, "repeated")
    operands = [count, constant(np.array(True)), x]
    made = build.graph.add_node(
        Node(make_operator("", "Loop", {}), operands, [out], subgraphs={"body": inner.graph})
    )
    made.op.infer_node(made)
    return out


@mixing
def whitened(build: Builder, x: Value) -> Value:
    """The statistics of the batch, as in training."""
    mean = build("ReduceMean", x, [0], keepdims=1)
    centred = build("Sub", x, mean)
    spread = build("ReduceMean", build("Mul", centred, centred), [0], keepdims=1)
    return build("Div", centred, build("Sqrt", build("Add", spread, 1e-5)))


# -- models whose rows are independent -------------------------------------------------------------


@independent
def layers(build: Builder, x: Value) -> Value:
    return linear(build, build("Relu", linear(build, x)))


@independent
def normalized(build: Builder, x: Value) -> Value:
    scale, bias = build.weight(WIDTH), build.weight(WIDTH)
    return build("LayerNormalization", x, scale, bias, axis=-1)


@independent
def softmax_of_columns(build: Builder, x: Value) -> Value:
    return build("Softmax", linear(build, x), axis=-1)


@independent
def merged_and_parted(build: Builder, x: Value) -> Value:
    """Rows and places become one axis, and two again, as around a Gemm."""
    flat = build("Reshape", x, [-1, 2])
    product = build("Gemm", flat, build.weight(2, 2))
    size = build("Shape", x, start=0, end=1)
    shape = build("Concat", size, constant(np.array([WIDTH], np.int64)), axis=0)
    return build("Reshape", product, shape)


@independent
def heads(build: Builder, x: Value) -> Value:
    """Attention in heads, whose axis is merged with that of the rows, as torch's exporters do."""
    size = build("Shape", x, start=0, end=1)
    merged = build("Mul", size, [3])
    shape = build("Concat", merged, constant(np.array([2, 1], np.int64)), axis=0)
    parts = build("Reshape", x, shape)
    scores = build("MatMul", parts, build("Transpose", parts, perm=(0, 2, 1)))
    found = build("MatMul", build("Softmax", scores, axis=-1), parts)
    back = build("Concat", size, constant(np.array([WIDTH], np.int64)), axis=0)
    return build("Reshape", found, back)


@independent
def images(build: Builder, x: Value) -> Value:
    planes = build("Reshape", x, [-1, 1, 2, 3])
    found = build("Conv", planes, build.weight(4, 1, 2, 2), kernel_shape=(2, 2))
    pooled = build("GlobalAveragePool", build("Relu", found))
    return build("Flatten", pooled, axis=1)


@independent
def class_token(build: Builder, x: Value) -> Value:
    """A constant that is repeated for each row, and joined to it."""
    size = build("Shape", x, start=0, end=1)
    shape = build("Concat", size, constant(np.array([2], np.int64)), axis=0)
    token = build("Expand", build.weight(1, 2), shape)
    return build("Concat", token, x, axis=1)


@independent
def zeros_of_each(build: Builder, x: Value) -> Value:
    size = build("Shape", x)
    zeros = build("ConstantOfShape", size, value=np.zeros(1, np.float32))
    return build("Max", zeros, x)


@independent
def looked_up(build: Builder, x: Value) -> Value:
    tokens = build("Clip", whole(build, x), np.array(0), np.array(9))
    table = build.weight(10, 4)
    return build("ReduceMean", build("Gather", table, tokens, axis=0), [1], keepdims=0)


@independent
def recurrence(build: Builder, x: Value) -> Value:
    steps = build("Transpose", build("Reshape", x, [-1, 3, 2]), perm=(1, 0, 2))
    w, r = build.weight(1, 9, 2), build.weight(1, 9, 3)
    _, last = build.several(2, "GRU", steps, w, r, hidden_size=3)
    return build("Squeeze", last, [0])


@independent
def last_of_each(build: Builder, x: Value) -> Value:
    """x[arange(batch), argmax(x)], as the text encoder of CLIP."""
    best = build("ArgMax", x, axis=1, keepdims=0)
    size = build("Squeeze", build("Shape", x, start=0, end=1), [0])
    places = build("Range", np.array(0), size, np.array(1))
    index = build("Concat", build("Unsqueeze", places, [1]), build("Unsqueeze", best, [1]), axis=1)
    return build("GatherND", x, index)


@independent
def best_of_each(build: Builder, x: Value) -> Value:
    _, places = build.several(2, "TopK", x, [2], axis=-1)
    return build("GatherElements", x, places, axis=1)


@independent
def scale_of_each(build: Builder, x: Value) -> Value:
    """Each row quantized by a scale of its own."""
    most = build("ReduceMax", build("Abs", x), [1], keepdims=0)
    scale = build("Div", build("Max", most, 1e-6), 127.0)
    zero = build("Cast", build("Mul", scale, 0.0), to=dtypes.int8)
    codes = build("QuantizeLinear", x, scale, zero, axis=0)
    return build("DequantizeLinear", codes, scale, zero, axis=0)


@independent
def quantized(build: Builder, x: Value) -> Value:
    scale, zero = 0.05, constant(np.array(3, np.uint8))
    codes = build("QuantizeLinear", x, scale, zero)
    weights = constant(build.rng.integers(-127, 127, (WIDTH, 4), np.int8))
    return build("Cast", build("MatMulInteger", codes, weights, zero), to=dtypes.float32)


@independent
def running_sum(build: Builder, x: Value) -> Value:
    return build("CumSum", whole(build, x), np.array(1))


@independent
def choice_of_each(build: Builder, x: Value) -> Value:
    large = build("Greater", build("ReduceMax", x, [1], keepdims=1), 1.0)
    return build("Where", large, build("Div", x, 255.0), x)


@independent
def constant_branch(build: Builder, x: Value) -> Value:
    """Both branches have the rows, and a size that all rows share decides."""
    columns = build("Gather", build("Shape", x), np.array(1))
    return branch(build, x, build("Greater", columns, np.array(3)))


@independent
def rounds(build: Builder, x: Value) -> Value:
    columns = build("Gather", build("Shape", x), np.array(1))
    return loop(build, x, columns)


@independent
def letters(build: Builder, x: Value) -> Value:
    return build("Einsum", x, build.weight(WIDTH, 3), equation="bi,ij->bj")


@independent
def padded(build: Builder, x: Value) -> Value:
    return build("Pad", build("Tile", x, [1, 2]), [0, 1, 0, 2])


@independent
def parts(build: Builder, x: Value) -> Value:
    a, b = build.several(2, "Split", x, axis=1, num_outputs=2)
    return build("Concat", build("Mul", b, a), build("Slice", x, [1], [4], [1]), axis=1)


@independent
def windows(build: Builder, x: Value) -> Value:
    """Windows of an image as further rows, and back, as Swin's."""
    size = build("Shape", x, start=0, end=1)
    grid = build("Reshape", x, [-1, 1, 2, 3, 1])
    turned = build("Transpose", grid, perm=(0, 1, 3, 2, 4))
    flat = build("Reshape", turned, [-1, 2, 1])
    norm = build("Softmax", flat, axis=1)
    back = build("Concat", size, constant(np.array([1, 3, 2, 1], np.int64)), axis=0)
    again = build("Transpose", build("Reshape", norm, back), perm=(0, 1, 3, 2, 4))
    return build("Reshape", again, [-1, WIDTH])
