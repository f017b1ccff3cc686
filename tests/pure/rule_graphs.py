"""Graphs on which rules fire, each built once for all tests."""

from functools import cache

import numpy as np

from infuse.rewrite import Rule
from infuse.testing.rule_cases import Case, cases


@cache
def cases_of(rule: Rule) -> tuple[Case, ...]:
    """The cases of a rule, which tests leave as they are."""
    return tuple(cases(rule, np.random.default_rng(0)))
