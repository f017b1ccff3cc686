"""docs/processing.md and its Chinese page name the blocks that there are; tests/pages runs them."""

import re

import pytest

import infuse.processing as p
from tests.pages.blocks import source

pytestmark = pytest.mark.row("C10")


@pytest.mark.parametrize("page", ["docs/processing.md", "docs/zh/processing.md"])
def test_the_page_names_what_there_is(page: str) -> None:
    text = source(page)
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", text, re.MULTILINE)
    assert rows
    assert not {name for row in rows for name in re.findall(r"`(\w+)`", row)} - {*p.__all__}
    assert not [name for name in p.__all__ if not re.search(rf"`{name}\b", text)]
