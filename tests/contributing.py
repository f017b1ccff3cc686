"""The worked examples of CONTRIBUTING.md, applied to a copy of the project."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.pages.blocks import ROOT, blocks

PLACE = re.compile(r"(?:#|//) (?P<path>(?:src|tests)/[\w./]+)(?:, above (?P<above>\w+))?\n")


def example(folder: Path) -> Path:
    """A copy of the project in `folder` with all examples applied."""
    for name, others in (
        ("src", ()),
        ("tests", ("models", "serving")),
        ("benchmarks", ("results",)),
    ):
        skipped = shutil.ignore_patterns("__pycache__", *others)
        shutil.copytree(ROOT / name, folder / name, ignore=skipped)
    shutil.copyfile(ROOT / "pyproject.toml", folder / "pyproject.toml")
    for block in blocks("CONTRIBUTING.md"):
        if block.language == "diff":
            change(folder, block.text)
        elif block.language in ("python", "cpp"):
            write(folder, block.text)
    return folder


def write(folder: Path, text: str) -> None:
    """Make the new file that a block begins with, or insert the block above the line that it
    names.
    """
    place = PLACE.match(text)
    assert place, f"a block does not say which file it is: {text[:60]!r}"
    path, content = folder / place["path"], text[place.end() :]
    if place["above"] is None:
        assert not path.exists(), f"{place['path']} exists already"
        path.write_text(content, "utf-8")
        return
    lines = path.read_text("utf-8").splitlines(keepends=True)
    index = next(i for i, line in enumerate(lines) if line.startswith(place["above"]))
    path.write_text("".join([*lines[:index], content, "\n\n", *lines[index:]]), "utf-8")


def change(folder: Path, diff: str) -> None:
    """Apply a diff of one hunk a file, found by its text."""
    for part in re.split(r"^--- ", diff, flags=re.M)[1:]:
        name, *lines = part.splitlines()
        old, new = (
            "".join(f"{line[1:]}\n" for line in lines if line[0] in kept) for kept in (" -", " +")
        )
        text = (folder / name).read_text("utf-8")
        assert text.count(old) == 1, f"{name} has not once {old!r}"
        (folder / name).write_text(text.replace(old, new), "utf-8")


def run_tests(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest in the copy, on the package that is there."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
