"""magika: what type a file has, on files of this machine whose suffix says it. The files are
those of the disk where the task was made; their contents are stored with it.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from benchmarks.compression_tasks.base import Feeds, Prepared, Recipe, top_1
from benchmarks.compression_tasks.packages import Packages

SUFFIXES = {
    ".py": "python", ".c": "c", ".sh": "shell", ".png": "png", ".so": "elf", ".json": "json",
    ".html": "html", ".js": "javascript", ".css": "css", ".xml": "xml", ".svg": "svg",
    ".gz": "gzip", ".ttf": "ttf", ".pyc": "pythonbytecode", ".pm": "perl", ".pl": "perl",
    ".yaml": "yaml", ".toml": "toml", ".gif": "gif", ".jpg": "jpeg", ".deb": "deb",
    ".wasm": "wasm", ".cpp": "cpp", ".cmake": "cmake", ".csv": "csv", ".npy": "npy",
    ".npz": "npz", ".zip": "zip", ".whl": "zip", ".ts": "typescript", ".java": "java",
    ".proto": "proto", ".md": "markdown", ".rst": "rst", ".m4": "m4", ".wav": "wav",
    ".pdf": "pdf", ".tcl": "tcl", ".awk": "awk", ".rb": "ruby", ".go": "go", ".ini": "ini",
}  # fmt: skip
"""Suffixes that leave little doubt, and the class that magika has for them."""
EACH = 36
"""Files of a class at most; one of three calibrates."""
EDGE, PADDING, BLOCK = 1024, 256, 4096


def tokens(content: bytes) -> np.ndarray:
    """A file as magika reads it, int32 [1, 2048]: the first and the last 1,024 bytes without the
    white space around them, filled up with 256.
    """
    row = np.full((1, 2 * EDGE), PADDING, np.int32)
    first = content[:BLOCK].lstrip()[:EDGE]
    last = content[-BLOCK:].rstrip()[-EDGE:]
    row[0, : len(first)] = np.frombuffer(first, np.uint8)
    row[0, 2 * EDGE - len(last) :] = np.frombuffer(last, np.uint8)
    return row


def files() -> dict[str, list[bytes]]:
    """Contents of files of this machine by class, spread over its folders, each content once."""
    paths = defaultdict(list)
    for root in ("/usr", "/etc", sys.prefix):
        for folder, _, names in os.walk(root):
            for name in names:
                suffix = Path(name).suffix
                if suffix in SUFFIXES:
                    paths[SUFFIXES[suffix]].append(Path(folder) / name)
    rng = np.random.default_rng(0)
    chosen = {}
    for kind, of_kind in sorted(paths.items()):
        contents: dict[bytes, None] = {}
        of_kind.sort()
        for index in rng.permutation(len(of_kind)):
            path = of_kind[index]
            if path.is_file() and os.access(path, os.R_OK) and path.stat().st_size >= 64:
                contents[_ends(path)] = None
            if len(contents) == EACH:
                break
        chosen[kind] = list(contents)
    return chosen


def _ends(path: Path) -> bytes:
    """The parts of a file that are read."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= 2 * BLOCK:
            return file.read()
        first = file.read(BLOCK)
        file.seek(size - BLOCK)
        return first + file.read()


def prepared(packages: Packages) -> Prepared:
    """The model as it is shipped, and files."""
    folder = packages.pypi("magika", "1.0.3") / "magika" / "models" / "standard_v3_3"
    names = json.loads((folder / "config.min.json").read_text())["target_labels_space"]
    calibration: list[Feeds] = []
    test: list[Feeds] = []
    labels: list[int] = []
    for kind, contents in files().items():
        third = len(contents) // 3
        calibration += [{"bytes": tokens(one)} for one in contents[: min(third, 8)]]
        test += [{"bytes": tokens(one)} for one in contents[third:]]
        labels += [names.index(kind)] * (len(contents) - third)
    return Prepared(
        (folder / "model.onnx").read_bytes(), calibration, test, {"labels": np.array(labels)}
    )


RECIPES = (Recipe("magika_files", "top-1", prepared, top_1),)
