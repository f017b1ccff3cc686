"""Normalization over groups of channels."""

from __future__ import annotations

from typing import NamedTuple

from infuse.targets.cpu.families.base import Size, declared_in


@declared_in("norm.hpp")
class GroupSizes(NamedTuple):
    """A normalization over groups of channels."""

    batch: Size
    pixels: Size
    channels: Size
    groups: Size
