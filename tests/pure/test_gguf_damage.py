"""Damaged GGUF files: no crash, no hang, no memory for what a file only states."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.gguf_damage import read_all, read_damaged, samples

pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")

ROOT = Path(__file__).resolve().parents[2]


def test_the_samples_are_read(tmp_path: Path) -> None:
    for number, content in enumerate(samples()):
        path = tmp_path / f"{number}.gguf"
        path.write_bytes(content)
        read_all(path)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_are_errors_or_are_read(seed: int, tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    good = read_damaged(tmp_path, seed, 500)
    assert 20 < good < 480  # neither reads everything nor nothing
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(100, 110))
def test_many_damaged_files(seed: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.gguf_damage", str(seed), "10000"],
        capture_output=True,
        text=True,
        timeout=1200,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) > 100
