"""How much arithmetic each operator does, from the shapes of its operands and results.

Counted are multiplications with accumulation (MACs, two operations each) and other operations:
additions, products, comparisons and functions of one element, each as one, whatever their type.
Moving, converting and making elements is no arithmetic. Elementwise operators and reductions are
counted by their formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import InfuseError
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Operator
from infuse.ir.types import Shape
from infuse.ops.base import Elementwise, kinds_with
from infuse.ops.contraction import parse_equation
from infuse.ops.formula import E, Term, inputs
from infuse.ops.reduction import Reduction
from infuse.ops.traits import Trait


class Arithmetic(NamedTuple):
    """MACs, and operations that are not part of one."""

    macs: Dim = 0
    others: Dim = 0


@dataclass
class Call:
    """One application of an operator: shapes and element types of operands (None: absent) and
    results.
    """

    op: Operator
    inputs: Sequence[Shape | None]
    outputs: Sequence[Shape]
    types: Sequence[DType | None]
    attributes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.attributes = dict(self.op.attributes())

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None

    def shape(self, index: int) -> Shape:
        operand = self.inputs[index]
        assert operand is not None
        return operand

    def size(self, index: int) -> Dim:
        return dims.product(self.shape(index))

    @property
    def made(self) -> Dim:
        """Elements of the first result."""
        return dims.product(self.outputs[0])


Count = Callable[[Call], Arithmetic]
COUNTS: dict[tuple[str, str], Count] = {}
"""What `counts` has registered, by domain and name."""
MICROSOFT = "com.microsoft"


def counts(*names: str, domain: str = "") -> Callable[[Count], Count]:
    """Register a function as the count of these operators, also of a user's own."""

    def register(function: Count) -> Count:
        COUNTS.update(((domain, name), function) for name in names)
        return function

    return register


def arithmetic(call: Call) -> Arithmetic | None:
    """The arithmetic of one application; None for an operator that nothing is known of."""
    count = COUNTS.get((call.op.domain, call.op.name))
    if count is not None:
        return count(call)
    if isinstance(call.op, Elementwise):
        return Arithmetic(0, call.made * _formula_weight(call))
    return _reduced(call) if isinstance(call.op, Reduction) else None


# -- formulas --------------------------------------------------------------------------------------

WEIGHTS = {"input": 0, "const": 0, "cast": 0, "sigmoid": 4, "softplus": 3}
"""Operations of a function in a formula, where that is not one: a sigmoid is a negation,
exponential, sum, quotient.
"""


def weight(term: Term) -> int:
    """Operations in a formula; what occurs twice is computed once."""
    seen: set[Term] = set()
    pending = [term]
    while pending:
        each = pending.pop()
        if each not in seen:
            seen.add(each)
            pending.extend(each.args)
    return sum(WEIGHTS.get(each.op, 1) for each in seen)


def _formula_weight(call: Call) -> int:
    leaves = inputs(*(kind or dtypes.float32 for kind in call.types))
    arguments = [None if kind is None else leaf for kind, leaf in zip(call.types, leaves)]
    assert isinstance(call.op, Elementwise)
    try:
        return weight(call.op.scalar(E, *arguments))
    except InfuseError:
        return 1


def _reduced(call: Call) -> Arithmetic:
    assert isinstance(call.op, Reduction)
    kind = call.types[0] or dtypes.float32
    element, total, count = inputs(kind, kind, kind)
    each, last = weight(call.op.each(E, element)), weight(call.op.finish(E, total, count))
    return Arithmetic(0, call.size(0) * (each + 1) + call.made * last)


@counts("ReduceLogSumExp")
def _log_sum_exp(call: Call) -> Arithmetic:
    return Arithmetic(0, call.size(0) * 4 + call.made * 2)


@counts("ArgMax", "ArgMin", "CumSum", "CumProd", "TopK", "NonZero", "Unique")
def _once_per_element(call: Call) -> Arithmetic:
    return Arithmetic(0, call.size(0))


# -- convolutions and products ---------------------------------------------------------------------


@counts("Conv")
@counts("FusedConv", domain=MICROSOFT)
def _conv(call: Call) -> Arithmetic:
    activated = bool(call.attributes.get("activation"))
    return Arithmetic(
        call.made * dims.product(call.shape(1)[1:]),
        call.made * (int(call.has(2)) + int(call.has(3)) + int(activated)),
    )


@counts("ConvTranspose")
def _conv_transpose(call: Call) -> Arithmetic:
    return Arithmetic(call.size(0) * dims.product(call.shape(1)[1:]), call.made * int(call.has(2)))


@counts("MatMul")
def _matmul(call: Call) -> Arithmetic:
    return Arithmetic(call.made * call.shape(0)[-1])


@counts("FusedMatMul", domain=MICROSOFT)
def _fused_matmul(call: Call) -> Arithmetic:
    left = call.shape(0)
    transposed = call.attributes["transA"] and len(left) > 1
    if transposed and call.attributes["transBatchA"] and len(left) > 2:
        depth = left[0]
    else:
        depth = left[-2] if transposed else left[-1]
    return Arithmetic(call.made * depth, call.made * int(call.attributes["alpha"] != 1))


@counts("Gemm")
@counts("FusedGemm", domain=MICROSOFT)
def _gemm(call: Call) -> Arithmetic:
    attributes = call.attributes
    depth = call.shape(0)[0 if attributes["transA"] else -1]
    added = 1 + int(attributes["beta"] != 1) if call.has(2) and attributes["beta"] != 0 else 0
    return Arithmetic(
        call.made * depth,
        call.made
        * (added + int(attributes["alpha"] != 1) + int(bool(attributes.get("activation")))),
    )


@counts("RNN", "GRU", "LSTM")
def _recurrent(call: Call) -> Arithmetic:
    """Every step of every example; a cell does about nine operations a gate."""
    steps = dims.product(call.shape(0)[:2])
    return Arithmetic(
        steps * (call.size(1) + call.size(2)), steps * dims.product(call.shape(1)[:2]) * 9
    )


@counts("Einsum")
def _einsum(call: Call) -> Arithmetic:
    """From left to right, two operands at a time; labels that nobody needs any more are summed over
    at once.
    """
    terms, result = parse_equation(call.attributes["equation"], len(call.inputs))
    sizes: dict[str, Dim] = {}
    for number, term in enumerate(terms):
        _name_sizes(term, call.shape(number), sizes)
    total = Arithmetic()
    held = terms[0]
    for number, term in enumerate([*terms[1:], ""] if len(terms) == 1 else terms[1:], 2):
        here = "".join(dict.fromkeys(held + term))
        remaining = "".join(
            c for c in here if c in result or any(c in later for later in terms[number:])
        )
        work = dims.product(sizes[c] for c in here)
        summed = remaining != here
        if term and summed:
            total = Arithmetic(total.macs + work, total.others)
        elif term or summed:
            total = Arithmetic(total.macs, total.others + work)
        held = remaining
    return total


def _name_sizes(term: str, shape: Shape, sizes: dict[str, Dim]) -> None:
    spare = len(shape) - (len(term) - term.count("."))
    pieces: list[Dim] = list(shape)
    if "." in term:
        at = term.index(".")
        pieces[at : at + spare] = [dims.product(shape[at : at + spare])]
    for label, size in zip(term, pieces):
        if sizes.get(label, 1) == 1:
            sizes[label] = size


# -- attention -------------------------------------------------------------------------------------

SOFTMAX = 5
"""Operations on each element of a softmax: largest, difference, exponential, sum, quotient."""


@counts("Attention")
def _attention(call: Call) -> Arithmetic:
    attributes = call.attributes
    q, k, v = (call.shape(i) for i in range(3))
    heads = q[1] if len(q) == 4 else attributes["q_num_heads"]
    shared = k[1] if len(k) == 4 else attributes["kv_num_heads"]
    length, keys = q[-2], k[-2]
    if call.has(4):
        keys = keys + call.shape(4)[2]
    depth = q[3] if len(q) == 4 else dims.floordiv(q[2], heads)
    width = v[3] if len(v) == 4 else dims.floordiv(v[2], shared)
    scores = q[0] * heads * length * keys
    capped = 3 if attributes["softcap"] else 0
    return Arithmetic(scores * (depth + width), scores * (SOFTMAX + 1 + int(call.has(3)) + capped))


@counts("MultiHeadAttention", "GroupQueryAttention", domain=MICROSOFT)
def _heads_attention(call: Call) -> Arithmetic:
    batch, length = call.outputs[0][0], call.outputs[0][1]
    keys = call.shape(1)[-2] if call.has(1) else length
    if len(call.outputs) > 1:
        keys = call.outputs[1][2]
    scores = batch * length * keys * call.attributes["num_heads"]
    return Arithmetic(call.made * keys * 2, scores * (SOFTMAX + 1))


@counts("Attention", domain=MICROSOFT)
def _projected_attention(call: Call) -> Arithmetic:
    rows = dims.product(call.shape(0)[:-1])
    projected = rows * call.size(1)
    keys = call.outputs[1][3] if len(call.outputs) > 1 else call.shape(0)[1]
    scores = rows * keys * call.attributes["num_heads"]
    added = rows * call.shape(1)[-1] * int(call.has(2))
    return Arithmetic(projected + call.made * keys * 2, scores * (SOFTMAX + 1) + added)


@counts("RotaryEmbedding")
@counts("RotaryEmbedding", domain=MICROSOFT)
def _rotary(call: Call) -> Arithmetic:
    return Arithmetic(0, call.made * 3)


# -- normalizations --------------------------------------------------------------------------------


@counts("BatchNormalization")
def _batch_norm(call: Call) -> Arithmetic:
    """A factor and a summand for each channel, made beforehand."""
    return Arithmetic(0, call.made * 2)


@counts("InstanceNormalization", "GroupNormalization", "LayerNormalization")
def _norm(call: Call) -> Arithmetic:
    """Sum, difference, square, sum, factor, scale, and the bias where there is one."""
    return Arithmetic(0, call.size(0) * (6 + int(call.has(2))))


@counts("RMSNormalization", "SimplifiedLayerNormalization")
def _rms_norm(call: Call) -> Arithmetic:
    """Square, sum, factor, scale."""
    return Arithmetic(0, call.size(0) * 4)


@counts("SkipLayerNormalization", domain=MICROSOFT)
def _skip_norm(call: Call) -> Arithmetic:
    return Arithmetic(0, call.size(0) * (7 + int(call.has(3)) + int(call.has(4))))


@counts("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def _skip_rms_norm(call: Call) -> Arithmetic:
    return Arithmetic(0, call.size(0) * (5 + int(call.has(3))))


@counts("EmbedLayerNormalization", domain=MICROSOFT)
def _embed_norm(call: Call) -> Arithmetic:
    return Arithmetic(0, call.made * (8 + int(call.has(4))))


@counts("MeanVarianceNormalization")
def _mean_variance(call: Call) -> Arithmetic:
    return Arithmetic(0, call.made * 5)


@counts("LpNormalization")
def _lp_norm(call: Call) -> Arithmetic:
    return Arithmetic(0, call.made * 3)


@counts("Softmax", "LogSoftmax")
def _softmax(call: Call) -> Arithmetic:
    return Arithmetic(0, call.made * SOFTMAX)


@counts("BiasSoftmax", domain=MICROSOFT)
def _bias_softmax(call: Call) -> Arithmetic:
    return Arithmetic(0, call.made * (SOFTMAX + 1))


@counts("Hardmax")
def _hardmax(call: Call) -> Arithmetic:
    return Arithmetic(0, call.made)


@counts("LRN")
def _lrn(call: Call) -> Arithmetic:
    """Squares, their sum over the window, factor, summand, power, quotient."""
    return Arithmetic(0, call.made * (call.attributes["size"] + 5))


# -- windows ---------------------------------------------------------------------------------------


@counts("MaxPool")
def _max_pool(call: Call) -> Arithmetic:
    return Arithmetic(0, call.made * dims.product(call.attributes["kernel_shape"]))


@counts("AveragePool")
def _average_pool(call: Call) -> Arithmetic:
    return Arithmetic(0, call.made * (dims.product(call.attributes["kernel_shape"]) + 1))


@counts("LpPool")
def _lp_pool(call: Call) -> Arithmetic:
    return Arithmetic(0, call.made * (2 * dims.product(call.attributes["kernel_shape"]) + 1))


@counts("GlobalMaxPool")
def _global_max_pool(call: Call) -> Arithmetic:
    return Arithmetic(0, call.size(0))


@counts("GlobalAveragePool")
def _global_average_pool(call: Call) -> Arithmetic:
    return Arithmetic(0, call.size(0) + call.made)


@counts("GlobalLpPool")
def _global_lp_pool(call: Call) -> Arithmetic:
    return Arithmetic(0, call.size(0) * 2 + call.made)


@counts("Resize")
def _resize(call: Call) -> Arithmetic:
    """For each axis that changes: nothing to take the nearest, 3 operations to blend two elements,
    7 for four.
    """
    effort = {"nearest": 0, "linear": 3, "cubic": 7}[call.attributes["mode"]]
    changed = sum(a != b for a, b in zip(call.shape(0), call.outputs[0]))
    return Arithmetic(0, call.made * effort * changed)


@counts("NonMaxSuppression")
def _suppression(call: Call) -> Arithmetic:
    """Overlap of every box with every other one, 12 operations, for each class."""
    boxes = call.shape(0)[1]
    classes = call.shape(1)[1]
    return Arithmetic(0, call.shape(0)[0] * classes * dims.floordiv(boxes * (boxes - 1), 2) * 12)


# -- none ------------------------------------------------------------------------------------------

VIEWS = frozenset(["Identity", "Dropout", *kinds_with(Trait.RESHAPE)])
"""Operators whose result is their first operand, seen otherwise: no memory is touched."""
SIZES = frozenset(["Shape", "Size", "SequenceLength", "OptionalHasElement"])
"""Operators that look at no element."""
SELECTIONS = frozenset(kinds_with(Trait.SELECTION))
"""Operators that read of their first operand only what they give."""
_LISTS = """SequenceConstruct SequenceEmpty SequenceAt SequenceInsert SequenceErase SplitToSequence
    Optional
    OptionalGetElement"""
_MOVING = """Concat Pad Tile CenterCropPad Trilu Expand Transpose DepthToSpace SpaceToDepth
    ScatterElements ScatterND
    ReverseSequence OneHot ConcatFromSequence ConstantOfShape Range EyeLike RandomNormal
    RandomUniform RandomNormalLike
    RandomUniformLike Bernoulli Multinomial If Loop Scan SequenceMap"""


@counts(*sorted(VIEWS | SIZES | SELECTIONS), *_LISTS.split(), *_MOVING.split())
def _nothing(call: Call) -> Arithmetic:
    return Arithmetic()
