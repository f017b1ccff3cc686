"""Pages of reference: what is made of the code is up to date and whole."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import infuse.processing
import infuse.training
from infuse.cli.reference import pages, whole
from infuse.frontends.sklearn.calls import TABLE
from infuse.targets.platforms import PLATFORMS

DOCS = Path(__file__).parents[2] / "docs"
MADE = ("api_training.md", "api_processing.md", "api_serving.md", "estimators.md")


@pytest.mark.skipif(
    sys.version_info < (3, 11), reason="Python 3.10 writes some types in another way"
)
@pytest.mark.parametrize("name", MADE)
def test_pages_are_what_the_code_says(name: str) -> None:
    written = (DOCS / name).read_text(encoding="utf-8")
    assert written == whole(written, pages()[name]), "run python -m infuse.cli.reference docs"


def test_every_public_name_has_its_parameters() -> None:
    for page, module in (("training", infuse.training), ("processing", infuse.processing)):
        text = (DOCS / f"api_{page}.md").read_text(encoding="utf-8")
        for name in module.__all__:
            assert re.search(rf"^###? {name}$", text, re.MULTILINE), name
            assert name == "schedules" or f"```text\n{name}" in text, name
    text = (DOCS / "estimators.md").read_text(encoding="utf-8")
    assert {*re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)} == {name for name, _ in TABLE}
    guide = (DOCS / "frontends.md").read_text(encoding="utf-8")
    (count,) = re.findall(r"^## scikit-learn: (\d+) classes", text, re.MULTILINE)
    assert f"[{count} classes](estimators.md)" in guide


def test_the_page_of_platforms_names_every_target() -> None:
    text = (DOCS / "platforms.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| (`[\w-]+`[^|]*) \|[^|]*\|([^|]*)\|", text, re.MULTILINE)
    rows = {name: further for names, further in lines for name in re.findall(r"`([\w-]+)`", names)}
    assert rows.keys() >= {*PLATFORMS, "c"}
    for target, row in PLATFORMS.items():
        told = {*re.findall(r"`(\w+)`", rows[target])}
        assert told == {*row.further} or rows[target].startswith(" as on Linux")
    for path in re.findall(r"`(tests/[\w/.]+)`", text):
        assert (DOCS.parent / path).exists(), path
