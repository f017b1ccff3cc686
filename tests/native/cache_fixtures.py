"""A cache of each test's own, and what the adder computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

ONES = np.ones((2, 3), np.float32)
SUM = np.array([[12, 22, 32]] * 2, np.float32)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of one test."""
    monkeypatch.setenv("INFUSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("INFUSE_CACHE_SIZE", raising=False)
    monkeypatch.setenv("INFUSE_CHECK", "0")
    return tmp_path / "cache"


def left_over(root: Path) -> list[str]:
    """Names in the cache that are no entries."""
    return sorted(
        path.name
        for path in (root / "compiled").iterdir()
        if path.name.startswith((".new", ".old"))
    )
