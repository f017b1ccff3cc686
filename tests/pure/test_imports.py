"""Who may import whom: the rule of docs/design.md, read off the sources."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "infuse"
ROOMS = sorted(p.name for p in PACKAGE.iterdir() if p.is_dir() and any(p.rglob("*.py")))
BASE = {"errors", "dtypes"}
# `infuse` stands for the public surface (src/infuse/__init__.py), None for no limit.
ALLOWED: dict[str, set[str] | None] = {
    "errors": set(),
    "dtypes": {"errors"},
    "ir": BASE,
    "ops": BASE | {"ir"},
    "frontends": BASE | {"ir", "ops"},
    "exporters": BASE | {"ir", "ops"},
    "rewrite": BASE | {"ir"},
    "passes": BASE | {"ir", "ops", "rewrite"},
    "compress": BASE | {"ir", "ops", "rewrite", "passes"},
    "codegen": BASE | {"ir", "ops"},
    "analysis": BASE | {"ir", "ops"},
    "runtime": BASE,
    "serving": BASE | {"runtime", "infuse"},
    "cli": None,
    "testing": None,
}


def room_of(module: str) -> str:
    """'infuse.ops.math' → 'ops'; the package itself → 'infuse'."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "infuse"


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def exists(module: str) -> bool:
    path = PACKAGE.parent.joinpath(*module.split("."))
    return path.with_suffix(".py").exists() or path.is_dir()


def targets(node: ast.AST, path: Path) -> Iterator[str]:
    """The modules of this package that an import statement names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "infuse")
    if isinstance(node, ast.ImportFrom):
        package = module_of(path).split(".")
        if path.name != "__init__.py":
            package = package[:-1]
        above = package[: len(package) - node.level + 1] if node.level else []
        base = ".".join(above + ([node.module] if node.module else []))
        if base.split(".")[0] == "infuse":
            for alias in node.names:
                deeper = f"{base}.{alias.name}"
                yield deeper if exists(deeper) else base


def imports(path: Path) -> list[tuple[int, str]]:
    """(line, module) of every import of this package in one file, also inside functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        (node.lineno, module) for node in ast.walk(tree) for module in targets(node, path) if hasattr(node, "lineno")
    ]


def files(room: str) -> list[Path]:
    folder = PACKAGE / room
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{room}.py"]


def edges() -> dict[str, dict[str, str]]:
    """room → {room it imports: one place where it does}."""
    found: dict[str, dict[str, str]] = {}
    for room in [*ROOMS, *(b for b in sorted(BASE) if (PACKAGE / f"{b}.py").exists())]:
        seen = found.setdefault(room, {})
        for path in files(room):
            for line, module in imports(path):
                if room_of(module) != room:
                    seen.setdefault(room_of(module), f"{path.relative_to(PACKAGE)}:{line}")
    return found


def circle(graph: dict[str, dict[str, str]]) -> list[str]:
    """Some circle of the graph as a list of rooms, or []."""
    done: set[str] = set()

    def walk(room: str, path: list[str]) -> list[str]:
        if room in path:
            return [*path[path.index(room) :], room]
        if room in done:
            return []
        for other in graph.get(room, {}):
            if found := walk(other, [*path, room]):
                return found
        done.add(room)
        return []

    return next((found for room in graph if (found := walk(room, []))), [])


def test_every_room_has_a_rule() -> None:
    assert set(ROOMS) <= set(ALLOWED)


@pytest.mark.parametrize("room", ROOMS)
def test_room_imports_only_what_it_may(room: str) -> None:
    allowed = ALLOWED[room]
    wrong = {
        other: place
        for other, place in edges()[room].items()
        if other == "cli" or (allowed is not None and other not in allowed)
    }
    assert not wrong, f"{room} may not import {wrong}"


def test_no_circles() -> None:
    assert circle(edges()) == []


def test_circles_are_found() -> None:
    assert circle({"a": {"b": ""}, "b": {"c": ""}, "c": {"a": ""}}) == ["a", "b", "c", "a"]
    assert circle({"a": {"b": "", "c": ""}, "b": {"c": ""}}) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import infuse.ops.math", ["infuse.ops.math"]),
        ("from infuse import ir, __version__", ["infuse.ir", "infuse"]),
        ("from infuse.ir import Graph", ["infuse.ir"]),
        ("from ..ir import Graph", ["infuse.ir"]),
        ("from .. import ir", ["infuse.ir"]),
        ("from . import x", ["infuse.codegen"]),
        ("import numpy as np, os.path", []),
        ("from numpy import infuse", []),
    ],
)
def test_imports_are_read(source: str, expected: list[str]) -> None:
    (statement,) = ast.parse(source).body
    assert list(targets(statement, PACKAGE / "codegen" / "emit.py")) == expected
