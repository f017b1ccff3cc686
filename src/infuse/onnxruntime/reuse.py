"""What a session compiled before, found by the content of the model: then nothing of the compiler
is imported.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from threading import Thread
from typing import Any, Final

from infuse.errors import InfuseError, ModelFileError
from infuse.onnxruntime.options import (
    SessionOptions,
    asks_to_compile_otherwise,
    compile_fields,
)
from infuse.options import PRECISIONS
from infuse.runtime.build_keys import key_of
from infuse.runtime.checked import settled_identity, sha256_of
from infuse.runtime.cpus import available_cpus
from infuse.runtime.extensions import is_extended
from infuse.runtime.interface import COMPILED, PREBUILT, Model
from infuse.runtime.model import CompiledModel
from infuse.runtime.places import cache_root
from infuse.runtime.recorded import recorded_model
from infuse.runtime.records import Records
from infuse.runtime.swapping import SwappingModel

_MOST: Final = 4096
_TIERS: Final = (COMPILED, PREBUILT)


class Reuse:
    """The record of one session's model: which compiled folder came of its content and options.

    Nothing is recorded where the result depends on more: packages or the program extend Infuse,
    initializers are replaced, kernels are measured, a file or a profile is to be written, the
    interpreter runs a part, or inputs have defaults (of which a session warns).
    """

    def __init__(
        self, source: Any, options: SessionOptions, precision: str, threads: int | None
    ) -> None:
        self._records = Records(cache_root() / "sessions", _MOST)
        self._source = source
        self._compile = compile_fields(options)["compile"]
        self._settings: dict[str, Any] | None = None
        if not _is_plain(source, options, precision) or is_extended():
            return
        self._settings = {
            "level": int(options.graph_optimization_level),
            "threads": threads or available_cpus(),
            "precision": precision,
            "sizes": dict(options._sizes),
            "denoted": dict(options._denoted_sizes),
        }
        is_file = isinstance(source, str)
        self._size = Path(source).stat().st_size if is_file else len(source)
        self._identity = settled_identity(Path(source)) if is_file else None
        self._hashing = _Hashing(source, self._identity)
        self._may_be_there = self._records.has_any(self._prefix)
        if is_file and self._identity is None:
            self._hashing.result()

    @property
    def _prefix(self) -> str:
        """What the names of records of models of this size begin with."""
        return f"{self._size:x}-"

    @cached_property
    def _names(self) -> dict[str, str]:
        """The records' names, by tier; none where nothing is recorded."""
        if self._settings is None:
            return {}
        content = self._hashing.result()
        keys = {tier: content and key_of(content, tier, self._settings) for tier in _TIERS}
        return {tier: self._prefix + key for tier, key in keys.items() if key}

    def load(self) -> CompiledModel | None:
        """The model that was compiled before, or, where it need not be, the one of prebuilt
        kernels; None where there is none, or its files changed.
        """
        if self._settings is None or not self._may_be_there:
            return None
        tiers = [COMPILED] * (self._compile != "never") + [PREBUILT] * (self._compile != "wait")
        return next(filter(None, map(self._load, tiers)), None)

    def _load(self, tier: str) -> CompiledModel | None:
        record = self._records.read(self._names[tier]) if self._names else None
        try:
            if record is None or not self._is_same(record["files"]):
                return None
        except (OSError, LookupError, TypeError, ValueError, InfuseError):
            return None
        return recorded_model(record)

    def _is_same(self, files: Mapping[str, str]) -> bool:
        """Whether the files beside the model that its data lies in have the content of then."""
        return all(_digest(str(self._beside(name))) == digest for name, digest in files.items())

    def _beside(self, name: str) -> Path:
        return Path(self._source).parent / name

    def _has_changed(self) -> bool:
        if self._settings is None or not isinstance(self._source, str):
            return False
        if self._identity is not None and self._identity == settled_identity(Path(self._source)):
            return False
        return _digest(self._source) != self._hashing.result()

    def require_unchanged(self) -> None:
        """ModelFileError where the file is another than when the session began."""
        if self._has_changed():
            raise ModelFileError(
                "the file was changed after a session began with it",
                where=self._source,
                hint="begin another session",
            )

    def keep(self, model: Model) -> None:
        """Record the forms that a model has and will have, unless the file was changed
        meanwhile.
        """
        if isinstance(model, SwappingModel):
            model.when_swapped(self.keep)
            model = model.current
        if not isinstance(model, CompiledModel) or not self._names:
            return
        if any(spec.optional for spec in model.inputs) or self._has_changed():
            return
        names = _external_names(self._source) if isinstance(self._source, str) else []
        files = {name: _digest(str(self._beside(name))) for name in names}
        record = {"folder": str(model.folder), "threads": model.threads, "files": files}
        self._records.write(self._names[model.tier], record)


class _Hashing:
    """The SHA-256 of a model, computed by a thread beside what reads it; nothing where the file has
    not the identity that it had before (None: any).
    """

    def __init__(self, source: str | bytes, identity: list[int] | None) -> None:
        self._source, self._identity, self._digest = source, identity, ""
        self._error: OSError | None = None
        self._thread = Thread(target=self._hash, name="infuse-hashing")
        self._thread.start()

    def _hash(self) -> None:
        try:
            digest = _digest(self._source)
        except OSError as error:
            self._error = error
            return
        if self._identity is None or self._identity == settled_identity(Path(str(self._source))):
            self._digest = digest

    def result(self) -> str:
        """The digest; OSError where the file cannot be read."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._digest


def _external_names(path: str) -> list[str]:
    """The files beside an ONNX model that its data lies in."""
    from infuse.frontends.onnx.external import external_files

    return [os.path.relpath(file, Path(path).parent) for file in external_files(path)]


def _is_plain(source: Any, options: SessionOptions, precision: str) -> bool:
    is_file = isinstance(source, str) and source.endswith(".onnx") and Path(source).is_file()
    more = (options._initializers, options._external, options._files, options._entries.names())
    asked = (options.optimized_model_filepath, options.enable_profiling)
    if precision not in PRECISIONS or asks_to_compile_otherwise(options):
        return False
    return (is_file or isinstance(source, bytes)) and not any(more + asked)


def _digest(source: str | bytes) -> str:
    """The SHA-256 of a file, by its path, or of bytes."""
    return (
        sha256_of(Path(source)) if isinstance(source, str) else hashlib.sha256(source).hexdigest()
    )
