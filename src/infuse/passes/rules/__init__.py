"""All rules, in the order in which they are tried on a node."""

from __future__ import annotations

from infuse.passes.rules import arithmetic, attention, convolution, linear, normalization, noop, shape
from infuse.rewrite import Rule

ALL_RULES: tuple[Rule, ...] = tuple(
    rule()
    for module in (noop, shape, arithmetic, convolution, linear, normalization, attention)
    for rule in module.RULES
)
