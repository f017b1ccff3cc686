"""What stands beside the sources: patterns of files to leave out, and what they must not hit."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    not (ROOT / ".git").exists() or shutil.which("git") is None, reason="no checkout"
)


def lines(command: Sequence[str]) -> list[str]:
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return answer.stdout.splitlines()


def test_no_file_of_the_project_is_ignored() -> None:
    """Wheels leave out what .gitignore names, also where it is in the repository."""
    assert lines(["git", "ls-files", "--cached", "--ignored", "--exclude-standard"]) == []


def test_every_source_is_linted() -> None:
    """By default ruff passes by folders that are called build, dist or venv."""
    shown = lines([sys.executable, "-m", "ruff", "check", "--show-files", "."])
    sources = lines(["git", "ls-files", "src/*.py", "tests/*.py", "benchmarks/*.py"])
    assert {str(ROOT / path) for path in sources if (ROOT / path).exists()} <= set(shown)
