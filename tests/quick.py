"""`make quick`: what a change most likely breaks, in a minute.

Lint and types of what changed since a commit; a sample of the operator table, compiled; and the
tests that are the fewest imports away from what changed, one of each file in turn, until the time
is over. As a plugin of pytest it puts tests in that order, and leaves out those that come too late.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import pytest

from infuse.runtime.cpus import cpu_limit
from tests.import_graph import ROOT, SOURCES, module_of, nearest

SECONDS = 45.0
"""After which no more tests begin."""
MOST_FILES = 24
"""Files of tests that are collected: those are imported by each process."""
UNTIL = "INFUSE_QUICK_UNTIL"
"""The variable with the time at which no more tests begin."""
GROUPS = ("elementwise", "quantization", "products", "recurrent", "movement", "tables")
"""Groups of the operator table that take a second or two."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test of each file, the second of each, …"""
    files: dict[Path, list[pytest.Item]] = defaultdict(list)
    for item in items:
        files[item.path].append(item)
    turns = zip_longest(*files.values())
    items[:] = [item for turn in turns for item in turn if item is not None]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.time() > float(os.environ.get(UNTIL, "inf")):
        pytest.skip("the time is over")


def changed_files(since: str) -> list[Path]:
    """The files that differ from a commit, those that git does not follow among them."""
    commands = (
        ("diff", "--name-only", "--diff-filter=d", since),
        ("ls-files", "--others", "--exclude-standard"),
    )
    texts = [
        subprocess.run(
            ("git", *command), cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        for command in commands
    ]
    return [ROOT / line for text in texts for line in text.splitlines()]


def tests_of(changed: Sequence[Path]) -> list[Path]:
    """The files of tests that are the fewest imports away from what changed, nearest first; what is
    no module counts for the tests that name it.
    """
    folders = [root / package for package, root in SOURCES.items()]
    modules = {
        path for path in changed if path.suffix == ".py" and any(map(path.is_relative_to, folders))
    }
    away = nearest({module_of(path) for path in modules})
    names = [path.name for path in changed if path not in modules]
    files = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        distance = away.get(module_of(path))
        if any(name in path.read_text("utf-8") for name in names):
            distance = min(1, 1 if distance is None else distance)
        if distance is not None:
            files[path] = distance
    return sorted(files, key=lambda path: files[path])[:MOST_FILES]


def _run(what: str, *command: str, **variables: str) -> bool:
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, check=False)
    verdict = "passed" if done.returncode == 0 else "FAILED"
    print(f"{what}: {verdict}, {time.monotonic() - began:.0f} s", flush=True)
    return done.returncode == 0


def main(arguments: Sequence[str] | None = None) -> int:
    """0 where all passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.quick", description=__doc__)
    parser.add_argument("--since", default="HEAD", metavar="REF", help="the commit to compare with")
    parser.add_argument("--seed", type=int, default=None, help="which operators are sampled")
    options = parser.parse_args(arguments)
    until = time.time() + SECONDS
    changed = changed_files(options.since)
    if not changed:
        print(f"nothing differs from {options.since}: name an earlier commit (--since HEAD~1)")
        return 0
    python = [str(path) for path in changed if path.suffix == ".py"]
    passed = True
    if python:
        passed &= _run("ruff check", sys.executable, "-m", "ruff", "check", *python)
        passed &= _run("ruff format", sys.executable, "-m", "ruff", "format", "--check", *python)
    if any(path.is_relative_to(ROOT / "src") and path.suffix == ".py" for path in changed):
        passed &= _run("mypy", sys.executable, "-m", "mypy")
    group = random.Random(options.seed).choice(GROUPS)
    table = "tests/native/test_op_table.py::test_operators_agree_with_their_meaning"
    pytest_ = (sys.executable, "-m", "pytest", "-q", "-m", "not zoo and not full")
    passed &= _run(f"operators ({group})", *pytest_, "-p", "no:xdist", f"{table}[{group}]")
    files = tests_of(changed)
    if files:
        how = ("-p", "tests.quick", "-n", str(cpu_limit()), "-r", "fE")
        passed &= _run(
            f"{len(files)} files of tests", *pytest_, *how, *map(str, files), **{UNTIL: str(until)}
        )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
