"""The phases of a compression, in order, for whoever shows how far it is."""

from __future__ import annotations

from collections.abc import Sequence

from infuse.compression.pipeline import Request
from infuse.options import Method, Prune, Tune

OF_LAYERS = ("rotate", "equalize", "calibrate", "score", "time")
"""Those in which layers get their forms."""


def phases_of(
    request: Request, methods: Sequence[Method], pruning: Prune | None, tune: Tune | None
) -> list[str]:
    """The names of the phases. What is pruned has those of layers where methods come behind it;
    weights that become integers are tuned before they do, others afterwards.
    """
    options, has_data = request.options, request.examples.inputs is not None
    is_there = {
        "rotate": options.rotate and has_data,
        "equalize": options.equalize and has_data,
        "time": not request.by_size,
    }
    layers = [name for name in OF_LAYERS if is_there.get(name, True)] + ["try others"]
    if pruning is not None:
        return ["optimize", "prune", *(layers if methods else ())]
    if tune is None:
        return ["optimize", *layers]
    if request.methods[0].in_floats is None:
        return ["optimize", "tune", *layers]
    return ["optimize", *layers, "tune"]
