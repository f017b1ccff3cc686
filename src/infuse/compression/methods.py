"""The methods by name: what they make of the layers of a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from infuse import dtypes
from infuse.compression.clusters import ClusteredForm, Clustering, Operands, codebook
from infuse.compression.descent import descended
from infuse.compression.forms import (
    BlockForm,
    BlockRowsForm,
    DynamicForm,
    Form,
    RowsForm,
)
from infuse.compression.gates import add_gates
from infuse.compression.gptq import gptq
from infuse.compression.layers import Floats, Layer
from infuse.compression.low_rank import (
    Activations,
    Decomposition,
    FactoredForm,
    factored,
    why_not_factored,
)
from infuse.compression.moments import products_error
from infuse.compression.observation import Observations
from infuse.compression.setting import Plan, Setting
from infuse.compression.sparse import (
    Moments,
    Pattern,
    SparseForm,
    Sparsified,
    sparsified,
    why_not_sparse,
)
from infuse.compression.static import between_layers, plan_static, relative_error
from infuse.compression.weights import BlockWeights, blocks, round_to_nearest
from infuse.ir.graph import Array
from infuse.options.methods import (
    Clusters,
    Int2,
    Int3,
    Int4,
    Int8,
    Int8Dynamic,
    Int8Weights,
    Int16Activations,
    LowRank,
    Method,
    Sparse,
    SparseInt8,
)

SHARES = (0.7, 0.5, 0.35, 0.2)
"""Parts of the products of a layer that are left when it is factored."""
LOW_RANK_ERROR = 0.01
CLUSTER_BITS = (2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0)
"""Bits of entropy for each weight that clusters are made for."""
CLUSTER_ERROR = 0.01
BLOCKS = (64, 32)
"""Rows of weights of few bits that share a scale, the largest that divides them all."""
MOST_DESCENDED_BITS = 4
"""Bits of a weight up to which better rounding than GPTQ's is worth its time."""


def static_int8(setting: Setting) -> Plan:
    """Activations and weights as 8-bit integers, ranges of activations from data."""
    seen = setting.observed(between_layers(setting.graph, setting.layers))
    plan = plan_static(
        setting.graph, setting.layers, seen, setting.options.static, scratch=setting.scratch
    )
    forms: dict[Layer, Form] = dict(plan.layers)
    return Plan(forms, plan.between, plan.calibrators, plan.errors, plan.refused)


def int16_activations(setting: Setting) -> Plan:
    """Activations as 16-bit and weights as 8-bit integers, ranges of activations from data: for
    layers that 8 bits hurt.
    """
    options = replace(setting.options.static, activations=dtypes.uint16)
    seen = setting.observed()
    static = plan_static(setting.graph, setting.layers, seen, options, scratch=setting.scratch)
    forms: dict[Layer, Form] = dict(static.layers)
    return Plan(forms, {}, static.calibrators, static.errors, static.refused)


def dynamic_int8(setting: Setting) -> Plan:
    """Activations and weights as 8-bit integers, ranges of activations from each run: products
    only, as convolutions gain nothing by it.
    """
    plan = Plan()
    for layer in setting.layers:
        if layer.is_convolution:
            plan.refused[layer] = "convolutions gain nothing by ranges of each run"
        elif not layer.is_finite:
            plan.refused[layer] = "its weights are not finite"
        else:
            matrices = layer.matrices
            weights = round_to_nearest(matrices)
            plan.forms[layer] = DynamicForm(weights)
            plan.errors[layer] = relative_error(weights.numbers, matrices)
    return plan


def _weights_of(bits: int) -> Callable[[Setting], Plan]:
    def method(setting: Setting) -> Plan:
        """Weights of products in blocks: rounded to nearest, or, with data, by what the
        activations are (GPTQ, and with few bits by descent from there), whichever errs less.
        """
        plan = Plan()
        seen = None if setting.runs is None else setting.observed(takes_moments=True)
        for layer in setting.layers:
            why = why_no_blocks(layer)
            if why:
                plan.refused[layer] = why
                continue
            plan.calibrators[layer], weights, plan.errors[layer] = _in_blocks(layer, bits, seen)
            plan.forms[layer] = BlockForm(weights, setting.options.blocks)
        return plan

    return method


def why_no_blocks(layer: Layer) -> str:
    """Why weights are not stored in blocks; nothing where they are."""
    if layer.is_convolution:
        return "weights of convolutions are not stored in few bits"
    if not layer.is_finite:
        return "its weights are not finite"
    if layer.depth % BLOCKS[-1]:
        return f"its {layer.depth} rows are not a multiple of a block of {BLOCKS[-1]}"
    return ""


def _in_blocks(
    layer: Layer, bits: int, seen: Observations | None
) -> tuple[str, BlockWeights, float]:
    """Weights in blocks, how they were rounded, and their error: of the products, where data tell
    it, else of the weights.
    """
    matrix = layer.matrices[0]
    if seen is None or not seen.moments[layer].any():
        nearest = blocks(matrix, bits, _block_of(layer.depth))
        return "nearest", nearest, relative_error(nearest.numbers, matrix)
    return in_blocks_by_moments(matrix, seen.moments[layer], bits)


def _block_of(depth: int) -> int:
    return next(size for size in BLOCKS if depth % size == 0)


def in_blocks_by_moments(
    matrix: Floats, moments: Array, bits: int
) -> tuple[str, BlockWeights, float]:
    """Weights [depth, columns] in blocks, how they were rounded, and the error of their products
    with activations whose second moments [depth, depth] are given.
    """
    block = _block_of(len(matrix))
    offers = {
        "nearest": blocks(matrix, bits, block, np.diag(moments)),
        "GPTQ": gptq(matrix, moments, bits, block),
    }
    if bits <= MOST_DESCENDED_BITS:
        offers["descent"] = descended(offers["GPTQ"], matrix, moments)
    errors = {
        name: products_error(offer.numbers, matrix, moments) for name, offer in offers.items()
    }
    best = min(errors, key=errors.__getitem__)
    return best, offers[best], errors[best]


def _with_others(method: Callable[[Setting], Plan], bits: int = 8) -> Callable[[Setting], Plan]:
    """A method that stores rows of embeddings, too: as 8-bit integers with a scale each, or in
    blocks of fewer bits where these divide them; and weights of recurrent layers in 8 bits.
    """

    def both(setting: Setting) -> Plan:
        plan = method(setting)
        add_gates(setting.recurrent, plan.forms, plan.errors, plan.refused)
        for layer in setting.embeddings:
            if not layer.is_finite:
                plan.refused[layer] = "its weights are not finite"
                continue
            block = next((size for size in BLOCKS if layer.weights.shape[1] % size == 0), None)
            if bits < 8 and block is not None:
                table = blocks(np.ascontiguousarray(layer.weights.T), bits, block)
                plan.forms[layer] = BlockRowsForm(table)
                plan.errors[layer] = relative_error(table.numbers.T, layer.weights)
                continue
            rows = round_to_nearest(np.ascontiguousarray(layer.weights.T)[None])
            integers, scales = rows.integers[0].T, rows.scales[0].T
            plan.forms[layer] = RowsForm(np.ascontiguousarray(integers), scales)
            plan.errors[layer] = relative_error(rows.numbers[0].T, layer.weights)
        return plan

    return both


def low_rank(setting: Setting) -> list[Plan]:
    """Layers as chains of smaller ones: a plan for each share of the products that is left."""
    plans = [Plan(limit=LOW_RANK_ERROR) for _ in SHARES]
    seen = None if setting.runs is None else setting.observed(takes_moments=True)
    for layer in setting.layers:
        why = why_not_factored(layer)
        decomposition = None
        if not why:
            decomposition = Decomposition(layer.matrices[0], _activations(layer, seen))
        for plan, share in zip(plans, SHARES):
            factors = decomposition and factored(layer, decomposition, share)
            if not factors:
                plan.refused[layer] = why or f"no rank has {share:.0%} of its products"
                continue
            plan.forms[layer], plan.errors[layer] = FactoredForm(factors), factors.error
            plan.calibrators[layer] = "" if seen is None else "whitened"
    return plans


def _activations(layer: Layer, seen: Observations | None) -> Activations:
    """What a layer multiplies, as far as data tell."""
    moments = None if seen is None else seen.second_moments(layer)
    if seen is not None and moments is not None:
        return Activations(moments, seen.sums[layer] / seen.counts[layer])
    if seen is not None and len(seen.rows[layer]) and np.isfinite(seen.rows[layer]).all():
        return Activations.of_rows(seen.rows[layer][:, 0])
    return Activations.unknown(layer.depth)


def sparse(setting: Setting) -> Plan:
    """Layers many of whose weights are zero, in float32."""
    plan, pattern = Plan(), setting.options.sparse.pattern(has_integers=False)
    seen = None if setting.runs is None else setting.observed(takes_moments=True)
    for layer, weights in _sparsified(setting, plan, pattern, seen).items():
        plan.forms[layer] = SparseForm(weights.matrices, _sparse_name(weights))
    return plan


def sparse_int8(setting: Setting) -> Plan:
    """The same with activations and weights as 8-bit integers; layers that have no sparse weights
    are integers all the same.
    """
    pattern = setting.options.sparse.pattern(has_integers=True)
    between = between_layers(setting.graph, setting.layers)
    seen = setting.observed(between, takes_moments=True)
    chosen = _sparsified(setting, Plan(), pattern, seen)
    matrices = {layer: weights.matrices for layer, weights in chosen.items()}
    static = plan_static(
        setting.graph,
        setting.layers,
        seen,
        setting.options.static,
        matrices,
        scratch=setting.scratch,
    )
    plan = Plan({}, static.between, static.calibrators, static.errors, static.refused)
    for layer, form in static.layers.items():
        weights = chosen.get(layer)
        plan.forms[layer] = form
        if weights is not None:
            plan.forms[layer] = replace(form, name=f"int8, {_sparse_name(weights)}")
            plan.calibrators[layer] += f", {weights.how}"
    return plan


def _sparsified(
    setting: Setting, plan: Plan, pattern: Pattern, seen: Observations | None
) -> dict[Layer, Sparsified]:
    """Sparse weights of the layers that may have them; the plan gets errors and refusals."""
    result = {}
    for number, layer in enumerate(setting.layers):
        why = why_not_sparse(layer, pattern)
        if why:
            plan.refused[layer] = why
            continue
        moments = None if seen is None else _moments(layer, seen)
        weights = sparsified(layer, pattern, setting.options.sparse.sparsity, moments)
        result[layer] = weights
        plan.errors[layer], plan.calibrators[layer] = weights.error, weights.how
        if setting.progress is not None:
            setting.progress("sparsify", number + 1, len(setting.layers))
    return result


def _sparse_name(weights: Sparsified) -> str:
    zeros = 1 - np.count_nonzero(weights.matrices) / weights.matrices.size
    return f"{zeros:.0%} zero"


def _moments(layer: Layer, seen: Observations) -> Moments | None:
    """Second moments of what a layer multiplies, as far as data tell."""
    mean = seen.second_moments(layer)
    if mean is not None:
        return Moments(mean, mean)
    return Moments.of_rows(seen.rows[layer][:, 0])


def clusters(setting: Setting) -> list[Plan]:
    """Weights of few values, embeddings included: a plan for each number of bits."""
    plans = [Plan(limit=CLUSTER_ERROR, family="clusters") for _ in CLUSTER_BITS]
    seen = None if setting.runs is None else setting.observed(takes_moments=True)
    layers = [*setting.embeddings, *setting.layers]
    for number, layer in enumerate(layers):
        if not np.isfinite(layer.weights).all():
            for plan in plans:
                plan.refused[layer] = "its weights are not finite"
            continue
        _cluster(layer, plans, seen)
        if setting.progress is not None:
            setting.progress("cluster", number + 1, len(layers))
    return plans


def _cluster(layer: Layer, plans: Sequence[Plan], seen: Observations | None) -> None:
    """Give a layer its form in the plans of all numbers of bits."""
    if layer.is_embedding:
        for plan, bits in zip(plans, CLUSTER_BITS):
            table = np.asarray(codebook(layer.weights, bits).nearest(layer.weights), np.float32)
            plan.forms[layer] = ClusteredForm(table, bits)
            plan.errors[layer] = relative_error(table, layer.weights)
        return
    clustering = Clustering(layer, None if seen is None else Operands.of(layer, seen))
    for plan, bits in zip(plans, CLUSTER_BITS):
        chosen = clustering.of_bits(bits)
        weights = layer.in_layout(chosen.matrices)
        plan.forms[layer] = ClusteredForm(weights, bits, chosen.correction)
        plan.errors[layer], plan.calibrators[layer] = chosen.error, chosen.how


def _alone(method: Callable[[Setting], Plan]) -> Callable[[Setting], list[Plan]]:
    return lambda setting: [method(setting)]


PLANS: Mapping[type[Method], Callable[[Setting], list[Plan]]] = {
    Int8: _alone(_with_others(static_int8)),
    Int16Activations: _alone(_with_others(int16_activations)),
    Int8Dynamic: _alone(_with_others(dynamic_int8)),
    Int8Weights: _alone(_with_others(_weights_of(8))),
    Int4: _alone(_with_others(_weights_of(4), 4)),
    Int3: _alone(_with_others(_weights_of(3), 4)),
    Int2: _alone(_with_others(_weights_of(2), 4)),
    LowRank: low_rank,
    Clusters: clusters,
    Sparse: _alone(sparse),
    SparseInt8: _alone(_with_others(sparse_int8)),
}


def plans_of(method: Method, setting: Setting) -> list[Plan]:
    """The plans of a method, which are alternatives for each layer."""
    return PLANS[type(method)](setting)
