"""The rewriting engine: patterns, matcher, patches, driver and record. It knows no particular
rule.
"""

from infuse.rewrite.driver import Driver as Driver
from infuse.rewrite.explain import Explanation as Explanation, explain as explain
from infuse.rewrite.patch import Patch as Patch, remove_dead as remove_dead
from infuse.rewrite.record import (
    Improvement as Improvement,
    Report as Report,
    Rewrite as Rewrite,
    Search as Search,
)
from infuse.rewrite.rule import (
    Pass as Pass,
    Refusal as Refusal,
    Rule as Rule,
    require as require,
)
from infuse.rewrite.verdict import Guilty as Guilty, Verdict as Verdict
