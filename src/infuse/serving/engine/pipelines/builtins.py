"""The built-in steps by name. A family's file is read when a pipeline uses it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from infuse.errors import ConfigurationError
from infuse.serving.engine.pipelines.ports import nearest
from infuse.serving.engine.pipelines.steps import Builtin, Options, Place
from infuse.serving.messages import JsonObject

# Name → file of its family, class.
BUILTINS: Final[Mapping[str, tuple[str, str]]] = {
    "decode_audio": ("audio", "DecodeAudio"),
    "decode_image": ("images", "DecodeImage"),
    "detokenize": ("text", "Detokenize"),
    "mean_pool": ("scores", "MeanPool"),
    "softmax": ("scores", "Softmax"),
    "tokenize": ("text", "Tokenize"),
    "topk_labels": ("scores", "TopkLabels"),
}


def load(name: str) -> type[Builtin[Options]]:
    """The class of a built-in step; ConfigurationError for an unknown name."""
    if name not in BUILTINS:
        raise ConfigurationError(f"there is no built-in '{name}'", hint=nearest(name, BUILTINS))
    file, kind = BUILTINS[name]
    builtin: type[Builtin[Options]] = getattr(
        importlib.import_module(f"infuse.serving.engine.pipelines.{file}"), kind
    )
    return builtin


def create(name: str, options: JsonObject, folders: Sequence[Path], where: str) -> Builtin[Options]:
    """A built-in step with its options checked and its files read; ConfigurationError when that
    fails.
    """
    try:
        kind = load(name)
    except ConfigurationError as error:
        error.within(where)
        raise
    return kind(options, Place(where, folders))
