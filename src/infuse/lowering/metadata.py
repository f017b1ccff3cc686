"""What a compiled model tells about itself: its inputs, outputs, sizes and weights."""

from __future__ import annotations

from typing import Any

from infuse.lowering.choice import BUDGET
from infuse.lowering.program import Program
from infuse.runtime.folder import ABI


def limited_kernels(program: Program) -> dict[str, dict[str, str]]:
    """Kernels that are not the fastest, since weights have a budget: by node, what was chosen and
    what would be without one.
    """
    result = {}
    for inner in (program, *program.bodies):
        for step in inner.steps:
            choice = step.choice
            if choice is not None and choice.by == BUDGET and step.sources:
                fastest = choice.fastest or choice.chosen
                result[step.sources[0].name] = {"chosen": choice.chosen, "fastest": fastest}
    return result


def metadata(program: Program, fingerprint: str) -> dict[str, Any]:
    """What `infuse_metadata` tells."""

    def entry(name: str, dtype: Any, shape: Any) -> dict[str, Any]:
        result = {
            "name": name,
            "dtype": dtype.name,
            "shape": [d if isinstance(d, int) else str(d) for d in shape],
        }
        return result | ({"late": True} if any(map(program.is_late, shape)) else {})

    sizes = program.sizes_of
    return {
        "abi": ABI,
        "name": program.name,
        "inputs": [
            entry(*i)
            | ({"optional": True} if number in program.defaults else {})
            | ({"state": True} if number in program.states else {})
            for number, i in enumerate(program.inputs)
        ],
        "outputs": [
            entry(*o) | ({"sizes": sizes[number]} if number in sizes else {})
            for number, o in enumerate(program.outputs)
        ],
        "symbols": program.symbols,
        **({"names": program.names} if program.names else {}),
        "weights_bytes": program.weights.bytes,
        "weights_hash": fingerprint,
    }
