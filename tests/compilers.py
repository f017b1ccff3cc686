"""The system's compilers at -O0, for tests that ask what compiled models mean and not how fast
they are.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
LIGHT = ROOT / "build" / "light"
NAMES = ("g++", "clang++", "c++", "aarch64-linux-gnu-g++")
SCRIPT = """#!/bin/sh
for argument in "$@"; do
    shift
    case $argument in -O1 | -O3) argument=-O0 ;; esac
    set -- "$@" "$argument"
done
exec '{compiler}' "$@"
"""


def put_light_compilers_first() -> None:
    """Write a script that leaves optimization out for each compiler of this system, and let
    `$PATH` of this process, and of those that it starts, begin with their folder.

    A script that is there already stays as it is: its time is part of what models are cached by.
    """
    LIGHT.mkdir(parents=True, exist_ok=True)
    path = _path_without_light()
    for name in NAMES:
        script, compiler = LIGHT / name, shutil.which(name, path=path)
        if compiler is None:
            script.unlink(missing_ok=True)
            continue
        text = SCRIPT.format(compiler=compiler)
        if not script.exists() or script.read_text("utf-8") != text:
            script.write_text(text, "utf-8")
            script.chmod(0o755)
    os.environ["PATH"] = os.pathsep.join((str(LIGHT), path))


@contextmanager
def product_compilers() -> Iterator[None]:
    """In the block, models are compiled with the options of the product."""
    with mock.patch.dict(os.environ, PATH=_path_without_light()):
        yield


def _path_without_light() -> str:
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if folder != str(LIGHT))
