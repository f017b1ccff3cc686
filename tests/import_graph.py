"""Which modules import which, read off the sources."""

import ast
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {"infuse": ROOT / "src", "tests": ROOT, "benchmarks": ROOT}
"""Where each package lies."""


def module_of(path: Path) -> str:
    """The name of the module in a file."""
    for package, root in SOURCES.items():
        if path.is_relative_to(root / package):
            parts = path.relative_to(root).with_suffix("").parts
            return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    raise ValueError(f"{path} is in none of {', '.join(SOURCES)}")


def exists(module: str) -> bool:
    parts = module.split(".")
    path = SOURCES[parts[0]].joinpath(*parts)
    return path.with_suffix(".py").exists() or path.is_dir()


def targets(node: ast.AST, path: Path) -> Iterator[str]:
    """The modules of these packages that an import statement names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name.split(".")[0] in SOURCES)
    if isinstance(node, ast.ImportFrom):
        above: list[str] = []
        if node.level:
            package = module_of(path).split(".")
            package = package if path.name == "__init__.py" else package[:-1]
            above = package[: len(package) - node.level + 1]
        base = ".".join(above + ([node.module] if node.module else []))
        if base.split(".")[0] in SOURCES:
            for alias in node.names:
                deeper = f"{base}.{alias.name}"
                yield deeper if exists(deeper) else base


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all statements inside of it, without their expressions."""
    yield node
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, part, ()):
            yield from statements(inner)


@cache
def imports(path: Path) -> list[tuple[int, str]]:
    """(line, module) of every import of these packages in one file, also inside functions; a
    package that finds its modules by itself imports all below it.
    """
    source = path.read_text(encoding="utf-8")
    found = [
        (node.lineno, module)
        for node in statements(ast.parse(source))
        for module in targets(node, path)
        if hasattr(node, "lineno")
    ]
    if path.name == "__init__.py" and "iter_modules(" in source:
        below = sorted(set(path.parent.rglob("*.py")) - {path})
        found += [(1, module_of(other)) for other in below]
    return found


@lru_cache
def importers() -> dict[str, set[str]]:
    """By module those that import it."""
    found: dict[str, set[str]] = {}
    for package, root in SOURCES.items():
        for path in (root / package).rglob("*.py"):
            for _, module in imports(path):
                found.setdefault(module, set()).add(module_of(path))
    return found


def nearest(changed: set[str]) -> dict[str, int]:
    """By how many imports each module is away from the nearest of those that changed."""
    away = dict.fromkeys(changed, 0)
    new = list(changed)
    for module in new:
        for other in sorted(importers().get(module, ())):
            if other not in away:
                away[other] = away[module] + 1
                new.append(other)
    return away
