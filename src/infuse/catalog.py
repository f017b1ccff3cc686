"""Which file of a package registers what, so that a process imports the files that it needs.

Operators, kernels and expansions register themselves when their files are imported. Which file has
which is noted while all are imported once, and is read from then on. The notes lie beside the
bytecode and are taken again when a file changes; a wheel brings its own (`python -m infuse.catalog
FOLDER` writes them for it).
"""

from __future__ import annotations

import json
import os
import pkgutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar

Key = tuple[str, str]
"""The domain and the name of an operator, or another pair of words."""
Thing = TypeVar("Thing")
SHIPPED: Final = "catalog.json"
"""The notes that a wheel brings, in the folder of the package."""
_NOTES: Final = f"catalog.{sys.implementation.cache_tag}.json"


class Catalog:
    """What the files of packages register, by key. The first package holds the others, and the
    notes.
    """

    def __init__(self, *packages: str) -> None:
        self.packages = packages
        self._noted: dict[Key, dict[str, int]] = {}
        """By key, the modules that register something, with what else is noted of it."""
        self._imported: set[Key] = set()
        self._has_all = False

    def note(self, key: Key, module: str, fact: int = 0) -> None:
        """Tell that a module registers something of this key, and a number that stands for it."""
        self._noted.setdefault(key, {})[module] = fact

    def owns(self, module: str) -> bool:
        """Whether a module belongs to the packages, or to those inside of them."""
        return module.startswith(tuple(f"{package}." for package in self.packages))

    def import_for(self, key: Key) -> None:
        """Import what registers something of this key."""
        if key in self._imported or self._has_all:
            return
        for module in self._index.get(key, ()):
            import_module(module)
        self._imported.add(key)

    def import_all(self) -> None:
        """Import all files of the packages."""
        if self._has_all:
            return
        self._has_all = True
        for package in self.packages:
            path = import_module(package).__path__
            for file in pkgutil.iter_modules(path, f"{package}."):
                if not file.ispkg:
                    import_module(file.name)

    def facts(self) -> Mapping[Key, int]:
        """The number that stands for each key; those of several modules are joined bit by bit."""
        facts: dict[Key, int] = {}
        for notes in (self._index, self._noted):
            for key, modules in notes.items():
                for fact in modules.values():
                    facts[key] = facts.get(key, 0) | fact
        return facts

    def __contains__(self, key: object) -> bool:
        return key in self._noted or key in self._index

    def __iter__(self) -> Iterator[Key]:
        return iter({**self._index, **self._noted})

    # -- notes -------------------------------------------------------------------------------------

    @cached_property
    def _index(self) -> Mapping[Key, Mapping[str, int]]:
        folder = self._folder
        shipped = _read(folder / SHIPPED)
        if shipped is not None:
            return _keys(shipped)
        files = self._files()
        notes = _read(folder / "__pycache__" / _NOTES)
        if notes is not None and notes.get("files") == files:
            return _keys(notes)
        self.import_all()
        _write(folder / "__pycache__" / _NOTES, {"files": files, "keys": self._own()})
        return self._noted

    def ship(self, folder: Path) -> Path:
        """Write the notes for a wheel of these very sources; the path where they belong in it."""
        self.import_all()
        home = Path(*self.packages[0].split("."), SHIPPED)
        (folder / home).parent.mkdir(parents=True, exist_ok=True)
        (folder / home).write_text(json.dumps({"keys": self._own()}), "utf-8")
        return home

    def _own(self) -> list[tuple[str, str, str, int]]:
        """What the packages' files register, which others may have done as well."""
        return [
            (*key, module, fact)
            for key, modules in self._noted.items()
            for module, fact in modules.items()
            if module.rpartition(".")[0] in self.packages
        ]

    @property
    def _folder(self) -> Path:
        return Path(import_module(self.packages[0]).__path__[0])

    def _files(self) -> list[list[Any]]:
        """Each file of the first package, and of those inside of it, with its size and the time
        when it was written.
        """
        return sorted(_stamps(self._folder))


class CatalogTable(Mapping[Key, Thing]):
    """What was registered, by key; the file that has it is imported when it is looked up."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._things: dict[Key, Thing] = {}

    def register(self, key: Key, thing: Thing, module: str, fact: int = 0) -> None:
        """Put a thing of a module in the table, in the place of an earlier one of its key: that of
        a module outside of the packages always counts.
        """
        if not self.catalog.owns(module):
            self.catalog.import_for(key)
        self._things[key] = thing
        self.catalog.note(key, module, fact)

    def registered(self) -> list[Thing]:
        """What was registered up to now."""
        return list(self._things.values())

    def __getitem__(self, key: Key) -> Thing:
        if key not in self._things:
            self.catalog.import_for(key)
        return self._things[key]

    def __contains__(self, key: object) -> bool:
        return key in self._things or key in self.catalog

    def __iter__(self) -> Iterator[Key]:
        return iter(self.catalog)

    def __len__(self) -> int:
        return sum(1 for _ in self.catalog)


def _stamps(folder: str | Path) -> Iterator[list[Any]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                stat = entry.stat()
                yield [entry.path, stat.st_size, stat.st_mtime_ns]
            elif entry.is_dir() and not entry.name.startswith("__"):
                yield from _stamps(entry.path)


def _keys(notes: Mapping[str, Any]) -> Mapping[Key, Mapping[str, int]]:
    index: dict[Key, dict[str, int]] = {}
    for domain, name, module, fact in notes["keys"]:
        index.setdefault((domain, name), {})[module] = fact
    return index


def _read(path: Path) -> dict[str, Any] | None:
    """Notes; None where there are none, or none that can be read."""
    try:
        notes = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return notes if isinstance(notes, dict) else None


def _write(path: Path, notes: Mapping[str, Any]) -> None:
    """Keep notes, but where the folder takes no files, as with bytecode: each process then takes
    its own.
    """
    if sys.dont_write_bytecode:
        return
    try:
        path.parent.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, suffix=".tmp", delete=False, encoding="utf-8"
        ) as file:
            json.dump(notes, file)
        Path(file.name).replace(path)
    except OSError:
        return
