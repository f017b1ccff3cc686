"""The order in which a graph is optimized: at each level the first passes, then the rules
(`rules/__init__.py` says in which order they are tried) until none fires, then the last passes;
all again until a round changes nothing.
"""

from __future__ import annotations

from infuse.passes.bodies import (
    InlineEqualBranches,
    InlineShortLoop,
    PassInvariantsBy,
    RemoveUnusedResults,
)
from infuse.passes.continuations import ContinueInBranches
from infuse.passes.cse import EliminateCommonSubexpressions
from infuse.passes.hoist import HoistFromBranches, HoistLoopInvariants
from infuse.passes.inline import InlineConstantIf
from infuse.passes.products import MergeProducts
from infuse.passes.sizes import ShortenSizes
from infuse.passes.split import SlicesAsSplit
from infuse.passes.squeezing import ChooseSqueezedAxes
from infuse.rewrite import Pass

FIRST: tuple[Pass, ...] = (InlineConstantIf(), InlineShortLoop())
"""Passes that run before the rules: these need not look at branches that are never taken."""
LAST: tuple[Pass, ...] = (
    EliminateCommonSubexpressions(),
    ShortenSizes(),
    SlicesAsSplit(),
    MergeProducts(),
    InlineEqualBranches(),
    HoistFromBranches(),
    HoistLoopInvariants(),
    PassInvariantsBy(),
    RemoveUnusedResults(),
    ChooseSqueezedAxes(),
    ContinueInBranches(),
)
"""Passes that run when the rules have come to rest, in this order."""
PASSES = (*FIRST, *LAST)
