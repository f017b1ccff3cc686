"""All rules, in the order in which they are tried on a node."""

from __future__ import annotations

from infuse.passes.rules import (
    activations,
    affine,
    approximate,
    arithmetic,
    attention,
    causal,
    chains,
    composed,
    convolution,
    exchange,
    factors,
    flattening,
    gathering,
    grouped,
    heads,
    linear,
    moments,
    motion,
    movement,
    noop,
    normalization,
    onnxruntime,
    onnxruntime_attention,
    parallel,
    pixels,
    pooled,
    quantized,
    recurrent,
    rotary,
    rowwise,
    shape,
    slicing,
    tidy,
)
from infuse.rewrite import Rule

MODULES = (
    *(noop, recurrent, tidy, shape, pixels, movement, arithmetic, factors, activations, composed, convolution, affine),
    *(linear, chains, parallel, pooled, grouped, approximate, normalization, moments, rowwise, flattening, gathering),
    *(quantized, rotary, attention, causal, heads, motion, slicing, exchange, onnxruntime, onnxruntime_attention),
)
ALL_RULES: tuple[Rule, ...] = tuple(rule() for module in MODULES for rule in module.RULES)
