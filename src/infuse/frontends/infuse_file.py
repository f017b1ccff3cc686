"""Infuse's own files, whose operators must be there before they are read."""

from __future__ import annotations

from pathlib import Path

import infuse.ops  # noqa: F401  the file names operators
from infuse.ir.file import load as load_file
from infuse.ir.graph import Graph


def load(path: Path) -> Graph:
    """The graph of an `.infuse` file."""
    return load_file(path)
