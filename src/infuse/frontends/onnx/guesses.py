"""Values of unknown operators whose element type the file does not state."""

from __future__ import annotations

import warnings

from infuse.errors import InfuseError, UnsupportedOperatorError
from infuse.ir.graph import Node, Value
from infuse.ir.types import UNKNOWN, TensorType, Type
from infuse.ops.core.opaque import Opaque

_HINT = (
    "define the operator as an infuse.ops.Op, state the type of the value in the model's "
    "value_info, or export the model without the operator"
)


class Guesses:
    """Follows what is taken for float32 because nothing says what it is.

    A node that cannot read it, and a type that the file states for what is made of it, show that
    it is something else: the error then names the unknown operator. What nothing contradicts is
    warned of.
    """

    def __init__(self) -> None:
        self._makers: dict[Value, Node] = {}

    def concern(self, node: Node) -> bool:
        """Whether such values are made or read by a node."""
        return isinstance(node.op, Opaque) or (bool(self._makers) and self._maker(node) is not None)

    def follow(self, node: Node, stated: list[Type | None]) -> None:
        """Look at a node with types; `stated` are those that the file has for its outputs."""
        if isinstance(node.op, Opaque):
            self._makers.update((v, node) for v in node.outputs if v.type is UNKNOWN and v.name)
            return
        maker = self._maker(node)
        if maker is None or node.kind == "Cast":
            return
        for value, type in zip(node.outputs, stated):
            if not isinstance(value.type, TensorType) or value.dtype != UNKNOWN.dtype:
                continue
            if isinstance(type, TensorType) and type.dtype != value.dtype:
                raise self._refusal(maker, f"{value.name!r}, made of it, is {type.dtype}")
            self._makers[value] = maker

    def explained(self, node: Node, error: InfuseError) -> InfuseError:
        """The error for a node whose types do not fit."""
        maker = self._maker(node)
        return error if maker is None else self._refusal(maker, error.what)

    def tell(self) -> None:
        """Warn of what is taken for float32."""
        makers = dict.fromkeys(self._makers.values())
        if makers:
            names = sorted({_name(maker) for maker in makers})
            warnings.warn(
                f"the model does not state the types of what unknown operators make: outputs of "
                f"{', '.join(names[:8])} are taken for float32",
                RuntimeWarning,
                stacklevel=2,
            )

    def _maker(self, node: Node) -> Node | None:
        return next((self._makers[v] for v in node.inputs if v in self._makers), None)

    def _refusal(self, maker: Node, why: str) -> UnsupportedOperatorError:
        name = next(v.name for v, node in self._makers.items() if node is maker)
        return UnsupportedOperatorError(
            f"operator {_name(maker)} is not known, nor of what type its output {name!r} is, "
            f"which is not float32: {why}",
            hint=_HINT,
        )


def _name(node: Node) -> str:
    return f"{node.op.domain or 'ai.onnx'}::{node.op.name}"
