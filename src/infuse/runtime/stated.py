"""Shapes that a model's file states for its outputs, held against those that a run finds out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any


class StatedShapes:
    """What the description of a model (`infuse.ir.description`) says of its outputs."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        self._stated: dict[str, list[int | str]] = dict(description.get("outputs", {}))

    def check(self, name: str, shape: Sequence[int]) -> None:
        """Warn, once for each output, where a result has another shape: the result counts."""
        stated = self._stated.get(name)
        if stated is None or (
            len(stated) == len(shape)
            and all(isinstance(said, str) or said == size for said, size in zip(stated, shape))
        ):
            return
        del self._stated[name]
        text = ", ".join(str(size) or "?" for size in stated)
        warnings.warn(
            f"the model states the shape [{text}] for its output {name}, which has {list(shape)}",
            RuntimeWarning,
            stacklevel=4,
        )
