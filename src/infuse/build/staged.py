"""A graph on its way to code, in stages."""

from __future__ import annotations

from dataclasses import dataclass

from infuse.ir.graph import Graph, Node
from infuse.lowering.memory import Plan
from infuse.lowering.program import Program


@dataclass
class Stages:
    """A graph on its way to code: programs with their plans, and between them what the interpreter
    runs.

    `returned` are the names that the outputs of the whole have among those of the stages.
    """

    parts: list[tuple[Program, Plan] | Graph]
    returned: list[str]

    @property
    def whole(self) -> tuple[Program, Plan] | None:
        """The program, where it is the only stage."""
        return self.parts[0] if len(self.parts) == 1 and isinstance(self.parts[0], tuple) else None

    @property
    def programs(self) -> list[Program]:
        """All programs, those of bodies too."""
        outer = [part[0] for part in self.parts if isinstance(part, tuple)]
        return [inner for program in outer for inner in (program, *program.bodies)]

    @property
    def layers(self) -> dict[int, str]:
        """Precisions of the layers that do not compute in fp32, by serial number of their node."""
        return {
            serial: name for program in self.programs for serial, name in program.layers.items()
        }

    @property
    def weights_bytes(self) -> int:
        """Bytes of the weights of all programs."""
        return sum(part[0].weights.bytes for part in self.parts if isinstance(part, tuple))

    @property
    def host_nodes(self) -> list[Node]:
        """What the interpreter runs."""
        return [node for part in self.parts if isinstance(part, Graph) for node in part.nodes]
