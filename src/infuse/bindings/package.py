"""A package of another language: its files, and the table of languages."""

from __future__ import annotations

import keyword
import os
import pkgutil
import re
import shutil
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

from infuse.bindings import languages
from infuse.bindings.glue import glue
from infuse.bindings.interface import Interface, read_interface
from infuse.bindings.names import shown, words
from infuse.errors import OptionError, did_you_mean
from infuse.immutable import Immutable
from infuse.options.commands import BindOptions
from infuse.runtime.folder import HEADER, STATIC, WEIGHTS, publish

GLUE: Final = "binding.h"
LICENSE: Final = "LICENSE"
MARK: Final = "README.md"
_FIRST_LINE: Final = "<!-- made by infuse bind -->"
"""The first line of a package's README.md, by which a folder may be replaced."""
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")


class Package(Immutable):
    """What a package is made of: the model, and what the package is called."""

    interface: Interface
    name: str

    @property
    def fields(self) -> dict[str, str]:
        """The fields of templates that are the same in every language."""
        interface = self.interface
        return {
            "NAME": self.name,
            "P": interface.prefix,
            "ID": str(interface.id),
            "WORDS": str(interface.words),
            "SYMBOLS": str(len(interface.symbols)),
            "SYMBOLS_AT": str(interface.symbols_at),
            "SYMBOL_NAMES": ", ".join(map(shown, interface.symbols)) or "none",
        }


class BoundPackage(Immutable):
    """A package that was written: where, its files, and what else a user has to know."""

    folder: Path
    language: str
    name: str
    notes: tuple[str, ...]


class Language(Immutable):
    """How a package of a language is made.

    `texts`: its files that are text, by path. `headers`: where what all share goes (`GLUE`, with
    `model.h`), `static`: the static library, `weights`: the weights, where `@NAME@` is the name of
    the package. `finish`: builds what the package has besides, in its folder, and gives what a user
    has to know. `reserved`: what the package cannot be called.
    """

    name: str
    texts: Callable[[Package], Mapping[str, str]]
    headers: str = ""
    static: str = ""
    weights: str = ""
    reserved: frozenset[str] = frozenset()
    finish: Callable[[Package, Path], tuple[str, ...]] = lambda package, folder: ()


def table() -> dict[str, Language]:
    """All languages by name: each is a module of `languages`."""
    modules = (
        import_module(f"{languages.__name__}.{each.name}")
        for each in pkgutil.iter_modules(languages.__path__)
    )
    return {each.LANGUAGE.name: each.LANGUAGE for each in modules if hasattr(each, "LANGUAGE")}


def bind(
    folder: str | os.PathLike[str], output: str | os.PathLike[str], options: BindOptions
) -> BoundPackage:
    """Write a package of another language to the folder `output` that runs the compiled model in
    `folder`. OptionError for what cannot be bound, and an output that holds other things.
    """
    interface = read_interface(Path(folder))
    language = _language(options.language, interface)
    package = Package(interface, _name(options.name, interface, language))
    target = Path(output)
    _require_replaceable(target)
    notes: list[str] = []
    path = publish(target, lambda new: notes.extend(_write(package, language, new)))
    return BoundPackage(path, language.name, package.name, tuple(notes))


def _language(name: str, interface: Interface) -> Language:
    """The row of a language; OptionError where there is none, or not for the model's target."""
    web = interface.library.endswith(".wasm")
    if name in ("javascript", "typescript"):
        raise OptionError(
            "a model compiled for wasm32 is a package of JavaScript already",
            hint="install its folder"
            if web
            else "infuse compile MODEL -o FOLDER --target wasm32 makes one (docs/javascript.md)",
        )
    rows = table()
    if not name:
        choices = ", ".join(sorted(rows))
        raise OptionError("no language is named", hint=f"--language is one of {choices}")
    if name not in rows:
        near = did_you_mean(name, rows)
        choices = f"there are {', '.join(sorted(rows))}"
        raise OptionError(f"there are no bindings for {name!r}", hint=f"{near} {choices}".strip())
    if web:
        raise OptionError(
            f"a model compiled for wasm32 cannot be a package of {name}",
            hint="compile it for the system that the package runs on",
        )
    return rows[name]


def _name(stated: str | None, interface: Interface, language: Language) -> str:
    """What the package is called: as stated, else by the model's name."""
    reserved = language.reserved | set(keyword.softkwlist)
    if stated is not None:
        if not _NAME.fullmatch(stated) or stated in reserved:
            raise OptionError(
                f"{stated!r} cannot be the name of a package in {language.name}",
                hint="a name has small letters, digits and _, and is no word of the language",
            )
        return stated
    name = "_".join(words(str(interface.metadata.get("name") or "model")))[:40] or "model"
    if not _NAME.fullmatch(name) or name in reserved:
        name = f"model_{name}"
    return name


def _require_replaceable(output: Path) -> None:
    """OptionError unless the folder is free, empty, or a package that was made here."""
    if not output.exists():
        return
    if output.is_dir():
        mark = output / MARK
        is_package = mark.is_file() and mark.read_text("utf-8", "replace").startswith(_FIRST_LINE)
        if is_package or not any(output.iterdir()):
            return
    what = "a folder with other things in it" if output.is_dir() else "a file"
    raise OptionError(
        f"the output is {what}", where=str(output), hint="name a folder that does not exist yet"
    )


def _write(package: Package, language: Language, folder: Path) -> tuple[str, ...]:
    """Write all files of a package, and build what is to be built."""
    source = package.interface.folder
    texts = dict(language.texts(package))
    texts[MARK] = f"{_FIRST_LINE}\n{texts[MARK]}"
    texts[f"{language.headers}/{GLUE}"] = glue(package.interface)
    texts[f"{language.headers}/{HEADER}"] = (source / HEADER).read_text("utf-8")
    for path, text in texts.items():
        _with_folder(folder / path.lstrip("/")).write_text(text, "utf-8", newline="\n")
    shutil.copyfile(source / STATIC, _with_folder(folder / language.static / STATIC))
    if package.interface.weights_bytes:
        weights = folder / language.weights.replace("@NAME@", package.name)
        shutil.copyfile(source / WEIGHTS, _with_folder(weights / WEIGHTS))
    if (source / LICENSE).is_file():
        shutil.copyfile(source / LICENSE, folder / LICENSE)
    return language.finish(package, folder)


def _with_folder(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
