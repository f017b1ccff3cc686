"""Which operators have kernels, by domain and kind, and what lowering must know of these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from infuse import dtypes
from infuse.catalog import Catalog, calling_module
from infuse.dtypes import DType
from infuse.immutable import Immutable, replace
from infuse.ir.graph import Node, Value
from infuse.lowering.tensors import Order
from infuse.targets import Machine

Lower = Callable[..., None]
"""Adds the steps of an operator to a program: (lowering, node, group)."""
_Lower = TypeVar("_Lower", bound=Lower)
_Resolve = TypeVar("_Resolve", bound=Callable[..., None])


class ProducerFusion(Immutable):
    """Steps that compute what an operator reads, too. `choose`: the groups, in order, that the
    kernel of a group's anchor can compute itself and gains by it (lowering, group, producers).
    """

    choose: Callable[..., list[Any]]
    lower: Lower


ReadsParts = Callable[[Node, int], bool]
"""Whether a node reads its first operand as it lies where that is a part of a larger value along an
axis.
"""


def _never(node: Node, axis: int) -> bool:
    return False


def _always(node: Node) -> bool:
    return True


class KernelFamily(Immutable):
    """How code generation computes an operator.

    `epilogue`: the type of the elements that its kernel hands to a sink, where it ends in one.
    `runtime_inputs`: those whose elements are read at run time (None: all). `resolve_sizes`: a step
    that finds the sizes of results from elements of inputs (lowering, node). `reads_parts`: whether
    the kernel of a node reads its first operand as it lies where that is a part, along an axis, of
    a larger tensor. `takes`: whether the kernel computes a node of these, which is expanded if not,
    where the operator has an expansion too.
    """

    lower: Lower | None = None
    epilogue: DType | None = None
    runtime_inputs: tuple[int, ...] | None = None
    resolve_sizes: Callable[..., None] | None = None
    fusion: ProducerFusion | None = None
    reads_parts: ReadsParts = _never
    takes: Callable[[Node], bool] = _always
    reads_in: Callable[[int], Order] | None = None
    """How the axes of its first operand, of so many, are to lie; None: as they do."""

    def reads(self, number: int) -> bool:
        """Whether the elements of an input are read at run time."""
        return self.runtime_inputs is None or number in self.runtime_inputs


@dataclass
class KernelTable:
    """Kernel families by the domain and kind of operators, which the files of a package register:
    those of an operator are imported before anybody looks it up or registers another of its name.
    """

    home: str
    """The package."""
    base: KernelTable | None = None
    """What has the families that are missing here."""
    element_types: frozenset[DType] | None = None
    """The element types of operands and results; None: all that code can hold."""
    precisions: frozenset[str] | None = None
    """What layers of float32 may be computed in; None: whatever the machine has units for."""
    families: dict[tuple[str, str], KernelFamily] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.files = Catalog(self.home)

    # -- what is registered ------------------------------------------------------------------------

    def change(
        self,
        domain: str,
        kinds: tuple[str, ...],
        module: str,
        change: Callable[[KernelFamily], KernelFamily],
    ) -> None:
        """State more, or something else, of operators, in a module."""
        for kind in kinds:
            self.files.note((domain, kind), module)
            if not self.files.owns(module):
                self.files.import_for((domain, kind))
            self.families[domain, kind] = change(self._family(domain, kind))

    def lowers(
        self,
        *kinds: str,
        domain: str = "",
        has_epilogue: bool = False,
        accumulates: DType = dtypes.float32,
        runtime_inputs: tuple[int, ...] | None = None,
        reads_parts: ReadsParts = _never,
        takes: Callable[[Node], bool] = _always,
        reads_in: Callable[[int], Order] | None = None,
    ) -> Callable[[_Lower], _Lower]:
        """Register how operators become steps; what was said of them before is forgotten, but for
        `fuses_producers` and `resolves_sizes`.

        `has_epilogue`: the kernel ends in a sink, which gets elements of the type that it
        `accumulates`. `runtime_inputs`: those whose elements are read at run time (the others only
        shape the result). `reads_parts`, `takes`, `reads_in`: as in `KernelFamily`.
        """
        module = calling_module()

        def register(function: _Lower) -> _Lower:
            def state(family: KernelFamily) -> KernelFamily:
                return replace(
                    family,
                    lower=function,
                    epilogue=accumulates if has_epilogue else None,
                    runtime_inputs=runtime_inputs,
                    reads_parts=reads_parts,
                    takes=takes,
                    reads_in=reads_in,
                )

            self.change(domain, kinds, module, state)
            return function

        return register

    def fuses_producers(
        self, kind: str, choose: Callable[..., list[Any]], domain: str = ""
    ) -> Callable[[_Lower], _Lower]:
        """Register how operators become steps that compute what they read themselves, and when they
        do.
        """
        module = calling_module()

        def register(function: _Lower) -> _Lower:
            fusion = ProducerFusion(choose, function)
            self.change(domain, (kind,), module, lambda family: replace(family, fusion=fusion))
            return function

        return register

    def resolves_sizes(self, *kinds: str, domain: str = "") -> Callable[[_Resolve], _Resolve]:
        """Register a step that finds the sizes of results from elements of inputs; it runs before
        the lowering.
        """
        module = calling_module()

        def register(function: _Resolve) -> _Resolve:
            self.change(
                domain, kinds, module, lambda family: replace(family, resolve_sizes=function)
            )
            return function

        return register

    # -- what is asked -----------------------------------------------------------------------------

    def computes(self, dtype: DType) -> bool:
        """Whether there is code for elements of a type."""
        return self.element_types is None or dtype in self.element_types

    def of(self, node: Node) -> KernelFamily:
        """The family of a node's operator; an empty one where none was registered."""
        return self.named(node.op.domain, node.kind)

    def named(self, domain: str, kind: str) -> KernelFamily:
        """The family of an operator, that of the base where it has none of its own; an empty one
        where none was registered.
        """
        self.files.import_for((domain, kind))
        return self._family(domain, kind)

    def _family(self, domain: str, kind: str) -> KernelFamily:
        family = self.families.get((domain, kind))
        if family is None:
            family = self.base.named(domain, kind) if self.base else _NOTHING
        return family

    def has_kernel(self, domain: str, kind: str) -> bool:
        """Whether nodes of an operator that is not elementwise have a native kernel."""
        return self.named(domain, kind).lower is not None

    def takes(self, node: Node) -> bool:
        """Whether a node has a kernel that computes it."""
        family = self.of(node)
        return family.lower is not None and family.takes(node)

    def has_epilogue(self, node: Node) -> bool:
        """Whether elementwise work may follow a node inside of its kernel."""
        epilogue = self.of(node).epilogue
        if epilogue is None or any(v.uses for v in node.outputs[1:]):
            return False
        return epilogue == node.output.dtype

    def runtime_operands(self, node: Node, is_fixed: Callable[[Value], bool]) -> list[Value]:
        """The operands whose elements a node needs at run time: those that its kernel reads, and
        sizes and axes that are not `is_fixed` before.
        """
        family = self.of(node)
        operands = enumerate(node.inputs)
        return [v for i, v in operands if v is not None and (family.reads(i) or not is_fixed(v))]


_NOTHING = KernelFamily()
COMMON: Final = KernelTable("infuse.lowering.operators")
"""What needs no kernel, or has the same steps on every kind of machine."""
_USUAL_TYPES: Final = frozenset(
    dtype for dtype in dtypes.ALL if dtype.c_name and dtype.bits >= 8 and dtype.name[:6] != "float8"
)
"""All but the narrow types that no language has."""
TABLES: Final = {
    "cpu": KernelTable("infuse.targets.cpu.lower", COMMON),
    "c": KernelTable("infuse.targets.c.lower", COMMON, _USUAL_TYPES, frozenset(["fp32"])),
}
"""The kernels of each room of `targets`."""


def kernels_of(machine: Machine | None) -> KernelTable:
    """The kernels of a kind of machine; None stands for processors."""
    return TABLES[Machine.room if machine is None else machine.room]
