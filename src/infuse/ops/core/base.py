"""The operator: attributes, types, meaning, formula, accuracy and samples, defined once per
operator.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
from typing_extensions import dataclass_transform

from infuse import dtypes
from infuse.catalog import Catalog, CatalogTable
from infuse.dtypes import DType
from infuse.errors import (
    InfuseError,
    ShapeError,
    TypeMismatchError,
    UnsupportedOperatorError,
)
from infuse.immutable import Immutable
from infuse.ir.broadcasting import broadcast_shapes
from infuse.ir.expression import Call
from infuse.ir.graph import Node, Value
from infuse.ir.registry import register_source
from infuse.ir.types import TensorType, Type
from infuse.ops.core.axes import Axes, broadcast_axes, broadcast_operand, image_axes
from infuse.ops.core.contents import carried
from infuse.ops.core.derivatives import formula_gradients, leaves
from infuse.ops.core.flops import Flops, Shapes, weight
from infuse.ops.core.formula import E, Formulas, Term, inputs
from infuse.ops.core.gradient_building import GradientBuilder, Gradients
from infuse.ops.core.signatures import check_arity
from infuse.ops.core.traits import Trait

Array = npt.NDArray[Any]
Inferred = Type | tuple[Type, ...]
WITHOUT_FLOPS = (
    Trait.RESHAPE | Trait.MOVEMENT | Trait.SELECTION | Trait.VIEW | Trait.SIZES | Trait.ZERO_FLOPS
)
"""Traits of operators that do no arithmetic."""
OPERATORS: Final = Catalog("infuse.ops", "infuse.ops.domains")
REGISTRY: Final[CatalogTable[type[Op]]] = CatalogTable(OPERATORS)
"""All operators by domain and name."""
register_source(lambda domain, name: REGISTRY.get((domain, name)))


class Rounding(Immutable):
    """How far a native result may lie from the exact one: `ulp` units in the last place of the
    output type, or `abs` times the largest magnitude among the exact results, whichever is larger;
    `why` if it is not obvious. Integers must be equal but for `steps`, and for `abs` times the
    largest.
    """

    ulp: float = 4
    abs: float = 0.0
    why: str = ""
    steps: int = 0


EXACT = Rounding(ulp=0)


class Sample(Immutable):
    """One row of the operator's generated tests: input arrays or shapes by parameter name, and
    attributes.
    """

    inputs: Mapping[str, Any]
    attributes: Mapping[str, Any]


Rows = Callable[[type["Op"]], tuple[Sample, ...]]
Samples = Rows | Sequence[Sample | Rows]
# Methods that the decorator writes for each class would be most of the time of an import.
_AS_ATTRIBUTES: Final = dataclasses.dataclass(init=False, repr=False, eq=False)


@dataclass_transform(frozen_default=True)
@_AS_ATTRIBUTES
class Op:
    """An operator with its attributes.

    A subclass states its attributes as annotated defaults and writes `infer` and `eval`; their
    parameters are inputs (`= None`: optional, `*xs`: variadic). `infer` gets `Value`s (shape,
    dtype, `const`, `content`), `eval` gets arrays. Both return one result or a tuple. The class
    registers itself under its name and domain. Inside `eval` NumPy is silent about overflow and
    invalid operands: their results are what IEEE 754 says.
    """

    name: ClassVar[str] = ""
    domain: ClassVar[str] = ""
    since: ClassVar[int] = 1
    """First opset of ONNX that has the operator in this form."""
    commutative: ClassVar[bool] = False
    carries_dims: ClassVar[bool] = False
    """Whether `eval` may run on object arrays of dimensions, so that symbolic sizes travel through
    it.
    """
    fixed_axes: ClassVar[int | None] = None
    """How many axes at the end of its inputs are not broadcast against each other, where all others
    are; None where the inputs are not broadcast so.
    """
    traits: ClassVar[Trait] = Trait.NONE
    """What passes and code generation may rely on, beside what its abstract base classes state."""
    inputs_of: ClassVar[str] = "infer"
    """The method whose parameters name the inputs."""
    deterministic: ClassVar[bool] = True
    updates: ClassVar[Mapping[int, int]] = MappingProxyType({})
    """The outputs that are states, by number, and the inputs that they were before."""
    accuracy: ClassVar[Rounding] = EXACT
    samples: ClassVar[Samples] = ()
    _names: ClassVar[tuple[str, ...]] = ()
    _attributes: ClassVar[frozenset[str]] = frozenset()
    _required: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, *values: Any, **named: Any) -> None:
        if values:
            names = self._names[: len(values)]
            if len(values) > len(names) or named.keys() & set(names):
                raise TypeError(f"{self.name} takes each of {', '.join(self._names)} once")
            named.update(zip(names, values))
        if not self._required <= named.keys() <= self._attributes:
            wrong = (named.keys() - self._attributes) | (self._required - named.keys())
            raise TypeError(f"{self.name} has no attribute, or needs one: {min(wrong)!r}")
        self.__dict__.update(named)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Checks of attributes, or others in their place."""

    def __setattr__(self, name: str, *_: object) -> None:
        raise dataclasses.FrozenInstanceError(f"attribute {name!r} of an operator cannot change")

    __delattr__ = __setattr__

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        values = map("{}={!r}".format, self._names, self._values())
        return f"{type(self).__name__}({', '.join(values)})"

    def _values(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self._names])

    def __init_subclass__(cls, abstract: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherited = {base._names for base in cls.__bases__ if issubclass(base, Op)}
        if "__annotations__" in cls.__dict__ or len(inherited) > 1:
            _AS_ATTRIBUTES(cls)
            fields = dataclasses.fields(cls)  # type: ignore[arg-type]
            cls._names = tuple(f.name for f in fields)
            cls._attributes = frozenset(cls._names)
            cls._required = frozenset(f.name for f in fields if f.default is dataclasses.MISSING)
        if "eval" in cls.__dict__:
            cls.eval = _quiet(cls.__dict__["eval"])  # type: ignore[method-assign]
        cls.traits = cls.__dict__.get("traits", Trait.NONE)
        for base in cls.__mro__[1:]:
            if not base.__dict__.get("name"):
                cls.traits |= base.__dict__.get("traits", Trait.NONE)
        if abstract:
            return
        cls.name = cls.__dict__.get("name", cls.__name__)
        cls.traits |= cls.derived_traits()
        REGISTRY.register((cls.domain, cls.name), cls, cls.__module__, cls.traits.value)

    @classmethod
    def derived_traits(cls) -> Trait:
        """Traits that follow from what else the class states."""
        return Trait.NONE

    def infer(self, *inputs: Any, **named: Any) -> Inferred:
        """Types of the outputs; ShapeError or TypeMismatchError when the inputs do not fit."""
        raise UnsupportedOperatorError(f"{self.name} has no type inference")

    def eval(self, *inputs: Any, **named: Any) -> Any:
        """The meaning in plain NumPy: oracle, constant folder, host fallback."""
        raise UnsupportedOperatorError(f"{self.name} has no evaluation")

    def content(self, *inputs: Any, **named: Any) -> Any:
        """Elements of the output as dimensions, from object arrays with those of the inputs."""
        return self.eval(*inputs)

    def contents(self, node: Node) -> Sequence[Array | None]:
        """What is known of the elements of each output: `content` of the inputs, where all are few
        and known.
        """
        return carried(self.content, node)

    def flops(self, shapes: Shapes) -> Flops | None:
        """The arithmetic of one application; None where nothing is known of it. Sizes may be
        symbolic, and what is counted must not depend on elements.
        """
        return Flops() if self.traits & WITHOUT_FLOPS else None

    def shared_axes(self, node: Node) -> Axes | None:
        """How the axes of the operands of `node` and of its first result go together; None where
        that is not known.
        """
        return image_axes(node) if Trait.PER_IMAGE in self.traits else None

    def with_axes(self, node: Node, args: Sequence[Any], axes: Axes) -> Call | None:
        """The work of `node` on other operands, whose axes and whose result's are `axes`, numbered
        as those of `shared_axes(node)`; None where the operator cannot have them so.
        """
        return self.called(args) if axes == self.shared_axes(node) else None

    def gradient(self, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
        """The gradients of the inputs of `node` from those of its outputs (None: zero), as new
        nodes; None for an input that no gradient flows to, or that `make` does not need.
        """
        raise UnsupportedOperatorError(f"{self.name} has no gradient")

    # -- derived -----------------------------------------------------------------------------------

    def called(self, args: Sequence[Any], **changes: Any) -> Call:
        """A call of the same operator, some attributes changed."""
        attributes = {**self.attributes(), **changes}
        return Call(self.name, tuple(args), attributes, domain=self.domain)

    def called_on_broadcast(self, args: Sequence[Any], axes: Axes, **changes: Any) -> Call | None:
        """`called` where all operands with axes are broadcast to those of the result; None where
        one cannot be.
        """
        operands = [
            arg if order is None else broadcast_operand(arg, order, axes.result)
            for arg, order in zip(args, axes.operands)
        ]
        if any(operand is None and arg is not None for arg, operand in zip(args, operands)):
            return None
        return self.called(operands, **changes)

    def attributes(self) -> Mapping[str, Any]:
        """Attribute values by name."""
        return {name: getattr(self, name) for name in self._names}

    def replace(self, **changes: Any) -> Op:
        """The same operator with some attributes changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    def infer_types(self, node: Node) -> Sequence[Type]:
        check_arity(self, node)
        try:
            result = self.infer(*node.inputs)
        except InfuseError as error:
            if error.where is None:
                error.where = f"{self.name} node {node.name!r}"
            raise
        types = result if isinstance(result, tuple) else (result,)
        if len(types) < len(node.outputs):
            raise TypeMismatchError(
                f"{self.name} has {len(types)} outputs, {len(node.outputs)} are asked for",
                where=f"node {node.name!r}",
            )
        for type in types:
            if isinstance(type, TensorType) and any(
                isinstance(d, int) and d < 0 for d in type.shape or ()
            ):
                raise ShapeError(
                    f"its result {type} has a negative size",
                    where=f"{self.name} node {node.name!r}",
                )
        return types[: len(node.outputs)]

    def infer_node(self, node: Node) -> None:
        """Set types and contents of the outputs of `node`."""
        for value, inferred in zip(node.outputs, self.infer_types(node)):
            value.type = inferred
            value.content = None
        if self.carries_dims:
            for value, content in zip(node.outputs, self.contents(node)):
                value.content = content


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` without NumPy's warnings, giving arrays where NumPy gives its own scalars."""

    @functools.wraps(function)
    def run(*args: Any, **named: Any) -> Any:
        with np.errstate(all="ignore"):
            result = function(*args, **named)
        if isinstance(result, tuple):
            return tuple(np.asarray(r) if isinstance(r, np.generic) else r for r in result)
        return np.asarray(result) if isinstance(result, np.generic) else result

    return run


def infer_node(node: Node) -> None:
    """Set types and contents of the outputs of `node`; bodies must have been inferred before."""
    node.op.infer_node(node)


def kinds_with(trait: Trait, domain: str = "") -> tuple[str, ...]:
    """The names of a domain's operators that have these traits, in order."""
    return tuple(
        sorted(
            kind
            for (where, kind), traits in OPERATORS.facts().items()
            if where == domain and traits & trait.value == trait.value
        )
    )


class Elementwise(Op, abstract=True):
    """An operator that treats every element alike, after broadcasting its inputs against each
    other.

    A subclass writes `eval` and, to be native and fusible, `scalar`.
    """

    fixed_axes: ClassVar[int | None] = 0
    inputs_of = "eval"

    def infer(self, *xs: Any, **named: Any) -> Inferred:
        return TensorType(
            self.result_dtype(*xs), broadcast_shapes(*(x.tensor.shape for x in xs if x is not None))
        )

    def result_dtype(self, *xs: Any, **named: Any) -> DType:
        """Element type of the result; by default all inputs must agree and the result is the
        same.
        """
        return same_dtype(self.name, *xs)

    def shared_axes(self, node: Node) -> Axes | None:
        return broadcast_axes(node)

    def with_axes(self, node: Node, args: Sequence[Any], axes: Axes) -> Call | None:
        return self.called_on_broadcast(args, axes)

    def scalar(self, e: Formulas, *xs: Any, **named: Any) -> Term:
        """The result for one element, as a formula."""
        raise UnsupportedOperatorError(f"{self.name} has no scalar formula")

    def gradient(self, make: GradientBuilder, node: Node, grads: Gradients) -> Gradients:
        """The derivatives of the formula, summed over the axes along which an operand is
        repeated.
        """
        (gradient,) = grads
        assert gradient is not None
        formula = self.scalar(E, *leaves(node.inputs))
        parts = formula_gradients(make, formula, node.inputs, gradient)
        return [make.sum_to(part, value) for part, value in zip(parts, node.inputs)]

    def flops(self, shapes: Shapes) -> Flops:
        """The operations of the formula for every element; one each without a formula."""
        leaves = inputs(*(dtype or dtypes.float32 for dtype in shapes.types))
        arguments = [None if dtype is None else x for dtype, x in zip(shapes.types, leaves)]
        try:
            operations = weight(self.scalar(E, *arguments))
        except InfuseError:
            operations = 1
        return Flops(0, shapes.made * operations)


def same_dtype(name: str, *xs: Value | None) -> DType:
    """The common element type; TypeMismatchError when they differ."""
    kinds = [x.dtype for x in xs if x is not None]
    if any(k != kinds[0] for k in kinds):
        raise TypeMismatchError(
            f"{name} needs inputs of one element type, found {', '.join(map(str, kinds))}"
        )
    return kinds[0]


def normalize_axis(axis: int, rank: int, op: str) -> int:
    """A possibly negative axis as an index; ShapeError when it lies outside."""
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} of {op} lies outside a tensor of rank {rank}")
    return axis % rank if rank else 0


# -- samples ---------------------------------------------------------------------------------------
