"""All rules, in the order in which they are tried on a node."""

from __future__ import annotations

from infuse.passes.rules import (
    activations,
    arithmetic,
    attention,
    chains,
    convolution,
    heads,
    linear,
    motion,
    movement,
    noop,
    normalization,
    pooled,
    rowwise,
    shape,
)
from infuse.rewrite import Rule

MODULES = (
    *(noop, shape, movement, arithmetic, activations, convolution, linear, chains, pooled, normalization, rowwise),
    *(attention, heads, motion),
)
ALL_RULES: tuple[Rule, ...] = tuple(rule() for module in MODULES for rule in module.RULES)
