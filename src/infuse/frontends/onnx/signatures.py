"""TypeProto → types: element types, symbolic sizes under clean names, sequences, optionals and
maps.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

from onnx import GraphProto, TensorShapeProto, TypeProto, ValueInfoProto

from infuse.errors import InfuseError, ModelFileError
from infuse.frontends.onnx.tensors import element_type
from infuse.ir import dim_text, dims
from infuse.ir.dim_text import NAMELESS
from infuse.ir.dims import Dim, Expr
from infuse.ir.types import MapType, OptionalType, SequenceType, TensorType, Type


class Sizes:
    """The symbolic sizes of one model: the same text is the same symbol, and every symbol is an
    identifier.

    A text such as `past + seq` is read as an expression where the model's inputs have `past` and
    `seq` for themselves; any other text is a name. Sizes without text, or with one that says only
    that nothing is known (`_`, `?`, `None`), get a symbol of their own from the value's name and
    the axis.
    """

    texts: dict[str, str]
    """What stood in the model for symbols whose name is another; nothing for sizes without text."""

    def __init__(self, graph: GraphProto) -> None:
        self.texts = {}
        self._symbols: dict[str, Dim] = {}
        self.taken: set[str] = set()
        texts = [
            d.dim_param
            for v in graph.input
            for d in _shape(v.type)
            if d.dim_param and d.dim_param not in NAMELESS
        ]
        for text in texts:
            if _is_name(text):
                self._symbols[text] = dims.symbol(text)
                self.taken.add(text)

    def named(self, text: str) -> Dim:
        """The size that a dim_param stands for."""
        size = self._symbols.get(text)
        if size is None:
            expression = self._expression(text)
            size = self._symbols[text] = (
                self._fresh(text, text) if expression is None else expression
            )
        return size

    def unnamed(self, value: str, axis: int, text: str = "") -> Dim:
        """A new symbol for an unknown size of a value, of which the model says `text`."""
        return self._fresh(f"{value or 'value'}_{axis}", text)

    def twin(self, name: str) -> Dim:
        """Another symbol of which the model says the same as of the one of this name."""
        return self._fresh(name, self.texts.get(name, name))

    def _expression(self, text: str) -> Dim | None:
        parsed = dim_text.parse(text)
        named = isinstance(parsed, Expr) and dims.symbols(parsed) <= self.taken
        return parsed if named else None

    def _fresh(self, text: str, original: str) -> Dim:
        base = re.sub(r"\W", "_", text, flags=re.ASCII)[:80] or "size"
        if not _is_name(base):
            base = f"d_{base}"
        name, count = base, 1
        while name in self.taken:
            count += 1
            name = f"{base}_{count}"
        self.taken.add(name)
        if name != original:
            self.texts[name] = original
        return dims.symbol(name)


def _is_name(text: str) -> bool:
    return text.isascii() and text.isidentifier() and not keyword.iskeyword(text)


def _shape(proto: TypeProto) -> Iterable[TensorShapeProto.Dimension]:
    return proto.tensor_type.shape.dim if proto.WhichOneof("value") == "tensor_type" else ()


def type_of(info: ValueInfoProto, sizes: Sizes) -> Type | None:
    """The declared type of a value, None when none is declared."""
    if not info.HasField("type") or info.type.WhichOneof("value") is None:
        return None
    try:
        return read_type(info.type, info.name, sizes)
    except InfuseError as error:
        error.within(f"value {info.name!r}")
        raise


def stated_sizes(info: ValueInfoProto) -> list[int | str] | None:
    """The sizes of a tensor as the model writes them, empty texts for unknown ones; None where it
    states none.
    """
    if not info.type.tensor_type.HasField("shape"):
        return None
    sizes = info.type.tensor_type.shape.dim
    return [d.dim_value if d.WhichOneof("value") == "dim_value" else d.dim_param for d in sizes]


def read_type(proto: TypeProto, name: str, sizes: Sizes) -> Type:
    """The type that a message states; `name` is where the symbols of unknown sizes get theirs
    from.
    """
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        tensor = proto.tensor_type
        if not tensor.HasField("shape"):
            return TensorType(element_type(tensor.elem_type), None)
        shape = tuple(_size(dim, name, axis, sizes) for axis, dim in enumerate(tensor.shape.dim))
        return TensorType(element_type(tensor.elem_type), shape)
    if kind == "sequence_type":
        return SequenceType(read_type(proto.sequence_type.elem_type, name, sizes))
    if kind == "optional_type":
        return OptionalType(read_type(proto.optional_type.elem_type, name, sizes))
    if kind == "map_type":
        return MapType(
            element_type(proto.map_type.key_type), read_type(proto.map_type.value_type, name, sizes)
        )
    raise ModelFileError(
        f"its type is a {str(kind).removesuffix('_type')}, which has no counterpart here"
        if kind
        else "it has no type",
    )


def _size(dim: TensorShapeProto.Dimension, name: str, axis: int, sizes: Sizes) -> Dim:
    if dim.WhichOneof("value") == "dim_value":
        # Some exporters write -1 for a size that is not known.
        if dim.dim_value < -1:
            raise ModelFileError(f"size {dim.dim_value} of its axis {axis} is negative")
        return dim.dim_value if dim.dim_value >= 0 else sizes.unnamed(name, axis)
    if dim.dim_param in NAMELESS:
        return sizes.unnamed(name, axis, dim.dim_param)
    if dim.dim_param:
        return sizes.named(dim.dim_param)
    return sizes.unnamed(name, axis)
