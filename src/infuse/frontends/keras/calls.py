"""How layers of Keras become nodes: the table, and what its entries build with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ModelFileError
from infuse.frontends.keras.config import Config
from infuse.ir.graph import Array, Value
from infuse.tracing.calls import Call
from infuse.tracing.layout import LayoutImporter
from infuse.tracing.semantics.padding import reversed_along

Handler = Callable[..., Any]
_H = TypeVar("_H", bound=Handler)
LayerWeights = Callable[[Config], list[str]]
Children = Callable[[Config], Mapping[str, Any]]


@dataclass(frozen=True)
class LayerKind:
    """A kind of layer: what builds it (a function of the call and the arguments of `call`), names
    of its own weights, serialized layers inside by attribute, and whether masks go through it.
    """

    build: Handler
    weights: LayerWeights
    children: Children
    masking: bool


TABLE: Final[dict[str, LayerKind]] = {}
"""By name of the class; operations of `keras.ops` are called `ops.Add`."""


def _none(config: Config) -> list[str]:
    return []


def _empty(config: Config) -> Mapping[str, Any]:
    return {}


def layer(
    *names: str, weights: LayerWeights = _none, children: Children = _empty, masking: bool = False
) -> Callable[[_H], _H]:
    """Register what builds layers of these classes.

    It returns a value or a tuple of them. With `masking`, the mask of the first argument goes on
    to results that have none after it.
    """

    def register(handler: _H) -> _H:
        for name in names:
            assert name not in TABLE, f"{name} has two entries"
            TABLE[name] = LayerKind(handler, weights, children, masking)
        return handler

    return register


class Described(Protocol):
    """A layer of the model (of `tree`)."""

    kind: str
    name: str
    config: Config
    children: dict[str, Any]
    arrays: dict[str, Array]


class Runner(Protocol):
    """What builds layers (the reader)."""

    g: LayoutImporter
    masks: dict[Value, Value]
    generation: int

    def run(self, layer: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The results of a layer for these arguments."""


class KerasCall(Call):
    """A call of a layer: its configuration, weights, and the masks of what it is given."""

    def __init__(self, runner: Runner, layer: Described, g: LayoutImporter | None = None) -> None:
        self.runner, self.layer = runner, layer
        self.config = layer.config
        self.g = g or runner.g

    @property
    def dtype(self) -> DType:
        """The element type that the layer computes in."""
        return self.config.dtype

    # -- masks -------------------------------------------------------------------------------------

    def mask(self, value: Value) -> Value | None:
        """The mask of a value."""
        return self.runner.masks.get(value)

    def set_mask(self, value: Value, mask: Value | None) -> None:
        """Let a value have this mask."""
        if mask is not None:
            self.runner.masks[value] = mask
        else:
            self.runner.masks.pop(value, None)

    # -- weights -----------------------------------------------------------------------------------

    def array(self, name: str) -> Array | None:
        """The elements of a weight; None where the layer has none of this name."""
        return self.layer.arrays.get(name)

    def needed(self, name: str, rank: int | None = None) -> Array:
        """The elements of a weight, of so many axes; ModelFileError where there is none."""
        array = self.layer.arrays.get(name)
        if array is None:
            raise ModelFileError(f"it has no weight {name!r}")
        if rank is not None and array.ndim != rank:
            raise ModelFileError(f"its {name} has the shape {list(array.shape)}")
        return array

    def weight(self, name: str, rank: int | None = None, dtype: DType | None = None) -> Value:
        """A weight as a constant in the type that the layer computes in, or another."""
        return self.constant(self.needed(name, rank), name, dtype)

    def optional(self, name: str) -> Value | None:
        """A weight as a constant, where the layer has it."""
        return None if self.array(name) is None else self.weight(name)

    def constant(self, array: Array, name: str = "", dtype: DType | None = None) -> Value:
        """Numbers in the type that the layer computes in, or another."""
        dtype = dtype or self.dtype
        elements = array if array.dtype == dtype.numpy else array.astype(dtype.numpy)
        return self.g.constant(elements, f"{self.layer.name}/{name}" if name else "")

    # -- values ------------------------------------------------------------------------------------

    def number(self, value: float, like: Value) -> Value:
        """A number of the type of a value."""
        return self.g.number(value, like.dtype)

    def floats(self, value: Value) -> Value:
        """A value in the type that the layer computes in."""
        return self.g.cast(value, self.dtype)

    def shaped(self, value: Value, *sizes: int | Value) -> Value:
        """A value in another shape: 0 for a size that stays, -1 for what is left."""
        return self.g("Reshape", value, self.g.ints(*sizes))

    def unsqueezed(self, value: Value, *axes: int) -> Value:
        """A value with new axes of size one."""
        return self.g("Unsqueeze", value, self.g.ints(*axes))

    def squeezed(self, value: Value, *axes: int) -> Value:
        """A value without these axes of size one."""
        return self.g("Squeeze", value, self.g.ints(*axes))

    def reduced(self, kind: str, value: Value, axes: Sequence[int], keep: bool = False) -> Value:
        """A reduction over axes."""
        return self.g(kind, value, self.g.ints(*axes), keepdims=int(keep))

    def zeros(self, sizes: Sequence[int | Value], dtype: DType) -> Value:
        """Zeros of a shape, some sizes of which nodes compute."""
        if all(isinstance(size, int) for size in sizes):
            return self.g.constant(np.zeros(sizes, dtype.numpy))
        return self.g("Expand", self.g.number(0, dtype), self.g.ints(*sizes))

    def where(self, mask: Value, value: Value, other: float) -> Value:
        """`value` where the mask is true, else a number."""
        return self.g("Where", mask, value, self.number(other, value))

    def reversed(self, value: Value, axis: int) -> Value:
        """A value with the order along an axis turned round."""
        return reversed_along(self.g, value, axis)

    def boolean(self, value: Value) -> Value:
        """Whether elements are not zero."""
        return self.g.cast(value, dtypes.bool_)

    # -- layers inside -----------------------------------------------------------------------------

    def inner(self, attribute: str, *args: Any, **kwargs: Any) -> Any:
        """The results of a layer inside; masks go no further than it."""
        return self.runner.run(self.layer.children[attribute], args, kwargs)

    def child(self, attribute: str) -> KerasCall:
        """A call of a layer inside, for its configuration and weights."""
        return KerasCall(self.runner, self.layer.children[attribute], self.g)


def promoted(*values: Any) -> DType:
    """The element type in which Keras computes with these values and numbers."""
    tensors = [v.dtype for v in values if isinstance(v, Value)]
    floats = [d for d in tensors if d.is_float]
    if floats:
        names = {d.name for d in floats}
        if names == {"float16", "bfloat16"}:
            return dtypes.float32
        return max(floats, key=lambda d: d.bits)
    if any(isinstance(v, float) for v in values):
        return dtypes.float32
    whole = [d for d in tensors if d != dtypes.bool_]
    if not whole:
        if any(isinstance(v, int) and not isinstance(v, bool) for v in values):
            return dtypes.int32
        return dtypes.bool_
    signed = [d for d in whole if d.kind == "i"]
    wide = max(d.bits for d in whole)
    if not signed:
        return dtypes.by_name(f"uint{wide}")
    unsigned = max((d.bits for d in whole if d.kind == "u"), default=0)
    if unsigned >= 64:
        return dtypes.float32
    return dtypes.by_name(f"int{max(*(d.bits for d in signed), 2 * unsigned)}")
