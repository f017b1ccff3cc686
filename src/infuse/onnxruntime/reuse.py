"""What a session compiled before, found by the content of the model: then nothing of the compiler
is imported.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from infuse.errors import InfuseError
from infuse.onnxruntime.options import SessionOptions, asks_to_compile_otherwise
from infuse.options import PRECISIONS
from infuse.runtime.build_keys import key_of
from infuse.runtime.checked import sha256_of
from infuse.runtime.cpus import available_cpus
from infuse.runtime.interface import Model
from infuse.runtime.model import CompiledModel
from infuse.runtime.places import cache_root
from infuse.runtime.records import Records

_MOST: Final = 4096


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
        self._source, self._content, self._key = source, "", ""
        if _is_plain(source, options, precision) and not _is_extended():
            settings = {
                "level": int(options.graph_optimization_level),
                "threads": threads or available_cpus(),
                "precision": precision,
                "sizes": options._sizes,
                "denoted": options._denoted_sizes,
            }
            self._content = _digest(source)
            self._key = key_of(self._content, "", settings)

    def load(self) -> CompiledModel | None:
        """The model that was compiled before; None where there is none, or its files changed."""
        record = self._records.read(self._key) if self._key else None
        try:
            if record is None or not self._is_same(record["files"]):
                return None
            folder = Path(record["folder"])
            model = CompiledModel.load(folder, record["threads"])
        except (OSError, LookupError, TypeError, ValueError, InfuseError):
            # a record of what is there no more: compiling says what is wrong, if anything is
            return None
        with suppress(OSError):  # a read-only cache does not keep the time of use
            os.utime(folder)
        return model

    def _is_same(self, files: Mapping[str, str]) -> bool:
        """Whether the files beside the model that its data lies in have the content of then."""
        return all(_digest(str(self._beside(name))) == digest for name, digest in files.items())

    def _beside(self, name: str) -> Path:
        return Path(self._source).parent / name

    def _has_changed(self) -> bool:
        return isinstance(self._source, str) and _digest(self._source) != self._content

    def keep(self, model: Model) -> None:
        """Record what was compiled, unless the file was changed meanwhile."""
        if not self._key or not isinstance(model, CompiledModel):
            return
        if any(spec.optional for spec in model.inputs) or self._has_changed():
            return
        names = _external_names(self._source) if isinstance(self._source, str) else []
        files = {name: _digest(str(self._beside(name))) for name in names}
        record = {"folder": str(model.folder), "threads": model.threads, "files": files}
        self._records.write(self._key, record)


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


def _is_extended() -> bool:
    """Whether this process has rules, passes, operators or lowerings that are not Infuse's."""
    registry = sys.modules.get("infuse.passes.registry")
    operators = sys.modules.get("infuse.ops.core.base")
    kernels = sys.modules.get("infuse.lowering.kernel_table")
    things = [
        *(registry.registered() if registry else ()),
        *(operators.REGISTRY.values() if operators else ()),
        *(
            family.lower
            for table in ((kernels.COMMON, *kernels.TABLES.values()) if kernels else ())
            for family in table.families.values()
        ),
    ]
    return any(_is_foreign(thing) for thing in things if thing is not None)


def _is_foreign(thing: Any) -> bool:
    return str(thing.__module__).partition(".")[0] != "infuse"


def _digest(source: str | bytes) -> str:
    """The SHA-256 of a file, by its path, or of bytes."""
    return (
        sha256_of(Path(source)) if isinstance(source, str) else hashlib.sha256(source).hexdigest()
    )
