"""Which file of a package registers what, so that a process imports the files that it needs.

Operators, kernels and expansions register themselves when their files are imported. Which file has
which is noted while all are imported once, and is read from then on. The notes lie beside the
bytecode and are taken again when a source changes; a wheel brings its own.
"""

from __future__ import annotations

import json
import os
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import RLock
from typing import Any, Final, TypeVar

from infuse.sources import stamp

Key = tuple[str, str]
"""The domain and the name of an operator, or another pair of words."""
Notes = dict[Key, dict[str, int]]
"""By key, the modules that register something, with the number that each noted of it."""
Thing = TypeVar("Thing")
SHIPPED: Final = "catalog.json"
"""The notes that a wheel brings, in the folder of the package."""
_ROOMS: Final = ("ops", "tracing", "lowering", "targets")
"""Where things are registered."""
_NOTES: Final = f"catalog.{sys.implementation.cache_tag}.json"


CATALOGS: Final[list[Catalog]] = []
"""All that there are, of the modules that were imported."""


class Catalog:
    """What the files of packages register, by key. The first package holds the others, and the
    notes. Threads may share it.
    """

    def __init__(self, *packages: str) -> None:
        self.packages = packages
        CATALOGS.append(self)
        self._noted: Notes = {}
        self._index: Notes | None = None
        self._imported: set[Key] = set()
        self._has_all = self._takes_notes = False
        self._lock = RLock()

    def note(self, key: Key, module: str, fact: int = 0) -> None:
        """Tell that a module registers something of this key, and a number that stands for it."""
        self._noted.setdefault(key, {})[module] = fact

    def note_class(self, kind: type, module: str) -> None:
        """Tell that a module registers something of a class."""
        self.note(_of_class(kind), module)

    def owns(self, module: str) -> bool:
        """Whether a module belongs to the packages, or to those inside of them."""
        return module.startswith(tuple(f"{package}." for package in self.packages))

    def import_for(self, key: Key) -> None:
        """Import what registers something of this key."""
        if self._has_all or key in self._imported:
            return
        with self._lock:
            for module in list(self._notes().get(key, ())):
                import_module(module)
            self._imported.add(key)

    def import_for_class(self, kind: type) -> None:
        """Import what registers something of a class or its bases."""
        for each in kind.__mro__:
            self.import_for(_of_class(each))

    def import_all(self) -> None:
        """Import all files of the packages."""
        if self._has_all:
            return
        with self._lock:
            for package in self.packages:
                path = import_module(package).__path__
                for file in pkgutil.iter_modules(path, f"{package}."):
                    if not file.ispkg:
                        import_module(file.name)
            self._has_all = True

    def facts(self) -> Mapping[Key, int]:
        """The number that stands for each key; those of several modules are joined bit by bit."""
        facts: dict[Key, int] = {}
        for notes in (self._notes(), self._noted):
            for key, modules in list(notes.items()):
                for fact in modules.values():
                    facts[key] = facts.get(key, 0) | fact
        return facts

    def __contains__(self, key: object) -> bool:
        return key in self._noted or key in self._notes()

    def __iter__(self) -> Iterator[Key]:
        return iter({**self._notes(), **self._noted})

    # -- notes -------------------------------------------------------------------------------------

    def _notes(self) -> Notes:
        """What each file registers; to one that is imported to take notes, what there is so far."""
        if self._index is None:
            with self._lock:
                if self._takes_notes:
                    return self._noted
                self._takes_notes = True
                try:
                    self._index = self._index or self._read()
                finally:
                    self._takes_notes = False
        return self._index

    def _read(self) -> Notes:
        folder = Path(import_module(self.packages[0]).__path__[0])
        shipped = _load(folder / SHIPPED)
        if shipped is not None:
            return _by_key(shipped)
        sources = stamp()
        notes = _load(folder / "__pycache__" / _NOTES)
        if notes is not None and notes.get("sources") == sources:
            return _by_key(notes)
        self.import_all()
        _store(folder / "__pycache__" / _NOTES, {"sources": sources, "keys": self._own()})
        return self._noted

    def shipped(self) -> tuple[Path, str]:
        """The notes for a wheel of these very sources, and where they lie in it."""
        self.import_all()
        home = Path(*self.packages[0].split("."), SHIPPED)
        return home, json.dumps({"keys": self._own()})

    def _own(self) -> list[tuple[str, str, str, int]]:
        """What the packages' files register, which others may have done as well."""
        return [
            (*key, module, fact)
            for key, modules in self._noted.items()
            for module, fact in modules.items()
            if module.rpartition(".")[0] in self.packages
        ]


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


def ship(folder: str | Path) -> None:
    """Write the notes of all catalogs as files that belong into a wheel of these very sources."""
    for room in _ROOMS:
        package = import_module(f"infuse.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    for catalog in CATALOGS:
        home, notes = catalog.shipped()
        (Path(folder) / home).parent.mkdir(parents=True, exist_ok=True)
        (Path(folder) / home).write_text(notes, "utf-8")


def calling_module() -> str:
    """The module whose code calls the function that calls this."""
    return str(sys._getframe(2).f_globals["__name__"])


def _of_class(kind: type) -> Key:
    return kind.__module__, kind.__qualname__


def _by_key(notes: Mapping[str, Any]) -> Notes:
    index: Notes = {}
    for domain, name, module, fact in notes["keys"]:
        index.setdefault((domain, name), {})[module] = fact
    return index


def _load(path: Path) -> dict[str, Any] | None:
    """Notes; None where there are none, or none that can be read."""
    try:
        notes = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return notes if isinstance(notes, dict) else None


def _store(path: Path, notes: Mapping[str, Any]) -> None:
    """Keep notes, but where the folder takes no files, as with bytecode: each process then takes
    its own.
    """
    if sys.dont_write_bytecode:
        return
    whole = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        path.parent.mkdir(exist_ok=True)
        whole.write_text(json.dumps(notes), "utf-8")
        whole.replace(path)
    except OSError:
        with suppress(OSError):  # as of a file system that nobody writes to
            whole.unlink()
