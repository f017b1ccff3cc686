"""In which scale a graph has its values: by what their channels were divided on the way from the
graph that it was made of, and which were rotated. That is noted beside the graph, so that both can
be compared.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np

from infuse.errors import ModelFileError
from infuse.ir.graph import Array, Graph

SCALES: Final = "infuse.scales"
"""The metadata of a graph that has them: by value its axis, and float32 numbers in base 64."""
ROTATED: Final = "infuse.rotated"
"""The metadata of a graph that has values whose channels were rotated: their names."""


class ChannelScales(NamedTuple):
    """What the channels of a value were divided by: one number for each place along an axis."""

    axis: int
    scales: Array

    def undone(self, array: Array) -> Array:
        """The value as it was; as it is where it has no such channels."""
        if not -array.ndim <= self.axis < array.ndim or array.shape[self.axis] != len(self.scales):
            return array
        behind = (1,) * (array.ndim - 1 - self.axis % array.ndim)
        result: Array = array * self.scales.astype(array.dtype).reshape(-1, *behind)
        return result


def note_scales(graph: Graph, divided: Mapping[str, ChannelScales]) -> None:
    """Note by what the values of these names were divided, beside what was noted before."""
    noted = noted_scales(graph)
    for name, (axis, scales) in divided.items():
        before = noted.get(name)
        product = scales if before is None else np.asarray(before.scales * scales)
        noted[name] = ChannelScales(axis, np.asarray(product, np.float32))
    texts = {
        name: [axis, base64.b64encode(scales.astype("<f4").tobytes()).decode()]
        for name, (axis, scales) in noted.items()
    }
    graph.metadata[SCALES] = json.dumps(texts, separators=(",", ":"))


def noted_scales(graph: Graph) -> dict[str, ChannelScales]:
    """What is noted of a graph's values. ModelFileError where that makes no sense."""
    try:
        noted = json.loads(graph.metadata.get(SCALES, "{}"))
        return {str(name): _read(*entry) for name, entry in noted.items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise _unreadable(graph, SCALES, error) from error


def note_rotated(graph: Graph, names: Iterable[str]) -> None:
    """Note that the channels of the values of these names are rotated."""
    graph.metadata[ROTATED] = json.dumps(sorted(rotated_values(graph).union(names)))


def rotated_values(graph: Graph) -> frozenset[str]:
    """The names of values whose channels are rotated. ModelFileError where the note makes no
    sense.
    """
    try:
        return frozenset(json.loads(graph.metadata.get(ROTATED, "[]")))
    except (ValueError, TypeError, RecursionError) as error:
        raise _unreadable(graph, ROTATED, error) from error


def _unreadable(graph: Graph, name: str, error: Exception) -> ModelFileError:
    return ModelFileError(
        f"its metadata {name} cannot be read ({error})",
        where=graph.name,
        hint="compress the model again, or remove that metadata",
    )


def _read(axis: int, text: str) -> ChannelScales:
    scales = np.frombuffer(base64.b64decode(text, validate=True), "<f4").astype(np.float32)
    if not isinstance(axis, int) or not np.isfinite(scales).all():
        raise ValueError("an axis or a scale is no number")
    return ChannelScales(axis, scales)
