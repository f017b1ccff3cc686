"""From the optimized graph to steps: decides where values lie, which copies are needed, and lowers
every group.

How one operator becomes a kernel call stands in `lower/`, registered in the `KernelTable`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NoReturn

from infuse import dtypes
from infuse.errors import UnsupportedOperatorError
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value, captured
from infuse.ir.relations import Relation
from infuse.ir.states import check_states, is_state, results_of
from infuse.ir.types import Shape, StateType, TensorType
from infuse.lowering.choice import Chooser, PackedWeights
from infuse.lowering.choices import Choices
from infuse.lowering.concat_slots import ConcatSlots
from infuse.lowering.expressions import Element, Invocation, Operation, Pointed, Size
from infuse.lowering.fusing import Fusing
from infuse.lowering.groups import Group
from infuse.lowering.kernel_table import KernelFamily, KernelTable, kernels_of
from infuse.lowering.liveness import is_known, live_nodes, relations_of
from infuse.lowering.partition import join_readers, partition
from infuse.lowering.precisions import LayerPrecisions, Precision
from infuse.lowering.producers import Producers, fuse_producers
from infuse.lowering.program import Program, Step
from infuse.lowering.readers import Readers
from infuse.lowering.size_checks import SizeChecks
from infuse.lowering.storage import MOST_AXES, Storage
from infuse.lowering.tensors import Buffer, Tensor, dense, is_native_type, natural
from infuse.lowering.writer import FunctionWriter
from infuse.targets import Machine


def _check_interface(graph: Graph) -> None:
    """UnsupportedOperatorError unless inputs and outputs are tensors of known rank and native
    element types.
    """
    for value in (*graph.inputs, *graph.outputs):
        if not is_native_type(value.type):
            raise UnsupportedOperatorError(
                f"{value.name!r} is a {value.type}, which native code does not take"
            )


def lower(
    graph: Graph,
    name: str,
    machine: Machine,
    threads: int = 1,
    precision: Precision = "fp32",
    chooser: Chooser | None = None,
    relied: Mapping[Graph, Sequence[tuple[Node, Relation]]] | None = None,
) -> Program:
    """The program of a graph for a machine, to be run mostly with `threads` threads.

    `chooser` decides where several kernels compute the same (default: the cost model); `relied` is
    by graph what has to hold besides what its nodes rely on. UnsupportedOperatorError where a node
    has no native code.
    """
    lowering = Lowering(
        graph, name, machine, threads, precision, chooser=chooser, relied=relied or {}
    )
    constants = (value.const for inner in graph.all_graphs() for value in inner.constants())
    lowering.program.weights.hash(array for array in constants if array is not None)
    return lowering.run()


class Lowering:
    """The state of one lowering: the program so far, and the `storage` of its values.

    `machine` and `precisions` are those of the outermost graph; `precision` is that of the layer
    that is being lowered. `chooser` decides where several kernels compute the same.
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        machine: Machine,
        threads: int = 1,
        precision: Precision = "fp32",
        parent: Lowering | None = None,
        chooser: Chooser | None = None,
        relied: Mapping[Graph, Sequence[tuple[Node, Relation]]] | None = None,
    ) -> None:
        self.graph = graph
        self.relied: Mapping[Graph, Sequence[tuple[Node, Relation]]]
        self.relied = parent.relied if parent is not None else relied or {}
        self.chooser: Chooser = (
            parent.chooser if parent is not None else chooser or Chooser(machine, threads)
        )
        self.machine, self.threads = machine, threads
        self.precisions = LayerPrecisions.of(precision)
        self.precision = self.precisions.default
        _check_interface(graph)
        check_states(graph)
        inputs = [v.tensor for v in graph.inputs]
        sizes = set().union(*(dims.symbols(d) for t in inputs for d in t.shape or ()))
        if parent is not None:
            sizes |= parent.program.available_sizes
        self.program: Program = Program(
            name,
            sorted(sizes),
            [(v.name, v.dtype, v.shape) for v in graph.inputs],
            [(n, v.dtype, v.shape) for n, v in results_of(graph)],
            graph=graph,
            states=frozenset(i for i, v in enumerate(graph.inputs) if is_state(v)),
        )
        self.root: Lowering = self if parent is None else parent.root
        if parent is not None:
            self.program.weights = parent.program.weights
            self.root.program.bodies.append(self.program)
            self.program.number = len(self.root.program.bodies)
        self.symbols_made = 0
        self.checks = SizeChecks(self.program)
        outer = parent.storage if parent is not None else None
        self.storage: Storage = Storage(graph, self.program, outer)
        self.needed: list[Node] = []
        self._choices = Choices(self.program)

    @property
    def lanes(self) -> int:
        """Floats of a vector."""
        return self.machine.lanes

    def choose(
        self, family: str, sizes: Sequence[Dim], *names: str, packed: PackedWeights | None = None
    ) -> str:
        """The candidate to take for a call with these sizes, which stores weights as `packed` says;
        the steps of the group remember why.
        """
        if len(names) == 1:
            return names[0]
        chooser = self.chooser.of(self.precision)
        return self._choices.add(chooser.choose(family, sizes, names, packed))

    def function(self, name: str, *nodes: Node | None, control: bool = False) -> FunctionWriter:
        """A new step under construction; `control`: it runs bodies."""
        return FunctionWriter(self.program, name, [n for n in nodes if n is not None], control)

    @cached_property
    def kernels(self) -> KernelTable:
        """The kernels of the machine."""
        return kernels_of(self.machine)

    def _reads_parts(self, node: Node, axis: int) -> bool:
        return self.kernels.of(node).reads_parts(node, axis)

    @cached_property
    def fusing(self) -> Fusing:
        """What adds elementwise work to the program."""
        return Fusing(self.storage, self.program, self.precisions, self.machine)

    def run(self, aliases: Mapping[int, int] | None = None) -> Program:
        """The program. `aliases`: outputs that may be left where the body's input of that number
        lies.
        """
        for number, value in enumerate(self.graph.inputs):
            buffer = Buffer("input", 0, number, label=value.name)
            self.storage.tensors[value] = dense(buffer, value.dtype, value.shape)
            if value.default is not None:
                self.program.defaults[number] = self.program.weight(value.default)
        self.needed = live_nodes(self.graph, set(self.program.symbols), self.reads)
        self.storage.homes = ConcatSlots(
            self.graph, self.needed, self.program.available_sizes, self._reads_parts
        )
        expanded = list(self.relied.get(self.graph, ()))
        for group in self._groups():
            expanded = self.checks.add_all(expanded)
            try:
                self._lower_group(group)
            except UnsupportedOperatorError as error:
                error.serial = (group.anchor or group.nodes[0]).serial
                raise
        for node, _ in self.checks.add_all(expanded):
            self.unsupported(node, "sizes that depend on the elements of its inputs")
        self._deliver_outputs(aliases or {})
        return self.program

    def body(self, graph: Graph, aliases: Mapping[int, int] | None = None) -> Lowering:
        """The finished lowering of a body."""
        made = Lowering(
            graph, graph.name or "body", self.machine, self.threads, self.precisions, self
        )
        made.run(aliases)
        return made

    def _groups(self) -> list[Group]:
        """What becomes one kernel each, in execution order."""
        readers = Readers(self.graph, set(self.needed))
        groups = fuse_producers(
            self.graph, partition(self.needed, self.kernels), readers, self._producers
        )
        return join_readers(self.graph, groups, readers, self.kernels)

    def _producers(self, group: Group, producers: Producers) -> list[Group]:
        """The groups that the kernel of a group's anchor computes itself, in its own precision."""
        assert group.anchor is not None
        fusion = self.kernels.of(group.anchor).fusion
        self.precision = self.precisions[group.anchor]
        chosen = [] if fusion is None else fusion.choose(self, group, producers)
        anchors = [inner.anchor for inner in chosen if inner.anchor is not None]
        return chosen if all(self.precisions[a] == self.precision for a in anchors) else []

    # -- planning ----------------------------------------------------------------------------------

    def reads(self, node: Node) -> list[Value]:
        """The values whose elements a node needs at run time: also sizes and axes that nobody knows
        before.
        """
        return [*self.kernels.runtime_operands(node, is_known), *captured(node)]

    # -- groups ------------------------------------------------------------------------------------

    def _lower_group(self, group: Group) -> None:
        waiting = {}
        for inner in group.all_nodes:
            self._check_results(inner)
            waiting[inner] = self.checks.add(inner, relations_of(inner))
        first = len(self.program.steps)
        last, node = group.nodes[-1], group.anchor
        results = [v for part in (*group.producers, group) for v in part.results]
        family = KernelFamily() if node is None else self.kernels.of(node)
        function = family.fusion.lower if family.fusion and group.producers else family.lower
        if all(v.tensor.size == 0 for v in last.outputs) and not last.subgraphs:
            results = list(dict.fromkeys([*results, *last.outputs]))
            self.storage.tensors.update((v, self.storage.allocate(v)) for v in results)
        elif node is None:
            self.fusing.elementwise(group)
        elif function is None:
            self.unsupported(node)
        else:
            known = self.are_known(node) and self._has_known_parameters(node)
            if family.resolve_sizes is not None and not known:
                family.resolve_sizes(self, node)
            self.precision = self.precisions[node]
            function(self, node, group)
        self._choices.settle(first)
        if node is not None:
            self._note_precision(node, first)
        for inner, relied in waiting.items():
            if not self.are_known(inner) or self.checks.add(inner, relied):
                self.unsupported(inner, "results whose sizes depend on the elements of its inputs")

    def _note_precision(self, node: Node, first: int) -> None:
        """Let the steps from number `first` on, those of a layer, tell what they compute in."""
        steps = self.program.steps[first:]
        if node.outputs[0].dtype != dtypes.float32 or not any(map(_is_low, steps)):
            return
        self.root.program.layers[node.serial] = self.precision
        for step in steps:
            step.precision = self.precision

    def _has_known_parameters(self, node: Node) -> bool:
        """Whether all inputs that only shape the result are known before the run."""
        family = self.kernels.of(node)
        return all(v is None or family.reads(i) or is_known(v) for i, v in enumerate(node.inputs))

    def _check_results(self, node: Node) -> None:
        """UnsupportedOperatorError unless the results are tensors of known rank, and these and the
        operands have elements that there is code for.
        """
        for value in (*node.operands(), *node.outputs):
            if isinstance(value.type, TensorType) and not self.kernels.computes(value.dtype):
                self.unsupported(node, f"elements of {value.dtype} on this target")
            if len(getattr(value.type, "shape", None) or ()) > MOST_AXES:
                self.unsupported(node, f"tensors of more than {MOST_AXES} axes")
        for value in node.outputs:
            if not isinstance(value.type, TensorType | StateType) or value.tensor.shape is None:
                self.unsupported(node, "sequences and results of unknown rank")

    def are_known(self, node: Node) -> bool:
        """Whether the sizes of the results are known by now."""
        return (
            set().union(*(dims.symbols(d) for v in node.outputs for d in v.shape))
            <= self.program.available_sizes
        )

    def resolve_sizes(self, f: FunctionWriter, node: Node, shape: Shape, sizes: str) -> None:
        """Let `f` find the sizes in `shape`, which are in its array `sizes`; known ones are
        checked.
        """
        f.fail_unless(Invocation("is_possible", (sizes, str(len(shape)))))
        for axis, size in enumerate(shape):
            unknown = dims.symbols(size) - self.program.available_sizes
            if not unknown:
                same = Operation("==", (Element(sizes, axis), Size(size)))
                f.fail_unless(same, "DIFFERENT_SIZES")
            elif size == dims.symbol(min(unknown)):
                f.assign(Pointed(f.resolves(min(unknown))), Element(sizes, axis))
            else:
                self.unsupported(node, f"a result of size {size}")

    def unsupported(self, node: Node, why: str = "") -> NoReturn:
        """Raise the error for a node without native code."""
        opset = self.graph.opsets.get(node.op.domain)
        raise UnsupportedOperatorError(
            f"operator {node.kind} has no native code{f' for {why}' if why else ' yet'}",
            where=(
                f"node {node.name!r} (domain "
                f"{node.op.domain or 'ai.onnx'}{f', opset {opset}' if opset else ''})"
            ),
            hint="the interpreter can run it: infuse.compile does that in a stage of its own",
        )

    # -- outputs -----------------------------------------------------------------------------------

    def _deliver_outputs(self, aliases: Mapping[int, int]) -> None:
        for number, (_, value) in enumerate(results_of(self.graph)):
            if number in aliases and value is self.graph.inputs[aliases[number]]:
                self.program.aliases[number] = aliases[number]
                continue
            tensor = self.storage.tensor(value)
            home = tensor.buffer
            lies_there = home.kind == "output" and home.number == number and tensor.offset == 0
            if lies_there and tensor.is_dense(natural(tensor.rank)):
                continue
            target = dense(Buffer("output", 0, number), value.dtype, value.shape)
            self.storage.copy(tensor, target, "output")


def _is_low(step: Step) -> bool:
    """Whether the kernel of a layer of float32 rounds operands, or reads weights that were."""
    tensors = [a for a in step.arguments if isinstance(a, Tensor) and a.buffer.kind == "weight"]
    halves = any(tensor.dtype == dtypes.float16 for tensor in tensors)
    return halves or any("_bf16" in name for name in step.function.includes)
