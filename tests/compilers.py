"""The system's compilers at -O0, for tests that ask what compiled models mean and not how fast
they are.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from infuse.build.library import JOINED
from infuse.targets.cpu.emit.shared_files import APART

ROOT = Path(__file__).resolve().parent.parent
LIGHT = ROOT / "build" / "light"
GCC = ("g++", "aarch64-linux-gnu-g++")
NAMES = (*GCC, "clang++", "c++")
COMMON = ("arena.h", "blocks.h", "element.hpp", "failure.h", "threads.hpp", "stdio.h", "stdlib.h")
"""Headers of nearly all files that models are compiled from."""
OPTIONS = """#!/bin/sh
flags= kernels= source= before=
for argument in "$@"; do
    shift
    case $argument in
    -O1 | -O3) argument=-O0 ;;
    -fno-inline) continue ;;
    esac
    set -- "$@" "$argument"
    case $before,$argument in
    -c,*) source=$argument ;;
    -o,* | *,-o | *,-c) ;;
    *,-I*/kernels) kernels=${argument#-I} ;;
    *,-I* | *,-O0) ;;
    *) flags="$flags $argument" ;;
    esac
    before=$argument
done
"""
HEADERS = """\
first=
case ${source##*/} in
"") ;;
@joined*) first='@apart' ;;
*) { read -r first && case $first in //*) read -r first ;; esac; } <"$source" ;;
esac
if [ "$first" = '@apart' ] && [ -n "$kernels" ]; then
    key=$(echo @includes "@compiler$flags $kernels" | cksum)
    header="@folder/${key% *}.hpp"
    changed=$(find "$kernels" '@compiler' -newer "$header.gch" -print -quit 2>&1)
    if [ -n "$changed" ]; then
        printf '%s\\n' '@apart' @includes >"$header.$$" && mv "$header.$$" "$header"
        '@compiler' -O0 $flags -I"$kernels" -x c++-header "$header" -o "$header.$$" &&
            mv "$header.$$" "$header.gch"
    fi
    set -- -include "$header" "$@"
fi
"""
"""Has GCC read the common headers once for each way to compile, and write what it has read beside
them: it begins with that where it fits, and reads the headers themselves where it does not.
"""
END = """\
exec '@compiler' "$@"
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
        text = _script(name, compiler)
        if not script.exists() or script.read_text("utf-8") != text:
            script.write_text(text, "utf-8")
            script.chmod(0o755)
    os.environ["PATH"] = os.pathsep.join((str(LIGHT), path))


def _script(name: str, compiler: str) -> str:
    text = "".join((OPTIONS, HEADERS if name in GCC else "", END))
    words = {
        "@apart": APART,
        "@compiler": compiler,
        "@folder": str(LIGHT),
        "@joined": JOINED,
        "@includes": " ".join(f"'#include \"{header}\"'" for header in COMMON),
    }
    for word, value in words.items():
        text = text.replace(word, value)
    return text


@contextmanager
def product_compilers() -> Iterator[None]:
    """In the block, models are compiled with the options of the product."""
    with mock.patch.dict(os.environ, PATH=_path_without_light()):
        yield


def _path_without_light() -> str:
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if folder != str(LIGHT))
