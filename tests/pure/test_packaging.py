"""What stands beside the sources: patterns of files to leave out and what they must not hit, what a
wheel holds, and the version.
"""

import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

import infuse

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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    lines([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)])
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tracked = {path.removeprefix("src/") for path in lines(["git", "ls-files", "src"])}
    assert {name for name in names if ".dist-info/" not in name} >= {
        path for path in tracked if (ROOT / "src" / path).exists()
    }
    headers = {path.name for path in (ROOT / "src" / "infuse" / "kernels").glob("*.h*")}
    assert len(headers) > 100
    assert {f"infuse/kernels/{name}" for name in headers} <= set(names)
    folders = {name.split("/")[0] for name in names if "/" in name}
    assert folders == {"infuse", f"infuse-{infuse.__version__}.dist-info"}
    assert not [name for name in names if Path(name).name.startswith(("test_", "conftest"))]


def test_the_wheel_has_the_version_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        assert f"\nVersion: {infuse.__version__}\n" in archive.read(metadata).decode()


def test_the_changelog_begins_with_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (?!Unreleased)([\d.]+) – \d{4}-\d\d-\d\d$", text, re.MULTILINE)
    assert newest
    assert newest[1] == infuse.__version__


def test_hooks_and_templates_can_be_read() -> None:
    for path in (ROOT / ".github").rglob("*.yml"):
        assert yaml.safe_load(path.read_text(encoding="utf-8")), path
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [hook["id"] for hook in hooks["repos"][0]["hooks"]] == [
        "ruff-check",
        "ruff-format",
        "mypy",
    ]
