"""All rules, in the order in which they are tried on a node."""

from __future__ import annotations

from infuse.passes.rules import (
    activations,
    arithmetic,
    attention,
    chains,
    composed,
    convolution,
    gathering,
    factors,
    heads,
    linear,
    motion,
    movement,
    noop,
    normalization,
    parallel,
    pooled,
    rowwise,
    shape,
)
from infuse.rewrite import Rule

MODULES = (
    *(noop, shape, movement, arithmetic, factors, activations, composed, convolution, linear, chains, pooled),
    *(parallel, normalization, rowwise, gathering, attention, heads, motion),
)
ALL_RULES: tuple[Rule, ...] = tuple(rule() for module in MODULES for rule in module.RULES)
