"""Programs for machines without a system, as C: all sizes are numbers, tensors lie at fixed places
of one array, and nothing is called that the file does not have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from infuse.errors import OptionError, UnsupportedOperatorError
from infuse.lowering.memory import Plan
from infuse.lowering.program import Program
from infuse.lowering.tensors import Buffer
from infuse.targets.c.language import PLAIN
from infuse.targets.text.calls import CallWriter

CONTEXT_BYTES: Final = 256
"""Of the memory of a context, those that are not of tensors: how far a run is, and its failure."""
_TOLD: Final = ("abi", "name", "inputs", "outputs", "symbols", "weights_bytes", "weights_hash")


def require_static(program: Program, plan: Plan) -> None:
    """OptionError or UnsupportedOperatorError where sizes or memory are known to a run alone."""
    if program.symbols:
        names = ", ".join(program.symbols)
        raise OptionError(
            f"without a heap all sizes are fixed, and those of the model are not: {names}",
            hint=f"give each a number: infuse optimize MODEL -o FIXED --set-dim "
            f"{program.symbols[0]}=1",
        )
    late = [step for step in program.steps if step.function.is_control] or [
        step for step in program.steps if any(map(program.is_late, _written(step.writes)))
    ]
    if program.bodies or program.late_sizes or program.blocks or plan.late:
        nodes = ", ".join(name for step in late for name in step.nodes if name)
        raise UnsupportedOperatorError(
            "without a heap no size may depend on the elements of a tensor, and there are no "
            f"branches or loops{f': {nodes}' if nodes else ''}",
            hint="compute that part outside of the model (infuse extract), or leave --profile out",
        )


def _written(buffers: list[Buffer]) -> list[Any]:
    return [buffer.bytes for buffer in buffers]


class _BareCalls(CallWriter):
    """Calls of kernels on tensors at fixed places."""

    def _base(self, buffer: Buffer) -> str:
        if buffer.kind == "arena":
            assert self._plan.offsets is not None
            return f"m->arena + {self._plan.offsets[self._slots[id(buffer.root())]]}L"
        return super()._base(buffer)


def bare_text(
    program: Program, plan: Plan, info: Mapping[str, Any], names: Mapping[str, str]
) -> str:
    """The interface of a model and its run."""
    calls = _BareCalls(program, plan, (), PLAIN, names)
    lines = calls.lines(list(enumerate(program.steps)))
    told = {name: info[name] for name in _TOLD if name in info}
    sizes = [size for _, _, shape in program.outputs for size in shape]
    defaults = [
        f"  in[{i}] = inputs[{i}];" for i in range(len(program.inputs)) if i not in program.defaults
    ] + [
        f"  in[{i}] = inputs[{i}] ? inputs[{i}] : m->weights + {tensor.buffer.position}L;"
        for i, tensor in program.defaults.items()
    ]
    fields = {
        "CONTEXT": str(CONTEXT_BYTES),
        "TOTAL": str(CONTEXT_BYTES + plan.total),
        "WEIGHTS": str(program.weights.bytes),
        "LIVE": str(plan.lower_bound),
        "METADATA": json.dumps(json.dumps(told, separators=(",", ":"))),
        "SIZES": " ".join(f"dims[{i}] = {size};" for i, size in enumerate(sizes)),
        "INPUTS": str(max(1, len(program.inputs))),
        "DEFAULTS": "\n".join(defaults),
        "CALLS": "\n".join(lines),
    }
    text = Path(__file__).with_name("bare_model.c").read_text("utf-8")
    for name, value in fields.items():
        text = text.replace(f"@{name}@", value)
    return text
