"""What becomes of elementwise work: a step of its own, the sink of a kernel, or a part of another
kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from infuse import dtypes
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value
from infuse.lowering.bf16_values import rounded_axis
from infuse.lowering.elementwise import Source
from infuse.lowering.epilogue import Epilogue
from infuse.lowering.groups import Group, cost, is_vector_term
from infuse.lowering.iteration_space import IterationSpace
from infuse.lowering.kernel_table import kernels_of
from infuse.lowering.parts import Part
from infuse.lowering.precisions import LayerPrecisions
from infuse.lowering.program import Program
from infuse.lowering.statements import MapWork, Work
from infuse.lowering.storage import Storage
from infuse.lowering.tensors import Order, Tensor, natural
from infuse.lowering.writer import FunctionWriter
from infuse.ops.core.formula import Term, inputs
from infuse.targets import Machine

_SUM, _BIAS = inputs(dtypes.float32, dtypes.float32)
"""What a kernel gives, and what is added to it."""
SINK = ("acc", "row", "col", "lanes")
"""What takes the results of a kernel."""
VALUES = ("row", "col", "lanes")
"""What gives a kernel what it reads."""


class Fusing:
    """Adds elementwise work to a program whose values lie in `storage`."""

    def __init__(
        self, storage: Storage, program: Program, precisions: LayerPrecisions, machine: Machine
    ) -> None:
        self.storage, self.program = storage, program
        self.precisions, self.machine = precisions, machine
        self._live: tuple[Graph, set[Node]] | None = None

    def elementwise(self, group: Group) -> None:
        """A step for elementwise work without an anchor."""
        value = group.result
        terms = [group.formulas[n] for n in group.nodes]
        operands = group.operands()
        order = self._main_order(value, operands)
        vector = self.machine.has_vectors and all(map(is_vector_term, terms))
        space = IterationSpace(value.shape, order)
        tensors = {v: self._operand(v, space, vector) for v in operands}
        targets = {v: self.storage.allocate(v, order, strided=True) for v in group.results}
        space = space.widened([*tensors.values(), *targets.values()])
        f = FunctionWriter(
            self.program, "_".join(dict.fromkeys(n.kind.lower() for n in group.nodes)), group.nodes
        )
        work = Epilogue(f, group, space, tensors, targets).statement("")
        rows, columns = f.number(space.rows), f.number(space.columns)
        f.add(MapWork(rows, columns, work, vector, sum(map(cost, terms))))
        f.checks = f.checks or work.divides
        self.storage.tensors.update(targets)
        f.finish(" + ".join(n.kind for n in group.nodes))

    def _main_order(self, value: Value, operands: Iterable[Value]) -> Order:
        """The memory order of a result: that of the operand of its shape, computed ones first."""
        best: Tensor | None = None
        for operand in operands:
            if operand.is_const or operand.shape != value.shape:
                continue
            tensor = self.storage.tensor(operand)
            if best is None or (
                best.order == natural(best.rank) and tensor.order != natural(tensor.rank)
            ):
                best = tensor
        if best is None or best.order == natural(value.rank):
            return self._order_of_readers(value) or natural(value.rank)
        return best.order

    def _order_of_readers(self, value: Value) -> Order | None:
        """How all kernels that read a value want its axes to lie, where they agree."""
        table = kernels_of(self.machine)
        wishes: dict[Node | Graph, Order | None] = {}
        for user, index in value.uses:
            wish = table.of(user).reads_in if isinstance(user, Node) and index == 0 else None
            wishes[user] = None if wish is None else wish(value.rank)
        if not any(wishes.values()):
            return None
        orders = {wish for user, wish in wishes.items() if self._is_needed(user)}
        return orders.pop() if len(orders) == 1 else None

    def _is_needed(self, user: Node | Graph) -> bool:
        """Whether outputs of its graph depend on a node: what expansions have replaced is still
        there.
        """
        graph = user.graph if isinstance(user, Node) else None
        if graph is None or isinstance(user, Graph):
            return True
        if self._live is None or self._live[0] is not graph:
            live: set[Node] = set()
            left = [v.producer for v in graph.outputs if v.producer is not None]
            while left:
                node = left.pop()
                if node not in live:
                    live.add(node)
                    left += [v.producer for v in node.operands() if v.producer is not None]
            self._live = graph, live
        return user in self._live[1]

    def _operand(self, value: Value, space: IterationSpace, vector: bool) -> Tensor:
        """An operand that the space can address: with column stride 0 or 1 for vectors, any stride
        for scalars.
        """
        tensor = self.storage.tensor(value)
        if space.column_stride(tensor) in (0, 1) or (not vector and value.const is None):
            return tensor
        shift = len(space.shape) - tensor.rank
        order = tuple(a - shift for a in space.order if a >= shift)
        return self.storage.arranged(tensor, order, value)

    def sink(
        self,
        f: FunctionWriter,
        group: Group,
        order: Order,
        *,
        bias: Tensor | None = None,
        scale: float = 1.0,
        inner: int = 1,
        before: tuple[Term, Sequence[Tensor]] | None = None,
        name: str = "sink",
        part: Part | None = None,
    ) -> str:
        """Define the sink of an anchored group in `f`: scale, bias, fused elementwise work, stores.
        Returns its name.

        `before` comes first: a formula of what the kernel gives (its input 0) and of tensors that
        are repeated. The kernel's rows and columns run over the result's axes in `order`, the last
        `inner` of them being columns; with `part`, over those of that part of the result, to which
        other calls add theirs.
        """
        space = IterationSpace(group.result.shape, order, inner)
        operands = group.operands()
        tensors = {v: self._operand(v, space, vector=True) for v in operands}
        places = {v: self._target(f, v, order, makes_part=part is not None) for v in group.results}
        targets = places
        if part is not None:
            space = part.space
            targets = {v: part.of(place) for v, place in places.items()}
            tensors = {v: part.of(tensor) for v, tensor in tensors.items()}
            bias = None if bias is None else part.of(bias)
        body = Epilogue(f, group, space, tensors, targets)
        start: Source = "acc"
        if before is not None:
            start = body.apply(before[0], start, *map(body.load, before[1]))
        if scale != 1.0:
            start = body.apply(_SUM * scale, start)
        work = body.statement(self._biased(body, start, bias))
        if part is not None:
            work = part.told(work)
        f.add(Work(name, SINK, work))
        self.storage.tensors.update(places)
        return name

    def wide_sink(
        self, f: FunctionWriter, group: Group, order: Order, most: int | None = None
    ) -> tuple[str, Dim]:
        """As `sink`, for kernels that take any number of columns: as many of the inner axes, at
        most `most`, as lie side by side wherever it reads and stores. Returns its name and columns.
        """
        space = IterationSpace(group.result.shape, order)
        tensors = {v: self._operand(v, space, vector=True) for v in group.operands()}
        targets = {v: self._target(f, v, order) for v in group.results}
        space = space.widened([*tensors.values(), *targets.values()], most)
        work = Epilogue(f, group, space, tensors, targets).statement("acc")
        f.add(Work("sink", SINK, work))
        self.storage.tensors.update(targets)
        return "sink", space.columns

    def _target(
        self, f: FunctionWriter, value: Value, order: Order, *, makes_part: bool = False
    ) -> Tensor:
        """A place for what a sink stores: as bfloat16 where its readers take that; the one that
        there is, where sinks of other calls made parts of the value.
        """
        axis = rounded_axis(value, self.precisions, self.machine)
        rounded = axis is not None and order[-1:] == (axis,)
        if rounded:
            f.function.stores_rounded = True
        if makes_part and value in self.storage.tensors:
            return self.storage.tensors[value]
        return self.storage.allocate(value, order, strided=True, rounded=rounded)

    def stage(
        self, f: FunctionWriter, group: Group, order: Order, bias: Tensor | None, name: str
    ) -> None:
        """Define in `f` what an anchored group makes of sums, for the kernel of another group that
        goes on with it.

        Beside the sums it may read only what has the same value in every row.
        """
        body = self._inner_body(f, group, order)
        work = body.statement(self._biased(body, "acc", bias), group.result)
        f.add(Work(name, ("acc", "col", "lanes"), work))

    def values(self, f: FunctionWriter, group: Group, order: Order, name: str) -> None:
        """Define in `f` what elementwise work makes by row and column, for the kernel of the group
        that reads it.
        """
        work = self._inner_body(f, group, order).statement("", group.result)
        f.add(Work(name, VALUES, work))

    def made_rows(self, f: FunctionWriter, group: Group, reader: Group, name: str) -> None:
        """Define in `f` what elementwise work makes by row and column, for the kernel of `reader`,
        whose sink is there. That asks for each element of a row once, before its sink gets the row.
        Values that others read are stored.
        """
        value = group.result
        space = IterationSpace(value.shape, natural(value.rank))
        tensors = {v: self._operand(v, space, vector=True) for v in group.operands()}
        targets = {v: self.storage.allocate(v, space.order, strided=True) for v in group.results}
        later = [self.storage.tensors[v] for v in reader.results]
        body = Epilogue(f, group, space, tensors, targets, later, reader.operands())
        f.add(Work(name, VALUES, body.statement("", value)))
        self.storage.tensors.update(targets)

    def lie_in_rows(self, group: Group) -> bool:
        """Whether a function of row and column can load all operands of elementwise work where they
        lie, the rows in natural order.
        """
        space = IterationSpace(group.result.shape, natural(group.result.rank))
        tensors = (self.storage.tensor(v) for v in group.operands() if v.const is None)
        return all(space.column_stride(tensor) in (0, 1) for tensor in tensors)

    def _inner_body(self, f: FunctionWriter, group: Group, order: Order) -> Epilogue:
        space = IterationSpace(group.result.shape, order)
        tensors = {v: self._operand(v, space, vector=True) for v in group.operands()}
        return Epilogue(f, group, space, tensors, {})

    def _biased(self, body: Epilogue, start: Source, bias: Tensor | None) -> Source:
        """The sum of `start` and a bias."""
        if bias is None:
            return start
        if body.space.column_stride(bias) not in (0, 1):
            bias = self.storage.arranged(bias, natural(bias.rank))
        return body.apply(_SUM + _BIAS, start, body.load(bias))
