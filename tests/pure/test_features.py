"""docs/features.md lists every row of the product, and what it names exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from infuse.passes.order import PASSES
from infuse.passes.rules import ALL_RULES

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "features.md"
COUNTS = {"C": 10, "G": 39, "R": 9, "Z": 7, "A": 2, "S": 9, "E": 2, "L": 6, "X": 3}
IDS = [f"{letter}{number}" for letter, count in COUNTS.items() for number in range(1, count + 1)]
STATES = ("works", "partly", "not yet")
COVERED = re.findall(
    r"\w+", "C1 C5 C6 C7 C8 G1 G4 G5 G6 G8 G10 G11 G12 G13 G15 G18 G27 G33 G35 G36 R1 R2 R4"
)
"""Rows of which a first version must be there."""


class Row(NamedTuple):
    """A line of a table."""

    id: str
    what: str
    state: str
    where: list[str]
    tests: list[str]
    limits: str


def rows() -> list[Row]:
    lines = re.findall(r"^\| ([A-Z]\d+) \|(.*)\|$", PAGE.read_text("utf-8"), re.M)
    return [row(id, [cell.strip() for cell in rest.split(" |")]) for id, rest in lines]


def row(id: str, cells: list[str]) -> Row:
    what, state, where, tests, limits = cells
    return Row(id, what, state, paths(where), paths(tests), limits)


def paths(cell: str) -> list[str]:
    assert re.fullmatch(r"(`[^`]+`(, )?)*", cell), f"not a list of paths: {cell!r}"
    return re.findall(r"`([^`]+)`", cell)


def test_every_row_is_listed_once_in_order() -> None:
    assert [row.id for row in rows()] == IDS


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.id)
def test_what_a_row_names_exists(row: Row) -> None:
    assert row.what
    assert row.state in STATES
    for path in row.where:
        assert any((base / path).exists() for base in (ROOT / "src" / "infuse", ROOT)), path
    for path in row.tests:
        assert (ROOT / "tests" / path).is_file(), path
        assert Path(path).name.startswith("test_"), path


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.id)
def test_a_row_has_evidence_or_is_not_there(row: Row) -> None:
    is_there = row.state != "not yet"
    assert bool(row.where) == is_there
    assert bool(row.tests) == is_there
    assert row.limits or row.state != "partly", "say what is missing"


def test_rows_of_the_first_version_are_there() -> None:
    states = {row.id: row.state for row in rows()}
    assert [id for id in COVERED if states[id] == "not yet"] == []


def marks(path: Path) -> Iterator[str]:
    """The rows that a test file is marked with."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        is_mark = (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "row"
        )
        if is_mark and ast.unparse(node.func) == "pytest.mark.row":
            yield from (str(arg.value) for arg in node.args if isinstance(arg, ast.Constant))


def test_marked_tests_are_evidence_for_rows_that_are_there() -> None:
    states = {row.id: row.state for row in rows()}
    marked = {(id, path.name) for path in (ROOT / "tests").rglob("test_*.py") for id in marks(path)}
    assert len(marked) > 10
    assert {(id, name) for id, name in marked if states.get(id, "not yet") == "not yet"} == set()


def test_rules_deliver_rows_that_are_there() -> None:
    states = {row.id: row.state for row in rows()}
    delivered = {(id, each.name) for each in (*ALL_RULES, *PASSES) for id in each.rows}
    assert {(id, name) for id, name in delivered if states.get(id, "not yet") == "not yet"} == set()
