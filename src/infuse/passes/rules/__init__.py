"""All rules, in the order in which they are tried on a node."""

from __future__ import annotations

from infuse.passes.rules.activation import activations, approximate, written_out
from infuse.passes.rules.attention import attention, causal, heads, rotary
from infuse.passes.rules.backend import onnxruntime, onnxruntime_attention
from infuse.passes.rules.cleanup import (
    arithmetic,
    composed,
    noop,
    quantized,
    recurrent,
    reduction,
    tidy,
)
from infuse.passes.rules.convolution import convolution, pixels, pooled
from infuse.passes.rules.linear import (
    affine,
    batch_normalization,
    chains,
    convolution_chains,
    einsum,
    factors,
    grouped,
    linear,
    parallel,
)
from infuse.passes.rules.movement import (
    expansion,
    gathering,
    motion,
    movement,
    reshaping,
    shape,
)
from infuse.passes.rules.normalization import moments, normalization
from infuse.rewrite import Rule

MODULES = (
    *(
        noop,
        recurrent,
        tidy,
        expansion,
        shape,
        pixels,
        movement,
        arithmetic,
        factors,
        activations,
        composed,
        written_out,
        convolution,
        batch_normalization,
        affine,
    ),
    *(
        linear,
        einsum,
        chains,
        convolution_chains,
        parallel,
        pooled,
        grouped,
        approximate,
        normalization,
        moments,
        gathering,
    ),
    *(
        quantized,
        rotary,
        attention,
        causal,
        heads,
        reshaping,
        motion,
        reduction,
        onnxruntime,
        onnxruntime_attention,
    ),
)
ALL_RULES: tuple[Rule, ...] = tuple(rule() for module in MODULES for rule in module.RULES)
