"""docs/glossary.md: one meaning a word, and the places that it names exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "glossary.md").read_text().splitlines()[6:]
]


def test_every_row_has_a_term_a_meaning_and_a_place() -> None:
    assert len(ROWS) > 50
    assert all(len(row) == 3 and all(row) for row in ROWS)


def test_terms_are_in_order_and_have_one_meaning() -> None:
    terms = [row[0] for row in ROWS]
    assert terms == sorted(set(terms))


def test_places_exist() -> None:
    places = {place for row in ROWS for place in re.findall(r"`([^`]+)`", row[2])}
    roots = (ROOT, ROOT / "src" / "infuse")
    assert not [place for place in places if not any((root / place).exists() for root in roots)]
