"""From the optimized graph to steps: decides where values lie, which copies are needed, and lowers
every group.

How one operator becomes a kernel call stands in `lower/`, registered with `@lowers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from infuse import dtypes
from infuse.codegen.autotune.selector import Chooser
from infuse.codegen.bf16_values import stored_rounded
from infuse.codegen.concat_slots import ConcatSlots
from infuse.codegen.epilogue import Epilogue
from infuse.codegen.formulas import literal
from infuse.codegen.groups import Group, cost, is_vector_term, partition, register_fusible
from infuse.codegen.iteration_space import IterationSpace
from infuse.codegen.liveness import is_known, live_nodes, relations_of
from infuse.codegen.placing import Placing
from infuse.codegen.producers import Producers, fuse_producers
from infuse.codegen.program import Program, size_text
from infuse.codegen.tensors import Buffer, Order, Tensor, dense, natural
from infuse.codegen.writer import FunctionWriter
from infuse.errors import UnsupportedOperatorError
from infuse.ir import dims
from infuse.ir.graph import Graph, Node, Value, captured
from infuse.ir.relations import Relation
from infuse.ir.types import Shape, TensorType
from infuse.targets import Machine

Lower = Callable[["Lowering", Node, Group], None]
_LOWERINGS: dict[tuple[str, str], Lower] = {}
_READS: dict[tuple[str, str], tuple[int, ...]] = {}
_SIZES: dict[tuple[str, str], Callable[[Lowering, Node], None]] = {}


def lowers(
    *kinds: str,
    domain: str = "",
    has_epilogue: bool = False,
    accumulates: dtypes.DType = dtypes.float32,
    runtime_inputs: tuple[int, ...] | None = None,
) -> Callable[[Lower], Lower]:
    """Register how operators become steps.

    `has_epilogue`: the kernel ends in a sink, which gets elements of the type that it
    `accumulates`. `runtime_inputs`: those whose elements are read at run time (the others only
    shape the result).
    """

    def register(function: Lower) -> Lower:
        for kind in kinds:
            _LOWERINGS[domain, kind] = function
            _READS.pop((domain, kind), None)
            if runtime_inputs is not None:
                _READS[domain, kind] = runtime_inputs
            register_fusible(domain, kind, accumulates if has_epilogue else None)
        return function

    return register


ChooseProducers = Callable[["Lowering", Group, Producers], list[Group]]
"""The groups, in order, that the kernel of a group's anchor can compute itself and gains by it."""


@dataclass(frozen=True)
class _WithProducers:
    choose: ChooseProducers
    lower: Lower


_WITH_PRODUCERS: dict[tuple[str, str], _WithProducers] = {}


def fuses_producers(
    kind: str, choose: ChooseProducers, domain: str = ""
) -> Callable[[Lower], Lower]:
    """Register how operators become steps that compute what they read themselves, and when they
    do.
    """

    def register(function: Lower) -> Lower:
        _WITH_PRODUCERS[domain, kind] = _WithProducers(choose, function)
        return function

    return register


def resolves_sizes(
    *kinds: str, domain: str = ""
) -> Callable[[Callable[[Lowering, Node], None]], Any]:
    """Register a step that finds the sizes of results from elements of inputs; it runs before the
    lowering.
    """

    def register(function: Callable[[Lowering, Node], None]) -> Callable[[Lowering, Node], None]:
        _SIZES.update({(domain, kind): function for kind in kinds})
        return function

    return register


def has_lowering(node: Node) -> bool:
    """Whether a node that is not elementwise has a native kernel."""
    return has_kernel(node.op.domain, node.kind)


def has_kernel(domain: str, kind: str) -> bool:
    """Whether nodes of an operator that is not elementwise have a native kernel."""
    return (domain, kind) in _LOWERINGS


def lower(
    graph: Graph,
    name: str,
    machine: Machine,
    threads: int = 1,
    precision: str = "fp32",
    chooser: Chooser | None = None,
    relied: Mapping[Graph, Sequence[tuple[Node, Relation]]] | None = None,
) -> Program:
    """The program of a graph for a machine, to be run mostly with `threads` threads.

    `chooser` decides where several kernels compute the same (default: the cost model); `relied` is
    by graph what has to hold besides what its nodes rely on. UnsupportedOperatorError where a node
    has no native code.
    """
    return Lowering(
        graph, name, machine, threads, precision, chooser=chooser, relied=relied or {}
    ).run()


class Lowering(Placing):
    """The state of one lowering: the program so far and where every value lies."""

    def run(self, aliases: Mapping[int, int] | None = None) -> Program:
        """The program. `aliases`: outputs that may be left where the body's input of that number
        lies.
        """
        for number, value in enumerate(self.graph.inputs):
            buffer = Buffer("input", 0, number, label=value.name)
            self.tensors[value] = dense(buffer, value.dtype, value.shape)
            if value.default is not None:
                self.program.defaults[number] = self.program.weight(value.default)
        self.needed = live_nodes(self.graph, set(self.program.symbols), self.reads)
        self.homes = ConcatSlots(self.graph, self.needed, self.available_sizes)
        expanded = list(self.relied.get(self.graph, ()))
        for group in fuse_producers(
            self.graph, partition(self.needed), set(self.needed), self._producers
        ):
            expanded = self._check_all(expanded)
            try:
                self._lower_group(group)
            except UnsupportedOperatorError as error:
                error.serial = (group.anchor or group.nodes[0]).serial
                raise
        for node, _ in self._check_all(expanded):
            self.unsupported(node, "sizes that depend on the elements of its inputs")
        self._deliver_outputs(aliases or {})
        return self.program

    def body(self, graph: Graph, aliases: Mapping[int, int] | None = None) -> Lowering:
        """The finished lowering of a body."""
        made = Lowering(
            graph, graph.name or "body", self.machine, self.threads, self.precision, self
        )
        made.run(aliases)
        return made

    def _producers(self, group: Group, producers: Producers) -> list[Group]:
        """The groups that the kernel of a group's anchor computes itself."""
        assert group.anchor is not None
        fusing = _WITH_PRODUCERS.get((group.anchor.op.domain, group.anchor.kind))
        return [] if fusing is None else fusing.choose(self, group, producers)

    # -- planning ----------------------------------------------------------------------------------

    def reads(self, node: Node) -> list[Value]:
        """The values whose elements a node needs at run time: also sizes and axes that nobody knows
        before.
        """
        numbers = _READS.get((node.op.domain, node.kind))
        places = range(len(node.inputs)) if numbers is None else numbers
        picked = [
            v
            for i, v in enumerate(node.inputs)
            if v is not None and (i in places or not is_known(v))
        ]
        return [*picked, *captured(node)]

    def _check_all(self, relied: Iterable[tuple[Node, Relation]]) -> list[tuple[Node, Relation]]:
        """Checks of those relations whose sizes are known by now; the others."""
        return [(node, relation) for node, relation in relied if self._check(node, [relation])]

    def _check(self, node: Node, relied: Iterable[Relation]) -> list[Relation]:
        """Checks, before the run or now, of those relations whose sizes are known; the others."""
        later = []
        for relation in relied:
            if relation in self.checked:
                continue
            text = f"{node.kind} node {node.name!r} needs {relation}"
            if relation.symbols <= set(self.program.symbols):
                condition = relation.c_text(size_text(relation.a), size_text(relation.b))
                self.program.checks.append((condition, text))
            elif relation.symbols <= self.available_sizes:
                f = self.function("check", node)
                left, right = f.number(relation.a), f.number(relation.b)
                f.fail_unless(relation.c_text(left, right), "DIFFERENT_SIZES")
                f.finish(text)
            else:
                later.append(relation)
                continue
            self.checked.add(relation)
        return later

    # -- groups ------------------------------------------------------------------------------------

    def _lower_group(self, group: Group) -> None:
        waiting = {}
        for inner in group.all_nodes:
            self._check_results(inner)
            waiting[inner] = self._check(inner, relations_of(inner))
        first = len(self.program.steps)
        last, node = group.nodes[-1], group.anchor
        function = None if node is None else _lowering(group, node)
        if all(v.tensor.size == 0 for v in last.outputs) and not last.subgraphs:
            self.tensors.update((v, self.allocate(v)) for v in last.outputs)
        elif node is None:
            self.elementwise(group)
        elif function is None:
            self.unsupported(node)
        else:
            resolve = _SIZES.get((node.op.domain, node.kind))
            if resolve is not None and not (
                self.are_known(node) and self._has_known_parameters(node)
            ):
                resolve(self, node)
            function(self, node, group)
        self.remember_choices(first)
        for inner, relied in waiting.items():
            if not self.are_known(inner) or self._check(inner, relied):
                self.unsupported(inner, "results whose sizes depend on the elements of its inputs")

    def _has_known_parameters(self, node: Node) -> bool:
        """Whether all inputs that only shape the result are known before the run."""
        numbers = _READS.get((node.op.domain, node.kind))
        return numbers is None or all(
            v is None or i in numbers or is_known(v) for i, v in enumerate(node.inputs)
        )

    def _check_results(self, node: Node) -> None:
        """UnsupportedOperatorError unless the results are tensors of known rank."""
        for value in node.outputs:
            if not isinstance(value.type, TensorType) or value.type.shape is None:
                self.unsupported(node, "sequences and results of unknown rank")

    def are_known(self, node: Node) -> bool:
        """Whether the sizes of the results are known by now."""
        return (
            set().union(*(dims.symbols(d) for v in node.outputs for d in v.shape))
            <= self.available_sizes
        )

    def resolve_sizes(self, f: FunctionWriter, node: Node, shape: Shape, sizes: str) -> None:
        """Let `f` find the sizes in `shape`, which are in its array `sizes`; known ones are
        checked.
        """
        f.include("sizes.hpp")
        f.fail_unless(f"is_possible({sizes}, {len(shape)})")
        for axis, size in enumerate(shape):
            unknown = dims.symbols(size) - self.available_sizes
            if not unknown:
                f.fail_unless(f"{sizes}[{axis}] == {size_text(size)}", "DIFFERENT_SIZES")
            elif size == dims.symbol(min(unknown)):
                f.assign(f"*{f.resolves(min(unknown))}", f"{sizes}[{axis}]")
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

    def elementwise(self, group: Group) -> None:
        """A step for elementwise work without an anchor."""
        value = group.result
        terms = [group.formulas[n] for n in group.nodes]
        operands = group.operands()
        order = self._main_order(value, operands)
        vector = all(map(is_vector_term, terms))
        space = IterationSpace(value.shape, order)
        tensors = {v: self._operand(v, space, vector) for v in operands}
        target = self.allocate(value, order, strided=True)
        space = space.widened([*tensors.values(), target])
        f = self.function(
            "_".join(dict.fromkeys(n.kind.lower() for n in group.nodes)), *group.nodes
        )
        f.include("map.hpp", "element.hpp")
        body = Epilogue(f, group, space, tensors, target)
        text = body.text("")
        if body.printer.divides:
            f.variable("bool", **{"zero": "false", "*const found_zero": "&zero"})
        rows, columns = f.number(space.rows), f.number(space.columns)
        kernel = "map2d" if vector else "map_scalar"
        parameters = "long row, long col, auto lanes" if vector else "long row, long col"
        head = "using L = decltype(lanes);" if vector else "using L = One; const One lanes{};"
        with f.map(kernel, rows, columns, parameters=parameters, cost=sum(map(cost, terms))):
            f.text(head, *text)
        if body.printer.divides:
            f.fail_unless("!zero", "DIVIDES_BY_ZERO")
        self.tensors[value] = target
        f.finish(" + ".join(n.kind for n in group.nodes))

    def _main_order(self, value: Value, operands: Iterable[Value]) -> Order:
        """The memory order of a result: that of the operand of its shape, computed ones first."""
        best: Tensor | None = None
        for operand in operands:
            if operand.is_const or operand.shape != value.shape:
                continue
            tensor = self.tensor(operand)
            if best is None or (
                best.order == natural(best.rank) and tensor.order != natural(tensor.rank)
            ):
                best = tensor
        return best.order if best is not None else natural(value.rank)

    def _operand(self, value: Value, space: IterationSpace, vector: bool) -> Tensor:
        """An operand that the space can address: with column stride 0 or 1 for vectors, any stride
        for scalars.
        """
        tensor = self.tensor(value)
        if space.column_stride(tensor) in (0, 1) or (not vector and value.const is None):
            return tensor
        shift = len(space.shape) - tensor.rank
        order = tuple(a - shift for a in space.order if a >= shift)
        return self.arranged(tensor, order, value)

    def sink(
        self,
        f: FunctionWriter,
        group: Group,
        order: Order,
        *,
        bias: Tensor | None = None,
        scale: float = 1.0,
        inner: int = 1,
        before: Callable[[Callable[[Tensor], str]], str] | None = None,
        name: str = "sink",
    ) -> str:
        """Define the sink of an anchored group in `f`: scale, bias, fused elementwise work, store.
        Returns its name.

        `before` writes what comes first, an expression in `acc`; it is given a function that loads
        a broadcast tensor. The kernel's rows and columns run over the result's axes in `order`, the
        last `inner` of them being columns.
        """
        value = group.result
        space = IterationSpace(value.shape, order, inner)
        operands = group.operands()
        tensors = {v: self._operand(v, space, vector=True) for v in operands}
        rounded = (
            self.precision == "bf16" and order[-1:] == (value.rank - 1,) and stored_rounded(value)
        )
        target = self.allocate(value, order, strided=True, rounded=rounded)
        if rounded:
            f.include("half.hpp")
        body = Epilogue(f, group, space, tensors, target)
        start = "acc" if before is None else body.printer.define(before(body.load))
        if scale != 1.0:
            start = body.printer.define(f"acc * splat<L>({literal(scale, dtypes.float32)})")
        text = body.text(self._biased(body, start, bias))
        _define(f, name, "auto acc, long row, long col, auto lanes", text)
        self.tensors[value] = target
        return name

    def stage(
        self, f: FunctionWriter, group: Group, order: Order, bias: Tensor | None, name: str
    ) -> None:
        """Define in `f` what an anchored group makes of sums, for the kernel of another group that
        goes on with it.

        Beside the sums it may read only what has the same value in every row.
        """
        body = self._inner_body(f, group, order)
        _define(
            f, name, "auto acc, long col, auto lanes", body.value(self._biased(body, "acc", bias))
        )

    def values(self, f: FunctionWriter, group: Group, order: Order, name: str) -> None:
        """Define in `f` what elementwise work makes by row and column, for the kernel of the group
        that reads it.
        """
        _define(
            f, name, "long row, long col, auto lanes", self._inner_body(f, group, order).value("")
        )

    def _inner_body(self, f: FunctionWriter, group: Group, order: Order) -> Epilogue:
        space = IterationSpace(group.result.shape, order)
        return Epilogue(
            f, group, space, {v: self._operand(v, space, vector=True) for v in group.operands()}
        )

    def _biased(self, body: Epilogue, start: str, bias: Tensor | None) -> str:
        """The sum of `start` and a bias."""
        if bias is None:
            return start
        if body.space.column_stride(bias) not in (0, 1):
            bias = self.arranged(bias, natural(bias.rank))
        return body.printer.define(f"{start} + {body.load(bias)}")

    # -- outputs -----------------------------------------------------------------------------------

    def _deliver_outputs(self, aliases: Mapping[int, int]) -> None:
        for number, value in enumerate(self.graph.outputs):
            if number in aliases and value is self.graph.inputs[aliases[number]]:
                self.program.aliases[number] = aliases[number]
                continue
            tensor = self.tensor(value)
            home = tensor.buffer
            if home.kind == "output" and home.number == number and tensor.offset == 0:
                continue
            target = dense(Buffer("output", 0, number), value.dtype, value.shape)
            self.copy(tensor, target, "output")


def _lowering(group: Group, node: Node) -> Lower | None:
    """What makes steps of an anchored group, None where there is nothing."""
    key = (node.op.domain, node.kind)
    return _WITH_PRODUCERS[key].lower if group.producers else _LOWERINGS.get(key)


def _define(f: FunctionWriter, name: str, parameters: str, text: list[str]) -> None:
    """Define a function of `lanes` and others inside of `f`."""
    f.include("element.hpp")
    with f.define(name, parameters):
        f.text("using L = decltype(lanes);", *text)
