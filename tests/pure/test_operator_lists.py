"""What operators have in common stands on their classes (`ops/core/traits.py`), in no list
elsewhere.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import infuse
from infuse.ops.core.base import REGISTRY

PACKAGE = Path(infuse.__file__).parent
NAMES = {name for _, name in REGISTRY}
FEW = 5
"""Operators that a literal may name."""


def lists(source: str) -> Iterator[tuple[int, set[str]]]:
    """Literals that name more than `FEW` operators, also texts that are split: line and names."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            elements = [e.value for e in node.elts if isinstance(e, ast.Constant)]
            names = {e for e in elements if isinstance(e, str)} & NAMES
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = node.value.split()
            names = set(words) & NAMES if set(words) <= NAMES else set()
        else:
            continue
        if len(names) > FEW:
            yield node.lineno, names


def rooms() -> list[Path]:
    own = ("ops", "tracing", "frontends", "exporters", "doctor")  # doctor: of other runtimes
    paths = PACKAGE.rglob("*.py")
    return [path for path in paths if path.relative_to(PACKAGE).parts[0] not in own]


def test_no_room_but_ops_lists_operators() -> None:
    places = {
        f"{path.relative_to(PACKAGE)}:{line}": sorted(names)
        for path in rooms()
        for line, names in lists(path.read_text())
    }
    assert not places, "state a trait on these operators (ops/core/traits.py)"


def test_the_test_sees_lists_and_texts() -> None:
    source = (
        'A = ("Add", "Sub", "Mul", "Div", "Max", "Min")\nB = "Add Sub Mul Div Max Min".split()\n'
    )
    assert [line for line, _ in lists(source)] == [1, 2]
    assert not list(lists('A = ("Add", "Sub", "Mul", "Div", "Max", "other")'))
