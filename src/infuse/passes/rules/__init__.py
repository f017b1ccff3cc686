"""All rules, in the order in which they are tried on a node."""

from __future__ import annotations

from infuse.passes.rules.activation import activations, approximate, written_out
from infuse.passes.rules.attention import attention, causal, heads, rotary, rotary_halves
from infuse.passes.rules.backend import (
    onnxruntime,
    onnxruntime_attention,
    onnxruntime_embedding,
    onnxruntime_products,
)
from infuse.passes.rules.cleanup import (
    arithmetic,
    composed,
    noop,
    numbers,
    quantized,
    recurrent,
    reduction,
    scalars,
    tidy,
)
from infuse.passes.rules.convolution import blocks, convolution, pixels, pooled, taps
from infuse.passes.rules.linear import (
    affine,
    batch_normalization,
    chains,
    convolution_chains,
    einsum,
    factors,
    grouped,
    linear,
    operands,
    parallel,
)
from infuse.passes.rules.movement import (
    expansion,
    gathering,
    motion,
    movement,
    reshaping,
    shape,
    tables,
)
from infuse.passes.rules.normalization import moments, normalization, sums
from infuse.rewrite import Rule

MODULES = (
    scalars,
    noop,
    recurrent,
    tidy,
    expansion,
    shape,
    blocks,
    pixels,
    movement,
    arithmetic,
    numbers,
    factors,
    activations,
    composed,
    written_out,
    convolution,
    taps,
    batch_normalization,
    affine,
    linear,
    operands,
    einsum,
    chains,
    convolution_chains,
    parallel,
    pooled,
    grouped,
    approximate,
    normalization,
    moments,
    sums,
    gathering,
    tables,
    quantized,
    rotary,
    rotary_halves,
    attention,
    causal,
    heads,
    reshaping,
    motion,
    reduction,
    onnxruntime,
    onnxruntime_products,
    onnxruntime_embedding,
    onnxruntime_attention,
)
ALL_RULES: tuple[Rule, ...] = tuple(rule() for module in MODULES for rule in module.RULES)
