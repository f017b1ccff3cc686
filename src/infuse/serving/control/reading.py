"""How configurations are read: from YAML, typed and checked. An unknown field is an error that
names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from infuse.errors import ConfigurationError, OptionError
from infuse.options.serving import ServerChanges
from infuse.serving.config import ServerConfig
from infuse.serving.control.misspelt import meant
from infuse.serving.control.yamltext import Data, Key, read_yaml

_T = TypeVar("_T")
_UNKNOWN: Final = "fields are listed in docs/serving.md"


def parse(kind: type[_T], text: str | bytes, where: str) -> _T:
    """A configuration from YAML (or JSON) text; ConfigurationError names the field that is
    wrong.
    """
    plain = read_yaml(text, where)
    return convert(kind, {} if plain is None else plain, where)


def convert(kind: type[_T], plain: Data, where: str) -> _T:
    """A configuration from plain data; numbers as names of entries (`split: {1: 80}`) are texts."""
    try:
        return msgspec.convert(_named(plain, where), kind, strict=False, dec_hook=_decoded)
    except msgspec.ValidationError as error:
        raise ConfigurationError(
            str(error), where=where, hint=meant(kind, str(error)) or _UNKNOWN
        ) from error


def _named(plain: Data, where: str) -> Data:
    """The same with whole numbers that stand as keys as text; ConfigurationError for two that are
    one then.
    """
    if isinstance(plain, list | tuple):
        return [_named(value, where) for value in plain]
    if not isinstance(plain, Mapping):
        return plain
    named: dict[Key, Data] = {}
    for key, value in plain.items():
        name = str(key) if isinstance(key, int) and not isinstance(key, bool) else key
        if name in named:
            raise ConfigurationError(f"{name!r} is there twice", where=where)
        named[name] = _named(value, where)
    return named


def _decoded(kind: type, plain: Data | Path) -> Path:
    """What msgspec does not know: paths from text."""
    if kind is Path and isinstance(plain, str | Path):
        return Path(plain)
    raise TypeError(f"expected {kind.__name__}, got {type(plain).__name__}")


def read_plain(path: Path) -> dict[str, Any]:
    """The fields of a configuration file, not yet checked; ConfigurationError when it cannot be
    read or is no YAML.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"it cannot be read: {error.strerror or error}", where=str(path)
        ) from error
    return parse(dict[str, Any], text, str(path))


def value_of(text: str) -> Data:
    """A value as it is written in YAML: a number, a truth value, a list, or text."""
    try:
        return read_yaml(text, "")
    except ConfigurationError as error:
        raise ConfigurationError(f"{text[:100]!r} is not a value: {error.what}") from error


def changed_config(
    file: Path | None, changes: ServerChanges, repository: str | None = None
) -> ServerConfig:
    """The configuration of a server, of a file with changes; ConfigurationError for fields that it
    does not have, OptionError without a repository.
    """
    plain: dict[str, Any] = {} if file is None else read_plain(file)
    if repository is not None:
        plain["repository"] = repository
    for path, value in changes.to_dict().items():
        _put(plain, path, value)
    for text in changes.settings or ():
        path, equals, value = text.partition("=")
        if not equals:
            raise OptionError(f"--set {text!r} has no value", hint="write it as FIELD=VALUE")
        _put(plain, path, value_of(value))
    config = convert(ServerConfig, plain, str(file or "the command line"))
    if not config.repository:
        raise OptionError(
            "there is no repository to serve", hint="name a folder, or set repository in --config"
        )
    return config


def _put(plain: dict[str, Any], field: str, value: Data) -> None:
    """Set a field that is named by its path, as `limits.request_bytes`."""
    *outer, last = field.split(".")
    place = plain
    for name in outer:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            raise OptionError(
                f"{field}: {name} has no fields", hint="docs/serving.md lists the configuration"
            )
    place[last] = value
