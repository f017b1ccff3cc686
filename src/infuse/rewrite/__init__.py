"""The rewriting engine: patterns, matcher, patches, driver and record. It knows no particular
rule.
"""

from infuse.rewrite.driver import Driver
from infuse.rewrite.explain import Explanation, explain
from infuse.rewrite.patch import Patch, remove_dead
from infuse.rewrite.record import Improvement, Report, Rewrite, Search
from infuse.rewrite.rule import LEVELS, Pass, Refusal, Rule, require
from infuse.rewrite.verdict import Guilty, Verdict

__all__ = [
    "LEVELS",
    "Driver",
    "Explanation",
    "Guilty",
    "Improvement",
    "Pass",
    "Patch",
    "Refusal",
    "Report",
    "Rewrite",
    "Rule",
    "Search",
    "Verdict",
    "explain",
    "remove_dead",
    "require",
]
