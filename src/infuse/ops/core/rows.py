"""Whether the rows of a batch are independent: what each value of a graph has to do with the rows
of the inputs, derived operator by operator.

A value is *constant* (the same whatever rows there are), a *count* (it depends on how many there
are), has *rows* along one of its axes (what lies at a row's places depends on that row of the
inputs alone), or is *mixed*. What is not proven counts as mixed. *Numbered* indices have rows, too,
but that the first number of each is that of its row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import Any, Final, TypeVar

from infuse.catalog import Catalog, calling_module
from infuse.immutable import Immutable
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.dims.expression import exact_divide, symbols
from infuse.ir.dims.substitution import product
from infuse.ir.graph import Graph, Node, Value, captured
from infuse.ir.types import TensorType
from infuse.ops.core.base import Elementwise, Op
from infuse.ops.core.traits import Trait, has_trait


class Kind(Enum):
    """What a value has to do with the rows of a batch."""

    CONSTANT = "constant"
    COUNT = "count"
    ROWS = "rows"
    NUMBERED = "numbered"
    MIXED = "mixed"


class Dependence(Immutable):
    """What one value has to do with the rows.

    With `Kind.ROWS`, `axis` has outer · batch · inner places, and those of row b are
    (o · batch + b) · inner + i for all o and i. With `Kind.MIXED`, `node` is where the proof ended,
    and `why`.
    """

    kind: Kind
    axis: int = 0
    outer: Dim = 1
    inner: Dim = 1
    node: Node | None = None
    why: str = ""

    def moved(self, axis: int) -> Dependence:
        """The same rows along another axis."""
        return Dependence(Kind.ROWS, axis, self.outer, self.inner)

    @property
    def layout(self) -> tuple[Dim, Dim]:
        """How rows lie along the axis."""
        return self.outer, self.inner


CONSTANT: Final = Dependence(Kind.CONSTANT)
COUNT: Final = Dependence(Kind.COUNT)


class Mixes(Exception):
    """A node for which it is not proven that rows stay apart; the text says why."""


Rule = Callable[[Any, Node, "RowProof"], Sequence[Dependence]]
_Rule = TypeVar("_Rule", bound=Rule)
_RULES: dict[type[Op], Rule] = {}
_FAMILIES: Final = Catalog("infuse.ops.rows")
_MAKERS: set[Rule] = set()
_READERS: set[Rule] = set()
COUNTED: Final = "an operand depends on how many rows there are"
ACROSS: Final = "it combines elements along the axis of the rows"
APART: Final = "the rows of its operands do not lie along the same axis"
UNKNOWN: Final = "how its operands and results go together by rows is not known"


def rows_of(*kinds: type[Op]) -> Callable[[_Rule], _Rule]:
    """Let a function say what the outputs of these operators have to do with rows, where their
    `shared_axes` do not: it gets the operator, a node, at least one of whose operands is not
    constant and none mixed, and the proof. It raises `Mixes` where rows do not stay apart.
    """
    module = calling_module()

    def state(function: _Rule) -> _Rule:
        for kind in kinds:
            _RULES[kind] = function
            _FAMILIES.note_class(kind, module)
        return function

    return state


class RowReport(Immutable):
    """Whether each row of all outputs depends on that row of the inputs alone.

    Where it is not proven, `node` is the first one that prevents it (its operator and, if it has
    one, its name), and `why` says what it does.
    """

    independent: bool
    node: str = ""
    why: str = ""

    @property
    def reason(self) -> str:
        """What prevents it, in words; empty where rows are independent."""
        return f"{self.node}: {self.why}" if self.node else self.why

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {"independent": self.independent, "reason": self.reason}


def independent_rows(graph: Graph) -> RowReport:
    """Prove that requests whose rows are put below each other get the answers that each would have
    alone, or say which node prevents it.

    Rows lie along the first axis of all inputs and outputs, whose size is a symbol.
    """
    for value in graph.inputs:
        if not _first_symbol(value):
            return RowReport(False, why=f"the first dimension of the input {value.name!r} is fixed")
    if not graph.inputs:
        return RowReport(False, why="the model has no inputs")
    proof = RowProof(graph)
    for value, name in zip(graph.outputs, graph.output_names):
        found = proof.of(value)
        if found.kind is Kind.MIXED:
            return RowReport(False, node_text(found.node), found.why)
        if found.kind is not Kind.ROWS or (found.axis, *found.layout) != (0, 1, 1):
            why = f"the rows of the output {name!r} do not lie along its first axis"
            return RowReport(False, why=why)
    return RowReport(True)


def node_text(node: Node | None) -> str:
    """A node in messages: its operator, and its name if it has one."""
    if node is None:
        return ""
    return f"{node.kind} ({node.name!r})" if node.name else node.kind


def _first_symbol(value: Value) -> str:
    shape = value.type.shape if isinstance(value.type, TensorType) else None
    first = shape[0] if shape else 0
    names = symbols(first)
    return next(iter(names)) if len(names) == 1 and first == dims.symbol(*names) else ""


class RowProof:
    """What each value of a graph has to do with the rows of its inputs, which lie along the first
    axis of each; `inputs` says where else they lie, and `batch` by what symbols they are counted.
    """

    def __init__(
        self,
        graph: Graph,
        inputs: Mapping[Value, Dependence] | None = None,
        batch: Collection[str] = (),
    ) -> None:
        self.batch = frozenset(batch or map(_first_symbol, graph.inputs))
        self._sizes = {
            name
            for value in graph.inputs
            for size in value.shape
            for name in symbols(size)
            if name not in self.batch
        }
        self._found: dict[Value, Dependence] = {}
        for value in graph.inputs:
            state = Dependence(Kind.ROWS) if inputs is None else inputs[value]
            self._found[value] = self._checked(value, state)
        self.walk(graph)

    def of(self, value: Value | None) -> Dependence:
        """What a value, or an operand that is absent, has to do with rows."""
        return CONSTANT if value is None else self._found.get(value, CONSTANT)

    def is_constant(self, value: Value | None) -> bool:
        """Whether a value is the same whatever rows there are."""
        return self.of(value).kind is Kind.CONSTANT

    def has_rows(self, size: Dim) -> bool:
        """Whether a size depends on how many rows there are."""
        return not self.batch.isdisjoint(symbols(size))

    def walk(self, graph: Graph) -> None:
        """Find what the values that a graph computes have to do with rows."""
        for node in graph.nodes:
            results = self._results(node)
            for value, result in zip(node.outputs, results):
                self._found[value] = self._checked(value, result, node)

    def body(self, graph: Graph, inputs: Sequence[Dependence]) -> list[Dependence]:
        """What the outputs of a body have to do with rows, where its inputs have this."""
        for value, dependence in zip(graph.inputs, inputs):
            self._found[value] = dependence
        self.walk(graph)
        return [self.of(value) for value in graph.outputs]

    def _results(self, node: Node) -> Sequence[Dependence]:
        operands = [*node.operands(), *captured(node)]
        states = [self.of(value) for value in operands]
        if mixed := next((s for s in states if s.kind is Kind.MIXED), None):
            return [mixed] * len(node.outputs)
        kinds = {s.kind for s in states}
        op = node.op
        try:
            if not getattr(op, "deterministic", True):
                raise Mixes("its results are random")
            rule = _rule(type(op))
            if Kind.NUMBERED in kinds and rule not in _READERS:
                raise Mixes("the numbers of rows are among its operands")
            if kinds <= {Kind.CONSTANT}:
                return [CONSTANT] * len(node.outputs)
            if has_trait(node, Trait.SIZES):
                return [COUNT] * len(node.outputs)
            if kinds <= {Kind.CONSTANT, Kind.COUNT} and rule not in _MAKERS:
                return [COUNT] * len(node.outputs)
            results = list(rule(op, node, self))
        except Mixes as reason:
            return [Dependence(Kind.MIXED, node=node, why=str(reason))] * len(node.outputs)
        missing = Dependence(Kind.MIXED, node=node, why=UNKNOWN)
        return [*results, *[missing] * (len(node.outputs) - len(results))]

    def _checked(self, value: Value, result: Dependence, node: Node | None = None) -> Dependence:
        """`result`, unless what is known of the value's elements says more, or its sizes say
        otherwise.
        """
        if result.kind is Kind.MIXED:
            return result
        if (content := value.content) is not None:
            names = {name for size in content.reshape(-1) for name in symbols(size)}
            if names <= self._sizes:
                return CONSTANT
            if names <= self._sizes | self.batch:
                return COUNT
        if result.kind in (Kind.ROWS, Kind.NUMBERED) and (why := self._unfit(value, result)):
            return Dependence(Kind.MIXED, node=node, why=why)
        return result

    def _unfit(self, value: Value, result: Dependence) -> str:
        """Why the sizes of a value are not those of so many rows; empty where they are."""
        shape = value.type.shape if isinstance(value.type, TensorType) else None
        if shape is None or result.axis >= len(shape):
            return "the shape of its result is not known"
        others = [*shape[: result.axis], *shape[result.axis + 1 :], *result.layout]
        if any(map(self.has_rows, others)):
            return "its result has the number of rows as the size of two axes"
        size = shape[result.axis]
        whole = (product((result.outer, dims.symbol(name), result.inner)) for name in self.batch)
        return "" if size in whole else f"its result has {size} places along the axis of the rows"

    def split(self, size: Dim, outer: Dim) -> Dim | None:
        """`inner` where the size is outer · batch · inner; None where it is not."""
        for name in self.batch:
            inner = exact_divide(size, product((outer, dims.symbol(name))))
            if inner is not None and not self.has_rows(inner):
                return inner
        return None

    def places(self, value: Value) -> Dependence:
        """Rows along the only axis of a value whose size has the number of rows, where all places
        along it are alike; CONSTANT where no size has it.
        """
        shape = value.tensor.shape
        if shape is None:
            raise Mixes("the shape of its result is not known")
        axes = [axis for axis, size in enumerate(shape) if self.has_rows(size)]
        if not axes:
            if any(not symbols(size) <= self._sizes for size in shape):
                raise Mixes("the shape of its result is not known")
            return CONSTANT
        inner = self.split(shape[axes[0]], 1)
        if len(axes) > 1 or inner is None:
            raise Mixes("its result has the number of rows as the size of two axes")
        return Dependence(Kind.ROWS, axes[0], 1, inner)

    def rows_in(
        self, node: Node, operands: Mapping[int, int | None], shared: Collection[int] = ()
    ) -> Dependence:
        """The rows that the operands of a node have along the axes that they must lie along:
        `operands` maps numbers of operands to these axes (None: any).

        All others must be constant. Of those that are named, the `shared` ones may be, with one
        place for all rows.
        """
        found: list[Dependence] = []
        for number, value in enumerate(node.inputs):
            state, axis = self.of(value), operands.get(number, -1)
            if state.kind is Kind.COUNT:
                raise Mixes(COUNTED)
            if state.kind is Kind.ROWS:
                if axis is not None and axis != state.axis:
                    raise Mixes(ACROSS if number in operands else UNKNOWN)
                found.append(state)
            elif value is not None and number in operands:
                shape = value.tensor.shape
                if number not in shared or shape is None or axis is None or shape[axis] != 1:
                    raise Mixes(APART)
        if len({state.layout for state in found}) != 1:
            raise Mixes(APART)
        return found[0]


def _rule(op: type) -> Rule:
    """What says of an operator how its results have rows."""
    _FAMILIES.import_for_class(op)
    return next((_RULES[kind] for kind in op.__mro__ if kind in _RULES), _by_axes)


def carried(
    node: Node,
    proof: RowProof,
    orders: Sequence[Sequence[int] | None],
    result: Sequence[int],
    mixed: Collection[int] = (),
) -> Dependence:
    """Rows of the result, where axes of operands and result with one number go together and those
    in `mixed` are computed together (as in `Axes`). A constant operand has one place along the axis
    of the rows, which all rows read.
    """
    found: set[tuple[int, Dim, Dim]] = set()
    for value, order in zip(node.inputs, orders):
        state = proof.of(value)
        if state.kind is Kind.COUNT:
            raise Mixes(COUNTED)
        if state.kind is Kind.ROWS:
            if order is None:
                raise Mixes(UNKNOWN)
            found.add((order[state.axis], *state.layout))
    if len(found) != 1:
        raise Mixes(APART)
    ((number, outer, inner),) = found
    if number in mixed or number not in result:
        raise Mixes(ACROSS)
    for value, order in zip(node.inputs, orders):
        if value is None or order is None or number not in order or not proof.is_constant(value):
            continue
        if value.shape[order.index(number)] != 1:
            raise Mixes(APART)
    return Dependence(Kind.ROWS, result.index(number), outer, inner)


def _by_axes(op: Any, node: Node, proof: RowProof) -> Sequence[Dependence]:
    """What `shared_axes` says of the first result."""
    axes = op.shared_axes(node) if isinstance(op, Op) else None
    if axes is None:
        raise Mixes(UNKNOWN)
    return [carried(node, proof, axes.operands, axes.result, axes.mixed)]


@rows_of(Elementwise)
def broadcast(op: Any, node: Node, proof: RowProof) -> Sequence[Dependence]:
    """Operands that are broadcast. Which sizes are equal or one matters along the rows' axis
    alone.
    """
    rank = node.output.tensor.rank
    if op.shared_axes(node) is not None or rank is None:
        return by_axes_all(op, node, proof)
    if any(value is not None and value.tensor.rank is None for value in node.inputs):
        raise Mixes(UNKNOWN)
    orders = [None if v is None else range(rank - v.rank, rank) for v in node.inputs]
    return [carried(node, proof, orders, range(rank))]


def by_axes_all(op: Any, node: Node, proof: RowProof) -> Sequence[Dependence]:
    """What `shared_axes` says of the first result, for all of them."""
    return list(_by_axes(op, node, proof)) * len(node.outputs)


def makes_rows(rule: _Rule) -> _Rule:
    """Let a rule also be asked where no operand has rows: sizes alone may make them."""
    _MAKERS.add(rule)
    return rule


def reads_numbers(rule: _Rule) -> _Rule:
    """Let a rule also be asked where operands are numbered."""
    _READERS.add(rule)
    return rule
