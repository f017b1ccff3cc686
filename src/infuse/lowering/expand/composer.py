"""Building the nodes that stand for an operator without a kernel, and the table of how each is
built.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final, NoReturn

from infuse import dtypes
from infuse.catalog import Catalog, Key, calling_module
from infuse.errors import UnsupportedOperatorError
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.operator import Operator
from infuse.ir.types import UNKNOWN, TensorType
from infuse.lowering.kernel_table import kernels_of
from infuse.ops.core.building import GraphBuilder, sizes_of
from infuse.ops.core.sizes import normalize_axes
from infuse.targets import Machine

Results = Value | Sequence[Value | None] | None
Expansion = Callable[["Composer", Node], Results]
"""What takes the place of a node's outputs (None for one that nobody reads); None alone keeps the
node.
"""

FILES: Final = Catalog("infuse.lowering.expand")
Expansions = dict[Key, list[tuple[bool, str, Expansion]]]
"""By operator, whether each expansion has no wish to be first, its module and itself."""
EXPANSIONS: Final[Expansions] = {}
SPELLINGS: Final[Expansions] = {}
"""Those of operators that others look at in the standard ones that they stand for: they come before
all others.
"""
EARLY: Final[Expansions] = {}
"""Those that look at nodes around theirs: they come before those that do not."""


def expands(
    *kinds: str,
    domain: str = "",
    early: bool = False,
    first: bool = False,
    spelling: bool = False,
) -> Callable[[Expansion], Expansion]:
    """Register how nodes of these kinds are expressed in simpler operators, where they have to be.

    `early`: before the operands are. Of several expansions the first that gives something counts;
    `first` puts one before those that have no such wish, which come by the names of their modules.
    `spelling`: the operator stands for others that expansions look for, and is written so before
    any of them.
    """
    table = SPELLINGS if spelling else EARLY if early else EXPANSIONS
    module = calling_module()

    def register(function: Expansion) -> Expansion:
        for kind in kinds:
            expansions = table.setdefault((domain, kind), [])
            expansions.append((not first, module, function))
            expansions.sort(key=itemgetter(0, 1))
            FILES.note((domain, kind), module)
        return function

    return register


def drops_axis(node: Node, axis: int, rank: int) -> bool:
    """Whether a reduction is over this axis alone of an operand of this rank, and leaves it out."""
    x, axes = node.inputs[0], node.input(1)
    if x is None or axes is None or axes.const is None or node.op.attributes()["keepdims"]:
        return False
    return x.rank == rank and normalize_axes(axes.const.tolist(), rank, node.kind) == (axis,)


class Composer(GraphBuilder):
    """Adds nodes to a graph in place of `node`, under its name.

    `wide` has, for results that were rounded only because their type is a narrow one, what they
    were before. `machine` is what the code is for; None where that does not matter.
    """

    def __init__(
        self,
        graph: Graph,
        node: Node,
        wide: dict[Value, Value] | None = None,
        machine: Machine | None = None,
    ) -> None:
        super().__init__(graph)
        self.node, self.machine = node, machine
        self.wide = {} if wide is None else wide
        self.made: list[Node] = []

    @property
    def has_kernel(self) -> bool:
        """Whether the machine has kernels for operators of the node's kind."""
        return kernels_of(self.machine).has_kernel(self.node.op.domain, self.node.kind)

    def apply(self, op: Operator, inputs: Sequence[Value | None], count: int = 1) -> list[Value]:
        """The outputs of a new node with this operator."""
        outputs = [Value(UNKNOWN, self.node.output.name) for _ in range(count)]
        node = Node(op, inputs, outputs, name=self.node.name, origin=self.node.origin)
        node.serial = self.node.serial
        node.op.infer_node(node)
        self.made.append(self.graph.add_node(node))
        return outputs

    def refuse(self, why: str) -> NoReturn:
        """Raise the error for a node that cannot be expressed so."""
        raise UnsupportedOperatorError(
            f"operator {self.node.kind} has no native code for {why}",
            where=f"node {self.node.name!r}",
        )

    def asks(self, output: int) -> bool:
        """Whether somebody reads this output of the node."""
        return output < len(self.node.outputs) and bool(self.node.outputs[output].uses)

    def ints(self, *values: Dim) -> Value:
        """A list of sizes or axes, symbolic ones included."""
        return sizes_of(values, self.node.output.name)

    def size(self, value: Dim) -> Value:
        """One size as a scalar."""
        result = sizes_of([value], self.node.output.name)
        if result.const is not None:
            return constant(result.const.reshape(()))
        assert result.content is not None
        scalar = Value(TensorType(dtypes.int64, ()), result.name)
        scalar.content = result.content.reshape(())
        return scalar
