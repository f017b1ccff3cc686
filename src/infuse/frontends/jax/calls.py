"""How primitives of JAX become nodes: the table, and what its entries build with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import InfuseError, UnsupportedOperatorError
from infuse.frontends.jax.sizes import size_of
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.tracing.importer import registered
from infuse.tracing.sized import SizedImporter

Handler = Callable[["JaxCall"], Any]
_H = TypeVar("_H", bound=Handler)
TABLE: Final[dict[str, Handler]] = {}
"""By name of the primitive."""


def primitive(*names: str) -> Callable[[_H], _H]:
    """Register what builds these primitives: a function of the call.

    It returns the value of the result, or a list of them where there are several or none.
    """
    return registered(TABLE, names)


class JaxImporter(SizedImporter):
    """An importer of arrays whose types JAX says."""

    def type_of(self, aval: Any) -> TensorType:
        """The type that JAX says of an array. UnsupportedOperatorError where Infuse has none."""
        shape = getattr(aval, "shape", None)
        dtype = getattr(aval, "dtype", None)
        if shape is None or not isinstance(dtype, np.dtype):
            raise UnsupportedOperatorError(
                f"values of the type {aval} are not supported", hint=RANDOM_HINT
            )
        if dtype.kind == "c":
            raise UnsupportedOperatorError(
                f"complex numbers ({aval}) are not supported",
                hint="compute real and imaginary parts by themselves",
            )
        try:
            element = dtypes.by_numpy(dtype)
        except InfuseError as error:
            raise UnsupportedOperatorError(f"the element type {dtype} is not supported") from error
        return TensorType(element, tuple(size_of(size, self.sizes) for size in shape))


RANDOM_HINT: Final = "make random numbers outside, and give them to the function as an argument"


class JaxRun(Protocol):
    """Builds what a jaxpr does to operands with an importer (`reader.run`)."""

    def __call__(self, g: JaxImporter, jaxpr: Any, operands: Sequence[Value]) -> list[Value]:
        """Its results."""


class JaxCall:
    """An equation of a jaxpr: a primitive, its parameters, operands, and the types of results."""

    def __init__(
        self,
        g: JaxImporter,
        name: str,
        parameters: Mapping[str, Any],
        operands: Sequence[Value],
        types: Sequence[TensorType],
        run: JaxRun,
    ) -> None:
        self.g, self.name, self.parameters = g, name, parameters
        self.operands, self.types, self.run = list(operands), list(types), run

    def __getitem__(self, name: str) -> Any:
        """A parameter by name. UnsupportedOperatorError where this version of JAX has none."""
        if name not in self.parameters:
            raise UnsupportedOperatorError(
                f"{self.name} has no parameter {name}", hint="use another version of JAX"
            )
        return self.parameters[name]

    @property
    def x(self) -> Value:
        """The first operand."""
        return self.operands[0]

    @property
    def y(self) -> Value:
        """The second operand."""
        return self.operands[1]

    @property
    def dtype(self) -> DType:
        """The element type of the first result."""
        return self.types[0].dtype

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The shape of the first result."""
        shape = self.types[0].shape
        assert shape is not None, "JAX tells all ranks"
        return shape

    def size(self, size: Any) -> Dim:
        """A size that a parameter has."""
        return size_of(size, self.g.sizes)

    def sizes(self, name: str) -> list[Dim]:
        """A parameter that lists sizes."""
        return [self.size(size) for size in self[name]]

    def unsupported(self, what: str, hint: str = "") -> UnsupportedOperatorError:
        """The error for a form of the primitive that has no translation."""
        return UnsupportedOperatorError(f"{what} is not supported", hint=hint)
