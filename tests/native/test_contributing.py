"""CONTRIBUTING.md: its kernel compiles, agrees with the operator, and fuses what follows."""

from pathlib import Path

from tests.contributing import example, run_tests


def test_the_kernel_works(tmp_path: Path) -> None:
    done = run_tests(example(tmp_path), "tests/native/test_max_norm.py")
    assert done.returncode == 0, done.stdout
