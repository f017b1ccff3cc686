"""Damaged models: an answer or an error of Infuse's own, in seconds, in little memory, and never a
crash.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.fuzz_foreign import FORMATS

pytestmark = pytest.mark.row("C1")
KINDS = ("onnx-bytes", "onnx-fields", "infuse-bytes", "infuse-coded")
FULL = 200_000 // len(KINDS) // 40 * 40 + 40
PART = FULL // 40


NEEDED = {"keras": "h5py", "h5": "h5py", "torchscript": "torch", "huggingface": "safetensors"}


def check(kind: str, first: int, count: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.models.fuzz_worker", kind, str(first), str(count)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert not done.stdout, done.stdout
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_models_do_no_harm(kind: str) -> None:
    check(kind, 0, 1000)


@pytest.mark.full
@pytest.mark.parametrize("first", range(1000, 1000 + FULL, PART))
@pytest.mark.parametrize("kind", KINDS)
def test_many_damaged_models_do_no_harm(kind: str, first: int) -> None:
    check(kind, first, PART)


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_models_of_other_formats_do_no_harm(kind: str) -> None:
    pytest.importorskip(NEEDED.get(kind, "numpy"))
    check(kind, 0, 200)


@pytest.mark.full
@pytest.mark.parametrize("first", range(200, 100_200, 5000))
@pytest.mark.parametrize("kind", FORMATS)
def test_many_damaged_models_of_other_formats_do_no_harm(kind: str, first: int) -> None:
    pytest.importorskip(NEEDED.get(kind, "numpy"))
    check(kind, first, 5000)
