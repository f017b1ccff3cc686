"""What a compiled model depends on, in one key: content, options, this release, the machine."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from infuse.runtime.cpus import cpu_description
from infuse.sources import announced, stamp

_COMPILERS: Final = (
    "g++",
    "clang++",
    "c++",
)  # which one is taken without $CXX, another part of Infuse decides
REPLACING: Final = "INFUSE_AS_ONNXRUNTIME"
"""The variable that changes nothing of what is compiled, only who asks for it."""


def key_of(content: str, main: str, options: Mapping[str, Any]) -> str:
    """The key of a model: `content` is a digest of all its files, `main` the name of the one to
    load.

    It changes with this release's code, the processor, the C++ compiler and the variables that say
    how to compile. Empty where installed packages extend Infuse: what they do to a model is not
    known here.
    """
    if announced():
        return ""
    variables = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("INFUSE_") and name != REPLACING
    }
    chosen = os.environ.get("CXX", "")
    programs = [*_COMPILERS, chosen, *chosen.split()[:1]]
    stamps = [(shutil.which(program), _stamp(shutil.which(program))) for program in programs]
    parts = [content, main, dict(options), variables, stamp(), cpu_description(), chosen, stamps]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _stamp(path: str | None) -> tuple[int, int]:
    """Size and time of a file, behind all links; zeros where there is none."""
    if path is None:
        return 0, 0
    try:
        status = Path(path).stat()
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns
