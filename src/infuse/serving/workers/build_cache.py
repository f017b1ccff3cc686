"""What was compiled before, found again by the content of the model's files: no process is started
to build it anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

import infuse
from infuse.errors import CompiledModelError
from infuse.runtime.cpus import cpu_description
from infuse.runtime.folder import check_cpu, read_metadata, verify
from infuse.serving.messages import JsonObject
from infuse.serving.workers.build import Signature, described, signature_of

_COMPILERS: Final = (
    "g++",
    "clang++",
    "c++",
)  # which one is taken without $CXX, another part of Infuse decides
EXTENSIONS: Final = "infuse.rules"
"""Where packages that extend Infuse register: as `infuse.passes` has it, which a server does not
load.
"""
_MOST: Final = 4096  # records; each is a few hundred bytes


class BuildCache:
    """Records in a folder of the cache: which compiled model came of which content and options.

    A record counts only while its compiled folder is whole, and made for this processor. Models of
    which the interpreter runs a part are not recorded, and nothing is under an empty key.
    """

    def __init__(self, cache: Path) -> None:
        self._folder = cache / "built"

    def find(self, key: str) -> Signature | None:
        """The model that was built for this key; None: build it."""
        if not key:
            return None
        try:
            answer = json.loads((self._folder / key).read_text("utf-8"))
            signature = signature_of(answer, 0.0)
            metadata = read_metadata(signature.folder)
            verify(signature.folder, metadata)
            check_cpu(metadata, signature.folder)
        except (OSError, ValueError, LookupError, TypeError, AttributeError, CompiledModelError):
            # no record, or one of what is there no more: building says what is wrong, if anything
            # is
            return None
        with suppress(OSError):  # a read-only cache does not keep the time of use
            os.utime(signature.folder)
        return signature

    def keep(self, key: str, signature: Signature) -> None:
        """Record what was built. A cache that cannot be written holds no records."""
        if signature.host_steps or not key:
            return
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room()
            descriptor, name = tempfile.mkstemp(prefix=".new-", dir=self._folder)
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    json.dump(described(signature), file)
                Path(name).replace(self._folder / key)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise

    def _make_room(self) -> None:
        """Remove the older half when there are too many."""
        records = list(self._folder.iterdir())
        if len(records) < _MOST:
            return
        for path in sorted(records, key=lambda path: path.stat().st_mtime)[: _MOST // 2]:
            path.unlink(missing_ok=True)


def key_of(content: str, main: str, options: JsonObject) -> str:
    """The key of a model: `content` is a digest of all its files, `main` the name of the one to
    load.

    It changes with this release's code, the processor, the C++ compiler and the variables that say
    how to compile. Empty where installed packages extend Infuse: what they do to a model is not
    known here.
    """
    if entry_points(group=EXTENSIONS):
        return ""
    variables = {name: value for name, value in os.environ.items() if name.startswith("INFUSE_")}
    chosen = os.environ.get("CXX", "")
    programs = [*_COMPILERS, chosen, *chosen.split()[:1]]
    stamps = [(shutil.which(program), _stamp(shutil.which(program))) for program in programs]
    parts = [content, main, dict(options), variables, _code(), cpu_description(), chosen, stamps]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@lru_cache(maxsize=1)
def _code() -> str:
    """The code of Infuse, by the stamps of its files."""
    root = Path(infuse.__file__).parent
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc")
    stamps = [(str(path.relative_to(root)), *_stamp(str(path))) for path in files]
    return hashlib.sha256(json.dumps([infuse.__version__, stamps]).encode()).hexdigest()


def _stamp(path: str | None) -> tuple[int, int]:
    """Size and time of a file, behind all links; zeros where there is none."""
    if path is None:
        return 0, 0
    try:
        status = Path(path).stat()
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns
