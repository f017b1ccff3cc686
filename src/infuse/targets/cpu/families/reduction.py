"""Reductions."""

from __future__ import annotations

from typing import NamedTuple

from infuse.targets.cpu.families.base import Size, declared_in


@declared_in("reduce.hpp")
class ReduceSizes(NamedTuple):
    """A reduction of the middle of three axes; `cols` neighbouring results form a row."""

    outer: Size
    reduce: Size
    inner: Size
    cols: Size
