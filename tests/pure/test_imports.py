"""Who may import whom: the rule of docs/design.md, read off the sources."""

import ast
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.import_graph import imports as all_imports, module_of, targets

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "infuse"
FOLDERS = sorted(p.name for p in PACKAGE.iterdir() if p.is_dir() and any(p.rglob("*.py")))
FILES = {"errors", "dtypes", "mapped", "budgets", "immutable", "sources", "catalog"}
BASE = FILES | {"options"}
# Files beside the rooms that belong to one: the public surface is called `infuse`, and has a folder
# of its own, the program is part of `cli`.
SURFACE = (
    "__init__",
    "api",
    "compressing",
    "measuring",
    "peers",
    "dynamo",
    "dynamo_report",
    "onnxruntime",
)
PROGRAM = ("__main__",)
INNER = ("targets.c", "targets.cpu", "targets.text")
"""Folders inside of others that are rooms of their own."""
ROOMS = [*(name for name in FOLDERS if name not in SURFACE), *INNER]
SINGLE = {"infuse": SURFACE, "cli": PROGRAM, **{name: (name,) for name in FILES}}
ALL = [*ROOMS, *sorted(SINGLE.keys() - {"cli"})]
# None for no limit.
ALLOWED: dict[str, set[str] | None] = {
    "errors": set(),
    "dtypes": {"errors"},
    "mapped": set(),
    "immutable": set(),
    "sources": set(),
    "catalog": {"sources"},
    "budgets": {"errors"},
    "options": {"errors"},
    "ir": BASE,
    "ops": BASE | {"ir"},
    "tracing": BASE | {"ir", "ops"},
    "frontends": BASE | {"ir", "ops", "tracing"},
    "processing": BASE | {"ir", "ops", "tracing"},
    "exporters": BASE | {"ir", "ops"},
    "rewrite": BASE | {"ir"},
    "passes": BASE | {"ir", "ops", "rewrite"},
    "search": BASE | {"ir", "ops", "rewrite", "passes", "analysis"},
    "compression": BASE
    | {"ir", "ops", "passes", "analysis", "data", "targets", "lowering", "build", "runtime"}
    | {"profiling", "training"},
    # The writer of a compiled model's folder shares its format, and what a machine offers, with the
    # reader.
    "targets": BASE | {"ir", "ops", "runtime"},
    "lowering": BASE | {"ir", "ops", "runtime", "targets"},
    "targets.text": BASE | {"ir", "runtime", "targets", "lowering"},
    "targets.c": BASE | {"ir", "ops", "runtime", "targets", "targets.text", "lowering"},
    "targets.cpu": BASE | {"ir", "ops", "runtime", "targets", "targets.text", "lowering"},
    "build": BASE | {"ir", "ops", "runtime", "targets", "lowering"},
    "bindings": BASE | {"ir", "runtime", "targets", "targets.text", "build"},
    "language": BASE | {"ir", "ops", "tracing", "frontends", "build", "runtime"},
    "training": BASE | {"ir", "ops", "rewrite", "passes", "build", "runtime", "targets"},
    "analysis": BASE | {"ir", "ops"},
    "data": BASE | {"ir", "ops", "frontends"},
    "doctor": BASE | {"ir", "ops", "tracing", "frontends", "rewrite", "passes"},
    "profiling": BASE
    | {"ir", "ops", "analysis", "data", "lowering", "build", "runtime", "targets"},
    # For the interpreter between native stages, which one file alone may ask for (INTERPRETING).
    "runtime": BASE | {"ir", "ops"},
    "serving": BASE | {"runtime", "infuse", "processing"},
    "cli": None,
    "testing": None,
    "infuse": BASE
    | {
        "ir",
        "ops",
        "tracing",
        "frontends",
        "processing",
        "exporters",
        "rewrite",
        "passes",
        "compression",
        "lowering",
        "build",
        "bindings",
        "language",
        "analysis",
        "data",
        "profiling",
    }
    | {"search", "runtime", "targets", "doctor"},
}
# The rooms of `serving`, each with those that it may import besides what all of them share. The
# server puts the transports on, and nothing imports it.
SERVING: dict[str, set[str]] = {
    "load": {"transports"},
    "transports": {"engine", "control", "workers"},
    "engine": {"control", "workers"},
    "control": {"workers"},
    "workers": set(),
}
SHARED = ("config", "messages", "datatypes", "tuning")
COMPOSITION = "server"


INTERPRETING = PACKAGE / "runtime" / "hosted.py"


def room_of(module: str) -> str:
    """'infuse.ops.math' → 'ops'; the package itself and the files of the public surface →
    'infuse'.
    """
    parts = module.split(".")
    if ".".join(parts[1:3]) in INNER:
        return ".".join(parts[1:3])
    name = parts[1] if len(parts) > 1 else "__init__"
    return next((room for room, names in SINGLE.items() if name in names), name)


def imports(path: Path) -> list[tuple[int, str]]:
    """(line, module) of every import of this package in one file, also inside functions."""
    return [
        (line, module) for line, module in all_imports(path) if module.split(".")[0] == "infuse"
    ]


def files(room: str) -> list[Path]:
    """The sources of a room: those in its folders, and single files."""
    names = SINGLE.get(room, ())
    single = [PACKAGE / f"{name}.py" for name in names]
    folders = [PACKAGE.joinpath(*name.split(".")) for name in (room, *names)]
    found = [
        *sorted(path for folder in folders for path in folder.rglob("*.py")),
        *(path for path in single if path.exists()),
    ]
    return [path for path in found if room not in FOLDERS or room_of(module_of(path)) == room]


@lru_cache
def edges() -> dict[str, dict[str, str]]:
    """room → {room it imports: one place where it does}."""
    found: dict[str, dict[str, str]] = {}
    for room in ALL:
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


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Not inside functions either, nor for types only."""
    graph: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        module = module_of(path)
        graph[module] = {other for _, other in imports(path) if other != module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" ← ".join(error.args[1]))


def test_every_room_has_a_rule() -> None:
    assert set(ROOMS) <= set(ALLOWED)


def test_every_file_belongs_to_a_room() -> None:
    assert {path for room in ALL for path in files(room)} == set(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("room", ALL)
def test_room_imports_only_what_it_may(room: str) -> None:
    allowed = ALLOWED[room]
    wrong = {
        other: place
        for other, place in edges()[room].items()
        if other == "cli" or (allowed is not None and other not in allowed)
    }
    assert not wrong, f"{room} may not import {wrong}"


def test_one_file_of_the_runtime_asks_for_the_interpreter() -> None:
    for path in files("runtime"):
        rooms = {room_of(module) for _, module in imports(path)}
        assert path == INTERPRETING or not rooms & {"ir", "ops"}, path


def serving_edges() -> dict[str, dict[str, str]]:
    """Room or single file of `serving` → {others that it imports: one place where it does}."""
    found: dict[str, dict[str, str]] = {}
    for path in files("serving"):
        seen = found.setdefault(path.relative_to(PACKAGE / "serving").parts[0], {})
        for line, module in imports(path):
            parts = module.split(".")
            if parts[1:2] == ["serving"]:
                seen.setdefault([*parts, "__init__"][2], f"{path}:{line}")
    return {name.removesuffix(".py"): seen for name, seen in found.items()}


def test_serving_has_its_rooms_and_what_they_share() -> None:
    assert set(serving_edges()) == {*SERVING, *SHARED, COMPOSITION, "__init__"}


@pytest.mark.parametrize("room", [*SERVING, *SHARED])
def test_room_of_serving_imports_only_what_it_may(room: str) -> None:
    seen = serving_edges()[room]
    wrong = {other: place for other, place in seen.items() if other not in SHARED}
    for other in {room, *SERVING.get(room, ())}:
        wrong.pop(other, None)
    assert not wrong, f"{room} may not import {wrong}"


def test_no_circles() -> None:
    assert circle(edges()) == []


@pytest.mark.parametrize(
    ("module", "room"),
    [
        ("infuse", "infuse"),
        ("infuse.api", "infuse"),
        ("infuse.onnxruntime", "infuse"),
        ("infuse.onnxruntime.capi", "infuse"),
        ("infuse.__main__", "cli"),
        ("infuse.cli.main", "cli"),
        ("infuse.runtime.session", "runtime"),
        ("infuse.errors", "errors"),
        ("infuse.targets.base", "targets"),
        ("infuse.targets.cpu.emit.source", "targets.cpu"),
        ("infuse.targets.c.emitter", "targets.c"),
    ],
)
def test_modules_have_rooms(module: str, room: str) -> None:
    assert room_of(module) == room


def test_circles_are_found() -> None:
    assert circle({"a": {"b": ""}, "b": {"c": ""}, "c": {"a": ""}}) == ["a", "b", "c", "a"]
    assert circle({"a": {"b": "", "c": ""}, "b": {"c": ""}}) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import infuse.ops.math", ["infuse.ops.math"]),
        ("from infuse import ir, __version__", ["infuse.ir", "infuse"]),
        ("from infuse.api import load", ["infuse.api"]),
        ("from infuse.ir import Graph", ["infuse.ir"]),
        ("from ..ir import Graph", ["infuse.ir"]),
        ("from .. import ir", ["infuse.ir"]),
        ("from . import x", ["infuse.lowering"]),
        ("import numpy as np, os.path", []),
        ("from numpy import infuse", []),
    ],
)
def test_imports_are_read(source: str, expected: list[str]) -> None:
    (statement,) = ast.parse(source).body
    assert list(targets(statement, PACKAGE / "lowering" / "program.py")) == expected
