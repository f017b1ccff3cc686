"""CONTRIBUTING.md: its operator and its rule work as they stand there, and pass the tests that it
names.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contributing import PLACE, example, run_tests
from tests.pages.blocks import ROOT, blocks, source


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return example(tmp_path_factory.mktemp("contributing"))


def new_files(project: Path) -> list[Path]:
    places = [
        PLACE.match(block.text) for block in blocks("CONTRIBUTING.md") if block.language == "python"
    ]
    return [project / place["path"] for place in places if place]


def test_the_generated_tests_take_the_operators(project: Path) -> None:
    done = run_tests(project, "tests/pure/test_op_table.py", "-k", "Softcap or MaxNormalization")
    assert done.returncode == 0, done.stdout
    counted = re.search(r"(\d+) passed", done.stdout)
    assert counted
    assert int(counted[1]) >= 10


def test_the_generated_tests_take_the_rule(project: Path) -> None:
    done = run_tests(project, "tests/pure/test_rules.py", "-k", "Softcap or test_every_rule")
    assert done.returncode == 0, done.stdout
    counted = re.search(r"(\d+) passed", done.stdout)
    assert counted
    assert int(counted[1]) >= 4


def test_the_rule_fires(project: Path) -> None:
    done = run_tests(project, "tests/pure/test_softcap.py", "tests/pure/test_imports.py")
    assert done.returncode == 0, done.stdout


def test_the_examples_keep_to_the_style(project: Path) -> None:
    for check in (["check"], ["format", "--check"]):
        files = [
            str(file)
            for file in new_files(project)
            if "tests" not in file.relative_to(project).parts
        ]
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *check, "--no-cache", *files],
            cwd=project,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout


def test_named_files_exist() -> None:
    guide = source("CONTRIBUTING.md")
    named = re.findall(
        r"`((?:src|tests|docs|ops|passes|lowering|targets|build|kernels)/[\w./]*)`", guide
    )
    assert len(named) > 5
    texts = [block.text for block in blocks("CONTRIBUTING.md")]
    for name in named:
        made = any(text.startswith((f"# {name}", f"// {name}")) for text in texts)
        assert made or any((root / name).exists() for root in (ROOT, ROOT / "src" / "infuse")), name
