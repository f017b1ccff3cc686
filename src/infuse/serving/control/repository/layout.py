"""Triton's layout of a repository: which files are which version of which model.

    name/1/model.onnx            also model.infuse, or one file or folder in any format that
                                 infuse.load takes, or a compiled model's files or folder
    name/config.yaml             or config.pbtxt; both optional; it may name files of labels in the
                                 folder
    name/model.onnx, name.onnx   a model with one version, 1 (with name.yaml or name.pbtxt in the
                                 root)

Folders whose names are no version numbers (text, a leading zero) and hidden files are passed over.
A version waits while it holds a file that ends in .tmp, .part, .partial, .crdownload or .filepart,
or while anything in it changes; an empty file `_SUCCESS`, written last, says that it is whole. Best
is to copy to a hidden name and to rename the folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final

from infuse.errors import ConfigurationError, RepositoryError
from infuse.serving.control.model_config import ModelConfig
from infuse.serving.control.repository.configs import FILES, ModelText, parse_config, read_config
from infuse.serving.control.repository.files import (
    FileEntry,
    Labels,
    Listing,
    ModelFiles,
    VersionFiles,
    check_name,
)
from infuse.serving.control.repository.labels import read_labels
from infuse.serving.control.repository.mains import ALONE, ENDINGS, main_of
from infuse.serving.messages import JsonObject

_VERSION: Final = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)
_UNFINISHED: Final = (".tmp", ".part", ".partial", ".crdownload", ".filepart")
_FINISHED: Final = "_SUCCESS"
_BESIDE: Final = (
    "",
    ".data",
    "_data",
    ".bin",
)  # what may follow the name of a model's file in the repository's root


@dataclass
class Shelf:
    """The part of a listing that belongs to one model; names are relative to its folder."""

    name: str
    files: list[FileEntry] = field(default_factory=list)
    folders: dict[str, float] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    single: bool = False  # files of the repository's root

    def versions(self) -> list[int]:
        """The numbers that its folders have, also those that cannot be read."""
        names = {path.partition("/")[0] for path in (*self.folders, *self.problems)}
        return sorted(int(name) for name in names if _VERSION.fullmatch(name))


@dataclass(frozen=True)
class Rules:
    """What the server's configuration says of models: defaults, size, and where compiled ones are
    let in.

    `settled`: whether a file that has the same stamp as before surely has the same content.
    `configs`: configurations by model's name that stand for those in the repository.
    """

    place: Callable[[str], str]
    read: Callable[[FileEntry], bytes]
    settled: Callable[[FileEntry], bool]
    defaults: JsonObject
    model_bytes: int
    compiled_allowed: bool
    configs: Mapping[str, str] = field(default_factory=dict)


Known = Mapping[str, tuple[Shelf, ModelFiles]]


def arrange(listing: Listing, rules: Rules, seen: Known) -> dict[str, tuple[Shelf, ModelFiles]]:
    """The models of a repository by name, each with its part of the listing; what is `seen` and
    unchanged is kept.

    A fault that may pass (`transient`) is raised, others are `problem`s.
    """
    result = {}
    for shelf in _shelves(listing):
        before, model = seen.get(shelf.name, (None, None))
        if (
            model is None
            or before != shelf
            or shelf.name in rules.configs
            or _unsettled(shelf, model, rules)
        ):
            model = _model(shelf, rules)
        result[shelf.name] = shelf, model
    return result


def _unsettled(shelf: Shelf, model: ModelFiles, rules: Rules) -> bool:
    """Whether a file that was read of it may have another content by now."""
    read = FILES | model.labels.files
    return any(
        not rules.settled(file) for file in shelf.files if file.name in read or model.problem
    )


def _shelves(listing: Listing) -> list[Shelf]:
    shelves = {path: Shelf(path) for path in listing.folders if "/" not in path}
    for path, changed in listing.folders.items():
        name, _, rest = path.partition("/")
        if rest:
            shelves[name].folders[rest] = changed
    rooted: list[FileEntry] = []
    for file in listing.files:
        name, _, rest = file.name.partition("/")
        if rest:
            shelves[name].files.append(replace(file, name=rest))
        else:
            rooted.append(file)
    for path, problem in listing.problems.items():
        name, _, rest = path.partition("/")
        if rest or not name.endswith((*ALONE, ".yaml", ".pbtxt")):
            shelves.setdefault(name, Shelf(name)).problems[rest] = problem
        else:
            stem = name.rpartition(".")[0]
            shelves.setdefault(stem, Shelf(stem)).problems[""] = f"{name}: {problem}"
    _add_single(shelves, rooted)
    return [shelves[name] for name in sorted(shelves)]


def _add_single(shelves: dict[str, Shelf], rooted: list[FileEntry]) -> None:
    """Models that are a file in the root, with what lies beside it under its name."""
    named = {file.name: file for file in rooted}
    for file in sorted(rooted, key=lambda entry: not entry.name.endswith(ALONE[0])):
        stem, dot, ending = file.name.rpartition(".")
        if dot + ending not in ALONE or not stem:
            continue
        if stem in shelves:
            shelves[stem].notes.append(
                f"{file.name} is passed over: something else is the model {stem!r} already"
            )
            continue
        shelf = shelves[stem] = Shelf(stem, single=True)
        beside = {f"{base}{tail}" for base in (file.name, stem) for tail in _BESIDE}
        shelf.files += [named[name] for name in sorted(beside & named.keys())]
        for kind in ("yaml", "yml", "pbtxt"):
            if config := named.get(f"{stem}.{kind}"):
                shelf.files.append(replace(config, name=f"config.{kind}"))


def _model(shelf: Shelf, rules: Rules) -> ModelFiles:
    source = rules.place("" if shelf.single else shelf.name)
    try:
        check_name(shelf.name)
        if problem := next(
            (shelf.problems[path] for path in shelf.problems if not _of_version(path)), ""
        ):
            raise RepositoryError(problem)
        if shelf.name in rules.configs:
            text = parse_config(
                shelf.name, rules.configs[shelf.name], "the configuration given", rules.defaults
            )
        else:
            configs = [file for file in shelf.files if file.name in FILES]
            text = read_config(shelf.name, configs, rules.read, rules.defaults)
        labels = read_labels(text.config, shelf.files, rules.read)
    except (RepositoryError, ConfigurationError) as error:
        if isinstance(error, RepositoryError) and error.transient:
            raise
        problem = f"{error.where}: {error.what}" if error.where else error.what
        return ModelFiles(shelf.name, ModelConfig(), "", {}, _hash(problem), problem, source=source)
    return _assemble(shelf, text, labels, rules, source)


def _assemble(
    shelf: Shelf, text: ModelText, labels: Labels, rules: Rules, source: str
) -> ModelFiles:
    own = [file for file in shelf.files if file.name not in FILES and not _of_version(file.name)]
    notes = [*shelf.notes, *text.notes, *_passed_over(shelf)]
    versions: dict[int, VersionFiles] = {}
    for number in shelf.versions():
        within = f"{number}/"
        inner = [
            replace(file, name=file.name[len(within) :])
            for file in shelf.files
            if file.name.startswith(within)
        ]
        times = (time for path, time in shelf.folders.items() if f"{path}/".startswith(within))
        problem = next(
            (f"{at}: {why}" for at, why in shelf.problems.items() if f"{at}/".startswith(within)),
            "",
        )
        place = rules.place(f"{shelf.name}/{number}")
        versions[number] = _version(
            VersionFiles(number, place, tuple(inner), "", "", False, max(times, default=0.0)),
            text,
            problem,
        )
    if not versions:
        folders = () if shelf.single else tuple(shelf.folders.values())
        alone = VersionFiles(1, source, tuple(own), "", "", False, max(folders, default=0.0))
        whole = _version(alone, text, "")
        if not whole.problem or whole.unfinished:
            versions, own = {1: whole}, []
    elif any(file.name.endswith(ENDINGS) for file in own):
        notes.append("model files beside the version folders are passed over")
    problem = (
        ""
        if versions
        else "it has no version: there is no model file, and no folder whose name is a number"
    )
    checked = {number: _check(version, text.config, rules) for number, version in versions.items()}
    print_of = _hash(text.fingerprint, labels.fingerprint)
    return ModelFiles(
        shelf.name,
        text.config,
        text.text,
        checked,
        print_of,
        problem,
        tuple(notes),
        tuple(own),
        source,
        labels,
    )


def _version(version: VersionFiles, text: ModelText, problem: str) -> VersionFiles:
    """`version` with its main file, marks and fingerprint."""
    unfinished = next((file.name for file in version.files if file.name.endswith(_UNFINISHED)), "")
    marks = {file.name for file in version.files} & {_FINISHED}
    files = tuple(
        file
        for file in version.files
        if not file.name.endswith(_UNFINISHED) and file.name != _FINISHED
    )
    main, compiled, missing = "", False, ""
    if text.config.pipeline is None:
        main, compiled, missing = main_of({file.name for file in files}, text.config.file)
    changed = max([version.changed, *(file.changed for file in version.files)])
    print_of = _hash(main, *(f"{file.name}\0{file.bytes}\0{file.stamp}" for file in files))
    return replace(
        version,
        files=files,
        fingerprint=print_of,
        main=main,
        compiled=compiled,
        changed=changed,
        finished=bool(marks),
        unfinished=unfinished,
        problem=problem or missing,
    )


def _check(version: VersionFiles, config: ModelConfig, rules: Rules) -> VersionFiles:
    """`version` with its problem, if the server's configuration does not let it in."""
    problem = version.problem
    if not problem and rules.model_bytes and version.bytes > rules.model_bytes:
        problem = (
            f"its files have {version.bytes} bytes, and limits.model_bytes allows "
            f"{rules.model_bytes}"
        )
    if not problem and version.compiled and not rules.compiled_allowed:
        problem = (
            "it is a compiled model, that is native code, and this repository is not trusted with "
            "that "
            "(security.compiled_folders can name it)"
        )
    return replace(version, problem=problem)


def _passed_over(shelf: Shelf) -> list[str]:
    """Notes on folders that look like versions and are none."""
    wrong = sorted(
        name for name in shelf.folders if name.isdigit() and not _VERSION.fullmatch(name)
    )
    return [
        f"the folder {name!r} is passed over: version numbers do not begin with 0" for name in wrong
    ]


def _of_version(path: str) -> bool:
    first, _, _ = path.partition("/")
    return _VERSION.fullmatch(first) is not None


def _hash(*parts: str) -> str:
    digest = sha256()
    for part in parts:
        digest.update(part.encode("utf-8", "surrogateescape") + b"\n")
    return digest.hexdigest()
