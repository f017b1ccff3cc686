"""Which patterns of tokens are taken."""

import re

import pytest

from infuse.errors import UnsupportedOperatorError
from infuse.ops.core.token_patterns import token_pattern

TEXT = "A cat_1, a-b 2024 it's été — 20245 [x]"


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"(?u)\b\w\w+\b", r"[a-z]{3,}", r"\b[a-z ]{5,}\b", r"\b[a-z]\w+", r"\w+|[^\w\s]"),
        *(r"\d{4}", r"(?i)[^]\s]+", "ba?", r"\b\d{1,4}\b|\S", r"[a-z'\-]{2,}", r"\[.\]"),
    ],
)
def test_classes_of_which_the_last_may_repeat(pattern: str) -> None:
    assert token_pattern(pattern).findall(TEXT) == re.findall(pattern, TEXT)


@pytest.mark.parametrize(
    "pattern",
    [
        *("", r"\w*", "a|", "(a)", "a++b", "[a", r"\w+\b", "a{200,}", "a?b?", "\\", "a{2,1}"),
        *("a+b", "a+?", "(?=a)", "(?x)a", "^a", "a$", r"\Aa", r"a\b\w+", r"\1", "[z-a]"),
    ],
)
def test_others_are_refused(pattern: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match="the pattern of tokens"):
        token_pattern(pattern)
