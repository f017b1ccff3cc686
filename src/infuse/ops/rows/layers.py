"""Rows through layers of networks: images, sequences, attention, and models of tables."""

from __future__ import annotations

from collections.abc import Sequence

from infuse.ir.contents import known_ints
from infuse.ir.graph import Node
from infuse.ops.attending import Attention, RotaryEmbedding
from infuse.ops.blocks import DepthToSpace, SpaceToDepth
from infuse.ops.convolution import Conv
from infuse.ops.core.base import Op
from infuse.ops.core.rows import (
    ACROSS,
    APART,
    UNKNOWN,
    Dependence,
    Kind,
    Mixes,
    RowProof,
    by_axes_all,
    rows_of,
)
from infuse.ops.domains.microsoft import FusedConv
from infuse.ops.domains.microsoft_attention import Attention as JoinedAttention, MultiHeadAttention
from infuse.ops.domains.microsoft_grouped import GroupQueryAttention
from infuse.ops.domains.microsoft_normalization import (
    EmbedLayerNormalization,
    SkipLayerNormalization,
    SkipSimplifiedLayerNormalization,
)
from infuse.ops.domains.microsoft_quantized import QLinearAveragePool, QLinearGlobalAveragePool
from infuse.ops.domains.microsoft_rotary import RotaryEmbedding as JoinedRotary
from infuse.ops.domains.ml_ensembles import TreeEnsemble
from infuse.ops.domains.ml_features import (
    ArrayFeatureExtractor,
    Binarizer,
    FeatureVectorizer,
    Imputer,
    Normalizer,
    Scaler,
)
from infuse.ops.domains.ml_labels import CategoryMapper, LabelEncoder, OneHotEncoder
from infuse.ops.domains.ml_linear import LinearClassifier, LinearRegressor
from infuse.ops.domains.ml_svm import SVMClassifier, SVMRegressor
from infuse.ops.domains.ml_trees import TreeEnsembleClassifier, TreeEnsembleRegressor
from infuse.ops.gated import Det, TensorScatter
from infuse.ops.integers import ConvInteger, QLinearConv
from infuse.ops.normalization import (
    LRN,
    BatchNormalization,
    GroupNormalization,
    InstanceNormalization,
    LayerNormalization,
    MeanVarianceNormalization,
)
from infuse.ops.pooling import GlobalLpPool, LpPool
from infuse.ops.recurrences import CausalConvWithState, LinearAttention
from infuse.ops.recurrent import GRU, LSTM, RNN
from infuse.ops.recurrent_base import Recurrent
from infuse.ops.signal import DFT, STFT
from infuse.ops.terms import CountTerms, FindTerms
from infuse.ops.text import TfIdfVectorizer
from infuse.ops.unfolding import Col2Im, DeformConv
from infuse.ops.vision import AffineGrid, GridSample

Results = Sequence[Dependence]


def along_first(node: Node, proof: RowProof, *operands: int, shared: Sequence[int] = ()) -> Results:
    """Rows along the first axis of these operands, of at least two axes, and of all results."""
    found = proof.rows_in(node, dict.fromkeys(operands, 0), shared)
    for number in operands:
        value = node.input(number)
        if value is not None and value.tensor.rank in (None, 1) and not proof.is_constant(value):
            raise Mixes(UNKNOWN)
    return [found] * len(node.outputs)


@rows_of(
    DepthToSpace,
    SpaceToDepth,
    InstanceNormalization,
    GroupNormalization,
    LRN,
    LpPool,
    GlobalLpPool,
    Col2Im,
    QLinearConv,
    ConvInteger,
    QLinearAveragePool,
    QLinearGlobalAveragePool,
    STFT,
    TfIdfVectorizer,
    Scaler,
    Normalizer,
    Imputer,
    Binarizer,
    LinearRegressor,
    LinearClassifier,
    SVMRegressor,
    SVMClassifier,
    TreeEnsemble,
    TreeEnsembleRegressor,
    TreeEnsembleClassifier,
)
def alone(op: Op, node: Node, proof: RowProof) -> Results:
    """Each image, or row of a table, by itself."""
    return along_first(node, proof, 0)


@rows_of(CountTerms, FindTerms)
def counted(op: Op, node: Node, proof: RowProof) -> Results:
    """Each text of a list by itself; what fills up rows of other lengths counts nothing."""
    return [proof.rows_in(node, {0: 0})] * len(node.outputs)


@rows_of(BatchNormalization)
def normalized_by_constants(op: BatchNormalization, node: Node, proof: RowProof) -> Results:
    """In inference, statistics are constant."""
    if op.training_mode:
        raise Mixes("its statistics are those of all rows")
    return along_first(node, proof, 0)[:1]


@rows_of(FusedConv)
def convolved(op: Conv, node: Node, proof: RowProof) -> Results:
    """Each image by itself, with what is added to it."""
    return along_first(node, proof, 0, 3)


@rows_of(GridSample)
def sampled(op: Op, node: Node, proof: RowProof) -> Results:
    """Each image at places of its own."""
    if any(proof.of(value).kind is not Kind.ROWS for value in node.inputs):
        raise Mixes(APART)
    return along_first(node, proof, 0, 1)


@rows_of(DeformConv)
def deformed(op: Op, node: Node, proof: RowProof) -> Results:
    """Each image with offsets and a mask of its own."""
    return along_first(node, proof, 0, 2, 4)


@rows_of(TensorScatter)
def written(op: Op, node: Node, proof: RowProof) -> Results:
    """Each cache by itself, at a place of its own."""
    if any(proof.of(value).kind is not Kind.ROWS for value in node.inputs[:2]):
        raise Mixes(APART)
    axis = getattr(op, "axis", -2)
    rank = node.output.tensor.rank
    if rank is None or axis % rank == 0:
        raise Mixes(ACROSS)
    return [proof.rows_in(node, {0: 0, 1: 0, 2: 0})]


@rows_of(MeanVarianceNormalization)
def normalized(op: MeanVarianceNormalization, node: Node, proof: RowProof) -> Results:
    """Over axes that are not that of the rows."""
    found, rank = proof.rows_in(node, {0: None}), node.output.tensor.rank
    if rank is None:
        raise Mixes(UNKNOWN)
    if found.axis in {axis % rank for axis in op.axes}:
        raise Mixes(ACROSS)
    return [found]


@rows_of(SkipLayerNormalization, SkipSimplifiedLayerNormalization)
def normalized_sum(op: Op, node: Node, proof: RowProof) -> Results:
    """Two operands of one shape, or a second one that all rows share, along the last axis."""
    data, skip = node.inputs[:2]
    state, rank = proof.of(data), node.output.tensor.rank
    if rank is None or state.kind is not Kind.ROWS or state.axis == rank - 1:
        raise Mixes(ACROSS)
    if skip is None or skip.tensor.rank is None:
        raise Mixes(UNKNOWN)
    own = state.axis - (rank - skip.rank)
    operands = {0: state.axis} | ({1: own} if own >= 0 else {})
    return [proof.rows_in(node, operands, shared=(1,))] * len(node.outputs)


rows_of(LayerNormalization)(by_axes_all)


@rows_of(EmbedLayerNormalization)
def embedded(op: Op, node: Node, proof: RowProof) -> Results:
    """Tokens, segments, mask and positions of each row."""
    return along_first(node, proof, 0, 1, 7, 8, shared=(8,))


@rows_of(Attention)
def attended(op: Attention, node: Node, proof: RowProof) -> Results:
    """Each example by itself; a mask has rows along the first of four axes."""
    mask, axis = node.input(3), proof.of(node.inputs[0]).axis
    operands = dict.fromkeys((0, 1, 2, 4, 5, 6), axis)
    if mask is not None and mask.tensor.rank is not None and mask.rank >= 4 - axis:
        operands[3] = axis - (4 - mask.rank)
    if axis == 1 and not _heads_alone(node):
        raise Mixes(UNKNOWN)
    return [proof.rows_in(node, operands, shared=(3,))] * len(node.outputs)


def _heads_alone(node: Node) -> bool:
    """Whether each head of queries has its own head of keys and values, along the second axis."""
    queries, *others = node.inputs[:3]
    if queries is None or queries.tensor.rank != 4 or any(v is not None for v in node.inputs[4:]):
        return False
    return all(
        value is not None and value.tensor.rank == 4 and value.shape[1] == queries.shape[1]
        for value in others
    )


@rows_of(MultiHeadAttention)
def attended_by_heads(op: Op, node: Node, proof: RowProof) -> Results:
    """Queries, keys, values, masks and caches of each row."""
    operands = dict.fromkeys((0, 1, 2, 4, 5, 6, 7), 0)
    return [proof.rows_in(node, operands, shared=(5,))] * len(node.outputs)


@rows_of(JoinedAttention)
def attended_jointly(op: Op, node: Node, proof: RowProof) -> Results:
    """Caches of keys and values are one tensor, whose second axis has the rows."""
    found = proof.rows_in(node, {0: 0, 3: 0, 4: 1, 5: 0}, shared=(5,))
    return [found, found.moved(1)][: len(node.outputs)]


@rows_of(GroupQueryAttention)
def attended_in_groups(op: Op, node: Node, proof: RowProof) -> Results:
    """Queries, keys, values, caches, lengths, positions and what is added, of each row."""
    operands = dict.fromkeys((0, 1, 2, 3, 4, 5, 9, 10), 0)
    return [proof.rows_in(node, operands, shared=(9, 10))] * len(node.outputs)


@rows_of(RotaryEmbedding)
def rotated(op: RotaryEmbedding, node: Node, proof: RowProof) -> Results:
    """Each row by angles of its own, or at positions of its own in a constant table."""
    tables = {n: 0 for n in (1, 2) if (v := node.input(n)) is not None and v.tensor.rank == 3}
    return [proof.rows_in(node, {0: 0, **tables, 3: 0})]


@rows_of(JoinedRotary)
def rotated_jointly(op: JoinedRotary, node: Node, proof: RowProof) -> Results:
    """Each row at positions of its own in a constant table."""
    positions = node.inputs[1]
    if op.is_packed_batching or positions is None or positions.tensor.rank is None:
        raise Mixes(UNKNOWN)
    operands = {0: 0} | ({1: 0} if positions.rank == 2 else {})
    return [proof.rows_in(node, operands)]


@rows_of(DFT)
def transformed(op: DFT, node: Node, proof: RowProof) -> Results:
    """Lines along one axis; the last one has real and imaginary parts."""
    found, axis = proof.rows_in(node, {0: None}), known_ints(node.input(2))
    rank = node.output.tensor.rank
    own = -2 if node.input(2) is None else None if axis is None else axis[0]
    if rank is None or not isinstance(own, int):
        raise Mixes(UNKNOWN)
    if found.axis in (own % rank, rank - 1):
        raise Mixes(ACROSS)
    return [found]


@rows_of(Det)
def determinants(op: Det, node: Node, proof: RowProof) -> Results:
    """Of the matrices in the last two axes."""
    found, data = proof.rows_in(node, {0: None}), node.inputs[0]
    if data is None or found.axis >= data.rank - 2:
        raise Mixes(ACROSS)
    return [found]


@rows_of(AffineGrid)
def grids(op: AffineGrid, node: Node, proof: RowProof) -> Results:
    """A grid for each matrix; as many as there are rows."""
    theta, size = node.inputs
    if proof.of(size).kind is Kind.ROWS or proof.of(theta).kind is not Kind.ROWS:
        raise Mixes(APART)
    found = proof.of(theta)
    if found.axis != 0:
        raise Mixes(ACROSS)
    return [found]


@rows_of(LinearAttention)
def attended_linearly(op: Op, node: Node, proof: RowProof) -> Results:
    """Each example by itself, with a state of its own."""
    return along_first(node, proof, 0, 1, 2, 3, 4, 5)


@rows_of(CausalConvWithState)
def convolved_causally(op: Op, node: Node, proof: RowProof) -> Results:
    """Each example by itself, with a state of its own."""
    return along_first(node, proof, 0, 3)


@rows_of(LSTM, GRU, RNN)
def recurrent(op: Recurrent, node: Node, proof: RowProof) -> Results:
    """Each example by itself: rows lie along the second axis of a sequence, or the first one with
    `layout` 1.
    """
    axis = 0 if op.layout else 1
    found = proof.rows_in(node, {0: axis, 4: 0, 5: axis, 6: axis})
    whole = found.moved(0 if op.layout else 2)
    return [whole, found.moved(axis), found.moved(axis)][: len(node.outputs)]


@rows_of(LabelEncoder, CategoryMapper, OneHotEncoder)
def encoded(op: Op, node: Node, proof: RowProof) -> Results:
    """Each element by itself."""
    return [proof.rows_in(node, {0: None})]


@rows_of(FeatureVectorizer)
def features(op: Op, node: Node, proof: RowProof) -> Results:
    """Columns side by side: each operand must have the rows."""
    if any(proof.of(value).kind is not Kind.ROWS for value in node.inputs):
        raise Mixes(APART)
    return along_first(node, proof, *range(len(node.inputs)))


@rows_of(ArrayFeatureExtractor)
def extracted(op: Op, node: Node, proof: RowProof) -> Results:
    """Some columns, along the last axis."""
    found, rank = proof.rows_in(node, {0: None}), node.output.tensor.rank
    if rank is None or found.axis == rank - 1:
        raise Mixes(ACROSS)
    return [found]
