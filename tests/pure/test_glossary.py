"""docs/glossary.md: one meaning a word, the places that it names exist, and the classes that a user
meets are in it.
"""

import re
from pathlib import Path

import infuse
from infuse import options, training
from infuse.options.fields import Checked

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


def test_classes_that_a_user_meets_are_terms() -> None:
    shown = {name for name in infuse.__all__ if isinstance(getattr(infuse, name), type)}
    shown |= {name for name, kind in vars(options).items() if is_option(kind)}
    shown |= {kind.__name__ for kind in (training.TrainOptions, training.Watch)}
    terms = {row[0].strip("`") for row in ROWS}
    assert len(shown) > 25
    assert not shown - terms


def is_option(kind: object) -> bool:
    """An options class that is made by users: not the base of others."""
    return isinstance(kind, type) and issubclass(kind, Checked) and not kind.__subclasses__()


def test_links_lead_to_pages() -> None:
    links = {link for row in ROWS for link in re.findall(r"\]\(([^)#]+)", row[2])}
    assert "options.md" in links
    assert not [link for link in links if not (ROOT / "docs" / link).exists()]
