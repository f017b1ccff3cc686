"""Graphs whose kernels move or find elements, walk along sequences, or take windows of any rank."""

from dataclasses import replace

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.ir.graph import Array, Value, constant
from tests.native.builder import Builder
from tests.native.recurrent_models import feeds_of, recurrent
from tests.pure.kernel_runs import Case


def case(b: Builder, *outputs: Value, **feeds: Array) -> Case:
    """What was built, with random operands where none are stated."""
    b.output(*outputs)
    rng = np.random.default_rng(1)
    for value in b.graph.inputs:
        shape = [int(str(n)) for n in value.shape]
        drawn = rng.integers(-99, 99, shape) if value.dtype.is_integer else rng.normal(size=shape)
        feeds.setdefault(value.name, drawn.astype(value.dtype.numpy))
    return Case(b.graph, feeds)


def integers(
    x: tuple[int, ...],
    w: tuple[int, ...],
    dtype: DType,
    *,
    zeros: tuple[Array | None, Array | None] = (None, None),
    computed: bool = False,
    kind: str = "ConvInteger",
    **how: object,
) -> Case:
    """A product of integers, whose weights are perhaps computed."""
    b, rng = Builder("integers"), np.random.default_rng(4)
    weights = rng.integers(-128, 128, w).astype(np.int8)
    image = b.input(*x, dtype=dtype, name="x")
    right = b.input(*w, dtype=dtypes.int8, name="w") if computed else constant(weights)
    shifts = [None if z is None else constant(z) for z in zeros]
    operands = [image, right, *shifts]
    while operands[-1] is None:
        operands.pop()
    return case(b, b(kind, *operands, **how), **({"w": weights} if computed else {}))


def windows(kind: str, x: tuple[int, ...], dtype: DType = dtypes.float32, **how: object) -> Case:
    b = Builder("windows")
    outputs = b.several(how.pop("outputs", 1), kind, b.input(*x, dtype=dtype, name="x"), **how)
    return case(b, *outputs)


def wide_convolution(x: tuple[int, ...], w: tuple[int, ...], *, bias: bool, **how: object) -> Case:
    b = Builder("wide")
    image = b.input(*x, dtype=dtypes.float64, name="x")
    filters = constant(b.rng.normal(size=w))
    added = [constant(b.rng.normal(size=w[0]))] if bias else []
    return case(b, b("Conv", image, filters, *added, **how))


def plain_product(x: tuple[int, ...], y: tuple[int, ...], dtype: DType, *perm: int) -> Case:
    b = Builder("plain")
    left, right = b.input(*x, dtype=dtype, name="x"), b.input(*y, dtype=dtype, name="y")
    if perm:
        right = b("Transpose", right, perm=perm)
    return case(b, b("MatMul", left, right))


def gathered(x: tuple[int, ...], index: Array, **how: object) -> Case:
    """From a tensor whose axes lie in another order."""
    b = Builder("gathered")
    turned = b("Transpose", b.input(*x, name="x"), perm=(*range(1, len(x)), 0))
    places = b.input(*index.shape, dtype=dtypes.int64, name="i")
    return case(b, b("Gather", turned, places, **how), i=index)


def table(x: tuple[int, ...], index: Array) -> Case:
    """From a constant that is stored in halves."""
    b = Builder("table")
    places = b.input(*index.shape, dtype=dtypes.int64, name="i")
    exact = np.asarray(b.rng.normal(size=x).astype(np.float16).astype(np.float32))
    made = case(b, b("Gather", constant(exact), places), i=index)
    return replace(made, precision="fp16")


def layer(
    kind: str,
    hidden: int,
    *,
    dtype: DType = dtypes.float32,
    states: bool = False,
    bias: bool = True,
    turned: bool = False,
    **how: object,
) -> Case:
    """A recurrent layer whose weights are constants; `states`: examples of other lengths with
    states of their own, and peepholes.
    """
    b, (batch, time, depth) = Builder("layer"), (3, 5, 4)
    count = 2 if how.get("direction") == "bidirectional" else 1
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]

    def made(*shape: int) -> Value:
        return constant((b.rng.normal(size=shape) / 2).astype(np.float16).astype(dtype.numpy))

    first = (batch, time) if how.get("layout") else (time, batch)
    x = b.input(*(first[::-1] if turned else first), depth, dtype=dtype, name="x")
    weights = made(count, gates * hidden, depth), made(count, gates * hidden, hidden)
    x = b("Transpose", x, perm=(1, 0, 2)) if turned else x
    operands = [x, *weights, made(count, 2 * gates * hidden) if bias else None]
    if states:
        shape = (batch, count, hidden) if how.get("layout") else (count, batch, hidden)
        lengths = constant(np.array([5, 0, 2], np.int32))
        operands += [lengths, *(made(*shape) for _ in range(2 if kind == "LSTM" else 1))]
        operands += [made(count, 3 * hidden)] if kind == "LSTM" else []
    outputs = b.several(3 if kind == "LSTM" else 2, kind, *operands, hidden_size=hidden, **how)
    return case(b, *outputs)


def stored(kind: str, **how: object) -> Case:
    """A recurrent layer with weights of 8 bits."""
    b = recurrent(kind, steps=5, batch=3, **how)
    return Case(b.graph, feeds_of(b, 5, 3))


BOTH = {"direction": "bidirectional"}
BACK = {"direction": "reverse"}
FUNCTIONS = {
    "activations": ("HardSigmoid", "Elu", "LeakyRelu"),
    "activation_alpha": (0.3, 0.7, 0.1),
    "activation_beta": (0.4,),
}
LAYERS = {
    "states": layer("RNN", 9),
    "states, both ways": layer("RNN", 21, states=True, **BOTH),
    "states, batch first": layer("RNN", 40, layout=1, turned=True, **BACK),
    "gates": layer("GRU", 9, states=True),
    "gates, both ways": layer("GRU", 18, states=True, layout=1, **BOTH),
    "gates, linear": layer("GRU", 19, linear_before_reset=1, **BOTH),
    "gates, linear, no bias": layer("GRU", 8, linear_before_reset=1, bias=False, **BACK),
    "gates, double": layer("GRU", 5, dtype=dtypes.float64, turned=True),
    "memory": layer("LSTM", 9),
    "memory, both ways": layer("LSTM", 17, states=True, **BOTH),
    "memory, batch first": layer("LSTM", 8, states=True, layout=1, clip=0.5, **BACK),
    "memory, coupled": layer("LSTM", 5, input_forget=1, states=True, **FUNCTIONS),
    "memory, halves": replace(layer("LSTM", 20, **BOTH), precision="fp16"),
    "memory, double": layer("LSTM", 5, dtype=dtypes.float64, states=True, bias=False),
    "memory, bytes": stored("LSTM", **BOTH),
    "gates, bytes": stored("GRU", hidden=9),
}


def resized(
    x: tuple[int, ...], perm: tuple[int, ...], sizes: tuple[int, ...], **how: object
) -> Case:
    b = Builder("resized")
    turned = b("Transpose", b.input(*x, name="x"), perm=perm)
    return case(b, b("Relu", b("Resize", turned, None, None, list(sizes), **how)))


def sampled_image(x: tuple[int, ...], perm: tuple[int, ...], **how: object) -> Case:
    b = Builder("sampled")
    turned = b("Transpose", b.input(*x, name="x"), perm=perm)
    return case(b, b("GridSample", turned, b.input(x[0], 3, 6, 2, name="grid"), **how))


def symbolic(
    kind: str, x: tuple[int | str, ...], sizes: tuple[int, ...], *rest: object, **how: object
) -> Case:
    """An operator on sizes that have names."""
    b = Builder("symbolic")
    b.output(b(kind, b.input(*x, name="x"), *rest, **how))
    return Case(b.graph, {"x": b.rng.normal(size=sizes).astype(np.float32)})


U8, I8, F64 = dtypes.uint8, dtypes.int8, dtypes.float64
SEVEN, NINE = np.uint8(7), np.int8(-9)
EACH = np.arange(-3, 3).astype(np.int8)
BORDERS = {"kernel_shape": (3, 2, 2), "pads": (1, 0, 1, 1, 1, 0), "strides": (2, 1, 2)}
SPREAD = {"dilations": (1, 2, 1), **BORDERS}
SAMPLED = (
    *("Gather", "GatherElements", "GatherND", "ScatterND", "ScatterElements", "TensorScatter"),
    *(
        "RNN",
        "GRU",
        "LSTM",
        "LinearAttention",
        "CausalConvWithState",
        "Det",
        "PagedAttention",
        "GatherBlocks",
    ),
    *("Pad", "TopK", "Unique", "NonZero", "Trilu", "Range", "ConstantOfShape", "ReverseSequence"),
    *("Resize", "GridSample", "AffineGrid", "Col2Im", "MaxUnpool", "DeformConv"),
    *("RoiAlign", "MaxRoiPool", "NonMaxSuppression", "Compress", "OneHot", "CumSum", "CumProd"),
    *(
        "LabelEncoder",
        "TfIdfVectorizer",
        "TreeEnsemble",
        "TreeEnsembleRegressor",
        "SVMClassifier",
        "SVMRegressor",
    ),
    *("DFT", "STFT", "MelWeightMatrix"),
    *("MaxPool", "AveragePool", "LpPool", "ConvInteger", "MatMulInteger"),
)
"""Operators whose samples are run too."""

CASES: dict[str, Case] = {
    "bytes, 3 × 3": integers((2, 5, 6, 7), (9, 5, 3, 3), U8, pads=(1, 1, 1, 1)),
    "bytes, from 7": integers(
        (2, 5, 6, 7), (9, 5, 3, 3), U8, zeros=(SEVEN, NINE), pads=(1, 0, 2, 1), strides=(2, 1)
    ),
    "signed bytes, groups": integers((1, 6, 6, 7), (40, 3, 3, 2), I8, zeros=(NINE, None), group=2),
    "bytes, a line": integers((2, 5, 9), (6, 5, 3), U8, zeros=(SEVEN, EACH), dilations=(2,)),
    "bytes, a room": integers((1, 4, 5, 4, 6), (6, 2, 2, 3, 1), U8, zeros=(SEVEN, None), group=2),
    "computed filters": integers(
        (2, 4, 6, 7), (6, 2, 3, 3), U8, zeros=(SEVEN, EACH), group=2, computed=True
    ),
    "bytes, one channel": integers(
        (2, 6, 7, 9), (6, 1, 3, 3), U8, zeros=(SEVEN, NINE), group=6, pads=(1, 1, 1, 1)
    ),
    "signed bytes, one channel": integers(
        (1, 20, 9, 9), (20, 1, 5, 5), I8, zeros=(NINE, None), group=20, strides=(1, 2)
    ),
    "bytes, one channel, dilated": integers(
        (1, 6, 9, 9), (6, 1, 3, 3), U8, zeros=(SEVEN, EACH), group=6, dilations=(1, 2)
    ),
    "computed bytes": integers(
        (3, 5, 7), (7, 6), U8, zeros=(SEVEN, EACH), kind="MatMulInteger", computed=True
    ),
    "computed bytes of batches": integers(
        (2, 5, 7), (2, 7, 6), I8, zeros=(NINE, None), kind="MatMulInteger", computed=True
    ),
    "bytes of batches": integers((2, 5, 7), (2, 7, 6), U8, kind="MatMulInteger"),
    "bytes of other batches": integers(
        (3, 1, 5, 7), (2, 7, 40), I8, zeros=(NINE, NINE), kind="MatMulInteger"
    ),
    "double, a line": wide_convolution((2, 6, 9), (8, 3, 3), bias=True, group=2, pads=(1, 1)),
    "double, a room": wide_convolution((1, 2, 5, 4, 6), (3, 2, 3, 2, 2), bias=False, **SPREAD),
    "largest in a room": windows("MaxPool", (2, 3, 5, 4, 6), **SPREAD),
    "where the largest is": windows("MaxPool", (2, 3, 5, 4, 6), outputs=2, **SPREAD),
    "where, columns first": windows(
        "MaxPool", (2, 3, 5, 6), outputs=2, storage_order=1, kernel_shape=(2, 3)
    ),
    "largest of bytes": windows("MaxPool", (1, 3, 5, 4, 6), U8, **BORDERS),
    "mean in a room": windows("AveragePool", (2, 3, 5, 4, 6), F64, **BORDERS),
    "mean with borders": windows(
        "AveragePool", (2, 3, 5, 4, 6), F64, count_include_pad=1, **BORDERS
    ),
    "norm in a room": windows("LpPool", (2, 3, 5, 4, 6), F64, p=3, **BORDERS),
    "norm": windows("LpPool", (2, 3, 5, 6), kernel_shape=(3, 2), pads=(1, 0, 1, 1)),
    "whole numbers": plain_product((3, 5, 7), (3, 7, 4), dtypes.int32),
    "long numbers, turned": plain_product((2, 3, 5, 7), (3, 4, 7), dtypes.int64, 0, 2, 1),
    "double, one for all": plain_product((3, 5, 7), (7, 4), dtypes.float64),
    "double, a vector": plain_product((7,), (3, 7, 4), dtypes.float64),
    "rows of another order": gathered((3, 5, 4), np.array([[2, -1], [0, 4]]), axis=0),
    "columns of another order": gathered((3, 5, 4), np.array([2, 0, -1]), axis=1),
    "rows of halves": table((9, 5), np.array([[2, -1, 8]])),
    **LAYERS,
    "pixels between": resized((1, 5, 4, 11), (0, 3, 1, 2), (1, 11, 9, 5), mode="linear"),
    "pixels of four lines": resized((2, 5, 4, 11), (0, 3, 1, 2), (2, 11, 3, 8), mode="cubic"),
    "next pixels": resized((2, 5, 4, 11), (0, 3, 1, 2), (2, 11, 10, 8), mode="nearest"),
    "few channels": resized((1, 5, 4, 7), (0, 3, 1, 2), (1, 7, 9, 5), mode="linear"),
    "planes": resized((2, 5, 4, 7), (0, 1, 2, 3), (2, 5, 9, 3), mode="cubic", exclude_outside=1),
    "smaller planes": resized((2, 5, 9, 7), (0, 1, 2, 3), (2, 5, 4, 3), mode="linear", antialias=1),
    "smaller": resized((2, 5, 9, 11), (0, 3, 1, 2), (2, 11, 4, 3), mode="cubic", antialias=1),
    "other axes": resized((2, 3, 4, 5), (1, 0, 3, 2), (7, 4, 5, 9), mode="linear"),
    "a spectrum": symbolic("DFT", (2, "n", 1), (2, 34, 1)),
    "a spectrum of small factors": symbolic("DFT", (2, "n", 1), (2, 12, 1)),
    "places": symbolic("NonZero", (2, "n", 3), (2, 4, 3)),
    "padding": symbolic("Pad", (2, "n", "m"), (2, 4, 3), [1, 0, 2, 0, -1, 3], mode="edge"),
    "images of channels": sampled_image((2, 5, 4, 7), (0, 3, 1, 2), mode="linear"),
}
