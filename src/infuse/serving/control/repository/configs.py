"""A model's configuration: `config.yaml` or `config.pbtxt` over the server's defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from infuse.errors import ConfigurationError
from infuse.serving.control.model_config import ModelConfig
from infuse.serving.control.reading import convert
from infuse.serving.control.repository.files import FileEntry
from infuse.serving.control.repository.pbtxt import read_message, read_pbtxt
from infuse.serving.control.repository.tritonjson import is_triton, to_message
from infuse.serving.control.yamltext import MOST_BYTES, read_yaml
from infuse.serving.messages import JSON, JsonObject

FILES: Final = frozenset({"config.yaml", "config.yml", "config.pbtxt"})


@dataclass(frozen=True)
class ModelText:
    """A model's configuration, the text that it was read from, and what in it has no effect
    here.
    """

    config: ModelConfig
    text: str
    notes: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """It changes when the text does."""
        return sha256(self.text.encode()).hexdigest()


def read_config(
    name: str,
    files: Sequence[FileEntry],
    read: Callable[[FileEntry], bytes],
    defaults: JsonObject,
) -> ModelText:
    """The configuration of the model `name` from the files that were found; ConfigurationError if
    it is not one.
    """
    if len(files) > 1:
        names = " and ".join(sorted(file.path.rpartition("/")[2] for file in files))
        raise ConfigurationError(f"there are both {names}", hint="keep one of them")
    if not files:
        return parse_config(name, "", "", defaults)
    file = files[0]
    if file.bytes > MOST_BYTES:
        raise ConfigurationError(
            f"it has {file.bytes} bytes, and at most {MOST_BYTES} are read", where=file.path
        )
    try:
        text = read(file).decode()
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"it is not UTF-8 text: {error.reason}", where=file.path
        ) from error
    return parse_config(name, text, file.path, defaults)


def parse_config(name: str, text: str, where: str, defaults: JsonObject) -> ModelText:
    """The configuration that `text` is: protobuf's text format if `where` ends in .pbtxt, else YAML
    or JSON.

    With the fields of Triton's configuration, it is taken for one of those. `where` stands in
    messages.
    """
    notes: tuple[str, ...] = ()
    if where.endswith(".pbtxt"):
        plain, notes = read_pbtxt(text, where)
    elif is_triton(plain := _read_yaml(text, where)):
        plain, notes = read_message(to_message(plain, where), where)
    config = convert(ModelConfig, _merge(defaults, plain), where or "model_defaults")
    if config.name not in ("", name):
        raise ConfigurationError(
            f"it is for the model {config.name[:100]!r}, and lies with the model {name!r}",
            where=where,
        )
    return ModelText(config, text, notes)


def _read_yaml(text: str, where: str) -> dict[str, JSON]:
    plain = read_yaml(text, where)
    if plain is None:
        return {}
    if not isinstance(plain, dict):
        raise ConfigurationError("it is not a table of fields", where=where)
    return plain


def _merge(below: JsonObject, above: JsonObject) -> dict[str, JSON]:
    """`above` over `below`, tables field by field."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = (
            _merge(under, value)
            if isinstance(under, Mapping) and isinstance(value, Mapping)
            else value
        )
    return merged
