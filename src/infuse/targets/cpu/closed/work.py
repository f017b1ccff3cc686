"""Elementwise work as data: a list of instructions on registers of as many elements as a block has.

A register is memory of one C type. What an instruction computes is a function of the closed set, an
`ElementFunction`, whose text is the one that generated code has (`emit/formulas.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from infuse import dtypes
from infuse.dtypes import DType, is_narrow
from infuse.immutable import Immutable
from infuse.ir.dims import Dim
from infuse.lowering.blocks import BlockRows
from infuse.lowering.elementwise import Applied, Elementwise, Place, Scalar, Source
from infuse.lowering.groups import is_lane_integer, is_vector_type
from infuse.lowering.program import Number
from infuse.ops.core.formula import Term, may_divide_by_zero
from infuse.targets.cpu.emit.formulas import EXACT, call_text

NONE: Final = -1
"""The number of an argument that is not there: a stride of one, a divisor of one, no modulus."""
REPEATED: Final = -2
"""The column stride of what is the same in all columns."""

_BYTES: Final = {"bool": 1, "char": 1, "float16": 2, "bfloat16": 2, "float": 4, "double": 8}
WorkOperand = str | Dim | Number
"""What a code is called with: a parameter of the function by name, a size, a number."""


class ElementFunction(Immutable):
    """A function of `x0`, `x1`, … for each element: C++ text, C types of what it takes and gives,
    and whether it runs on vectors.
    """

    text: str
    takes: tuple[str, ...]
    gives: str
    in_vectors: bool


class RowCode(Immutable):
    """How rows move along an axis (`RowStep`), as numbers of arguments."""

    below: int
    size: int
    stride: int


class PlaceCode(Immutable):
    """Where elements lie (`Place`), as numbers of arguments; `bytes` each."""

    pointer: int
    bytes: int
    column: int
    rows: tuple[RowCode, ...]


class Load(Immutable):
    """A register holds the elements of a place; those themselves where `is_view`."""

    register: int
    place: PlaceCode
    is_view: bool


class Splat(Immutable):
    """A register holds an argument again and again."""

    register: int
    argument: int


class Apply(Immutable):
    """A register holds what a function gives for others."""

    register: int
    function: ElementFunction
    operands: tuple[int, ...]


class Put(Immutable):
    """The elements of a register are stored, by a function where memory has another type."""

    register: int
    function: ElementFunction | None
    place: PlaceCode


Instruction = Load | Splat | Apply | Put


class BlockAxisCode(Immutable):
    """One axis of `BlockRows`: numbers of arguments, and numbers."""

    count: int
    step: int
    cut: int
    size: int


@dataclass(frozen=True)
class WorkCode:
    """What elementwise work does for a block of columns of one row.

    `types`: the C types of registers, of which the first is what a kernel hands over, where it
    does. `result`: the register that is given back, or NONE. `blocks`: how rows and columns of the
    kernel become those of the result (`BlockRows`), with the number of the argument that is its
    columns.
    """

    types: tuple[str, ...]
    instructions: tuple[Instruction, ...]
    result: int
    blocks: tuple[int, tuple[BlockAxisCode, ...]] | None
    arguments: tuple[WorkOperand, ...] = field(compare=False)

    @property
    def result_type(self) -> str:
        """The C type of what it gives, or void."""
        return "void" if self.result == NONE else self.types[self.result]


def work_code(work: Elementwise, types: Mapping[str, DType]) -> WorkCode:
    """`work` as data. `types`: those of the parameters that are numbers, by name."""
    return _Writer(work, types).code()


def element_bytes(type: str) -> int:
    """Bytes of an element of a C type; floats of fewer than 16 bits have a byte each."""
    if type in _BYTES:
        return _BYTES[type]
    digits = "".join(c if c.isdigit() else " " for c in type).split()
    return int(digits[0]) // 8 if type.endswith("_t") else 1


def working_type(dtype: DType) -> str:
    """The C type in which elements of this one are computed."""
    return "float" if is_narrow(dtype) else dtype.c_name


class _Writer:
    """Collects the instructions of elementwise work."""

    def __init__(self, work: Elementwise, types: Mapping[str, DType]) -> None:
        self._work, self._parameters = work, types
        self._types: list[str] = []
        self._instructions: list[Instruction] = []
        self._arguments: list[WorkOperand] = []
        self._numbers: dict[str, int] = {}
        self._sources: list[int] = []
        self._views: set[int] = set()
        self._handed = NONE
        self._acc = _handed_type(work)
        if self._acc:
            self._handed = self._register(self._acc)

    def code(self) -> WorkCode:
        """All of it."""
        work = self._work
        for definition in work.definitions:
            self._sources.append(self._define(definition))
        stored = {self._source(store.source) for store in work.stores}
        for store in work.stores:
            self._store(self._source(store.source), store.place)
        result = NONE if work.result is None else self._source(work.result)
        code = tuple(
            Load(i.register, i.place, i.is_view and i.register not in stored)
            if isinstance(i, Load)
            else i
            for i in self._instructions
        )
        blocks = None if work.blocks is None else self._blocks(work.blocks)
        return WorkCode(tuple(self._types), code, result, blocks, tuple(self._arguments))

    def _register(self, type: str) -> int:
        self._types.append(type)
        return len(self._types) - 1

    def _argument(self, value: WorkOperand) -> int:
        """The number of an argument, of equal ones the same; zeros of two signs are two."""
        key = repr(value)
        if key not in self._numbers:
            self._numbers[key] = len(self._arguments)
            self._arguments.append(value)
        return self._numbers[key]

    def _source(self, source: Source) -> int:
        return self._sources[source] if isinstance(source, int) else self._handed

    def _define(self, definition: Place | Applied | Scalar) -> int:
        if isinstance(definition, Scalar):
            return self._splat(definition.name, working_type(self._parameters[definition.name]))
        if isinstance(definition, Place):
            return self._load(definition)
        leaves = {number: self._source(source) for number, source in definition.leaves.items()}
        return self._formula(definition.term, leaves)

    def _splat(self, value: WorkOperand, type: str) -> int:
        register = self._register(type)
        self._instructions.append(Splat(register, self._argument(value)))
        return register

    def _load(self, place: Place) -> int:
        type = place.dtype.c_name
        register = self._register(type)
        where = self._place(place)
        is_view = where.column == NONE
        self._instructions.append(Load(register, where, is_view))
        if not is_narrow(place.dtype):
            return register
        return self._apply(_moved(place.dtype, type, "float"), register)

    def _store(self, register: int, place: Place) -> None:
        narrow = is_narrow(place.dtype)
        function = _moved(place.dtype, "float", place.dtype.c_name) if narrow else None
        self._instructions.append(Put(register, function, self._place(place)))

    def _apply(self, function: ElementFunction, *operands: int) -> int:
        register = self._register(function.gives)
        self._instructions.append(Apply(register, function, operands))
        return register

    def _formula(self, term: Term, leaves: Mapping[int, int]) -> int:
        """The register that holds a term, rounded to its type (`FormulaPrinter.print`)."""
        register = self._term(term, leaves, {})
        if is_narrow(term.dtype) and term.op not in EXACT:
            text = f"round_to<{term.dtype.c_name}>(x0)"
            function = ElementFunction(text, ("float",), "float", is_vector_type(term.dtype))
            return self._apply(function, register)
        return register

    def _term(self, term: Term, leaves: Mapping[int, int], seen: dict[int, int]) -> int:
        if term.op == "input":
            return leaves[term.value]
        if term.op == "const":
            return self._splat(Number(term.value, term.dtype), working_type(term.dtype))
        if id(term) not in seen:
            operands = [self._term(a, leaves, seen) for a in term.args]
            names = [f"x{i}" for i in range(len(operands))]
            if may_divide_by_zero(term):
                names[1] = f"nonzero({names[1]}, found_zero)"
            takes = tuple(self._types[r] for r in operands)
            function = ElementFunction(
                call_text(term, names), takes, working_type(term.dtype), _in_vectors(term)
            )
            seen[id(term)] = self._apply(function, *operands)
        return seen[id(term)]

    def _place(self, place: Place) -> PlaceCode:
        rows = tuple(
            RowCode(
                NONE if step.below == 1 else self._argument(step.below),
                NONE if step.size is None else self._argument(step.size),
                NONE if step.stride == "1" else self._argument(step.stride),
            )
            for step in place.rows
        )
        column = {"": REPEATED, "1": NONE}.get(place.column)
        if column is None:
            column = self._argument(place.column)
        return PlaceCode(self._argument(place.pointer), place.dtype.bytes, column, rows)

    def _blocks(self, blocks: BlockRows) -> tuple[int, tuple[BlockAxisCode, ...]]:
        axes = tuple(
            BlockAxisCode(self._argument(a.count), a.step, a.cut, self._argument(a.size))
            for a in blocks.axes
        )
        return self._argument(blocks.columns), axes


def _handed_type(work: Elementwise) -> str:
    """The C type of what a kernel hands over; "" where it hands over nothing."""
    for definition in work.definitions:
        if isinstance(definition, Applied):
            for number, source in definition.leaves.items():
                if isinstance(source, str):
                    return _leaf_type(definition.term, number)
    for store in work.stores:
        if isinstance(store.source, str):
            return working_type(store.place.dtype)
    return "float" if isinstance(work.result, str) else ""


def _leaf_type(term: Term, number: int) -> str:
    if term.op == "input":
        return working_type(term.dtype) if term.value == number else ""
    return next(filter(None, (_leaf_type(a, number) for a in term.args)), "")


def _moved(dtype: DType, type: str, to: str) -> ElementFunction:
    """What loads elements of a narrow type as floats, or stores floats as such."""
    return ElementFunction("x0", (type,), to, is_vector_type(dtype))


def _in_vectors(term: Term) -> bool:
    """Whether a function runs on vectors (`is_vector_term`, of its outermost operation alone)."""
    source = term.args[0].dtype
    if term.op == "cast" and is_lane_integer(source):
        return term.dtype == dtypes.float32
    if is_lane_integer(term.dtype):
        return term.op == "cast" and not source.is_bool and is_vector_type(source)
    return all(map(is_vector_type, (term.dtype, *(a.dtype for a in term.args))))
