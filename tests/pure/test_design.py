"""The pages of the design: the map is that of the sources and short, every room has its page, and
every decision says against what, by which measurement, and what would change it.
"""

import re
from pathlib import Path

import pytest

from tests.pure.test_imports import ALLOWED, BASE, FOLDERS, PACKAGE

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
MAP = (DOCS / "design.md").read_text(encoding="utf-8")
TREE = re.findall(r"^  (\w+)/ +\S", MAP, re.MULTILINE)
ROOMS = sorted(path.stem for path in (DOCS / "rooms").glob("*.md") if path.stem != "index")
DECISIONS = sorted((DOCS / "decisions").glob("0*.md"))
SECTIONS = ["Chosen", "Against", "Measured", "What would change it"]
SUPPORT = ROOT / "tests" / "support"
ROOTS = [ROOT, PACKAGE, SUPPORT, *(p for p in PACKAGE.rglob("*") if p.is_dir())]
MOST_WORDS = {"design.md": 2200, "decisions": 400}


def table() -> dict[str, set[str] | None]:
    """The table of the page: room → rooms that it may import beside the common ones."""
    rows = re.findall(r"^\| (`.+?) \| ?(.*?) ?\|$", MAP, re.MULTILINE)
    return {
        room: None if text == "everything" else set(re.findall(r"`([a-z.]+)`", text)) & {*ALLOWED}
        for rooms, text in rows
        for room in re.findall(r"`([\w.]+)`", rooms)
    }


def test_the_table_is_the_rule() -> None:
    rule = {
        room: None if allowed is None else allowed - BASE
        for room, allowed in ALLOWED.items()
        if room not in BASE
    }
    assert table() == rule


def test_the_tree_has_every_folder() -> None:
    folders = sorted(p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name[0] not in "_.")
    assert sorted(TREE) == folders
    assert set(FOLDERS) <= set(TREE)


def test_the_map_is_short() -> None:
    assert len(MAP.split()) <= MOST_WORDS["design.md"]


def test_every_room_has_a_page() -> None:
    assert sorted(TREE) == ROOMS
    index = (DOCS / "rooms" / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[(\w+)\]\(\1\.md\)", index, re.MULTILINE) == TREE


@pytest.mark.parametrize("room", ROOMS)
def test_a_page_has_the_contracts_and_how_to_add(room: str) -> None:
    page = (DOCS / "rooms" / f"{room}.md").read_text(encoding="utf-8")
    heads = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    assert heads[0] == room
    assert {"Contracts", "Add to it"} <= set(heads)


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_has_its_four_parts(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    number = int(page.stem[:3])
    assert text.startswith(f"# {number}. ")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    assert len(text.split()) <= MOST_WORDS["decisions"]


def test_decisions_are_numbered_and_listed() -> None:
    assert [int(page.stem[:3]) for page in DECISIONS] == [*range(1, len(DECISIONS) + 1)]
    index = (DOCS / "decisions" / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\((0[\w-]+)\.md\)", index) == [page.stem for page in DECISIONS]


@pytest.mark.parametrize(
    "page",
    [*sorted((DOCS / "rooms").glob("*.md")), *DECISIONS, DOCS / "design.md"],
    ids=lambda page: page.stem,
)
def test_files_that_pages_name_exist(page: Path) -> None:
    named = re.findall(r"`([\w./-]+(?:/|\.(?:py|hpp|h|json|fbs|cpp)))`", page.read_text("utf-8"))
    assert not [name for name in named if not any((root / name).exists() for root in ROOTS)]
