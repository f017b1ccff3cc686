"""How a node is written in a chosen opset: the newest form of its operator, changed step by step to
the older one.

`@before(opset, *kinds)` marks a function that changes calls of these operators for opsets before
`opset`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np
from onnx import defs

from infuse import dtypes
from infuse.exporters.onnx.schemas import (
    NEWEST,
    Definition,
    element_text,
    next_version,
    operand_types,
    schema_of,
    type_text,
)
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.types import TensorType
from infuse.ops.core.base import Op
from infuse.ops.core.opaque import Opaque
from infuse.ops.domains.ml import MlOp

RECURRENT: Final = ("GRU", "LSTM", "RNN")
OWN_OF_RUNTIME: Final = ("SimplifiedLayerNormalization",)
"""What ONNX Runtime keeps in ONNX's own domain."""


class NotExpressible(Exception):
    """A node has no form in the chosen opset; `needs` is the next opset that may have one."""

    def __init__(self, reason: str, needs: int | None = None) -> None:
        super().__init__(reason)
        self.needs = needs


@dataclass
class Spelling:
    """A node as it will be written."""

    kind: str
    domain: str
    inputs: list[Value | None]
    attributes: dict[str, Any]
    bodies: dict[str, Graph]
    outputs: list[Value] = field(default_factory=list)

    def input(self, index: int) -> Value | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def ints(self, index: int) -> tuple[int, ...] | None:
        """The elements of an integer input, None where they are not known."""
        value = self.input(index)
        elements = None if value is None else known_ints(value)
        return (
            tuple(map(int, elements))
            if elements is not None and all(isinstance(k, int) for k in elements)
            else None
        )

    def need_ints(self, index: int, name: str) -> tuple[int, ...]:
        elements = self.ints(index)
        if elements is None:
            raise NotExpressible(f"its {name} are computed at run time")
        return elements

    def shape(self, index: int) -> tuple[Dim, ...] | None:
        value = self.input(index)
        return (
            value.type.shape if value is not None and isinstance(value.type, TensorType) else None
        )

    def set_input(self, index: int, elements: Sequence[int], name: str) -> None:
        """Put a list of integers at an input."""
        self.inputs += [None] * (index + 1 - len(self.inputs))
        self.inputs[index] = constant(np.array(elements, np.int64), name)

    def drop(self, name: str, *harmless: Any) -> None:
        """Leave out an attribute that an older opset does not have, where it has one of these
        values.
        """
        if name in self.attributes and self.attributes.pop(name) not in harmless:
            raise NotExpressible(f"it has no {name}")


_DEFAULTS: Final[dict[type, Mapping[str, Any]]] = {}
Step = Callable[[Spelling], None]
STEPS: Final[dict[str, list[tuple[int, Step]]]] = {}


def before(opset: int, *kinds: str) -> Callable[[Step], Step]:
    """Register a change for opsets before `opset`."""

    def register(function: Step) -> Step:
        for kind in kinds:
            STEPS.setdefault(kind, []).append((opset, function))
            STEPS[kind].sort(key=lambda entry: -entry[0])
        return function

    return register


def spell(node: Node, opset: int) -> Spelling:
    """`node` in `opset`; NotExpressible when it has no form there."""
    spelling = newest(node)
    if spelling.domain:
        return spelling
    if isinstance(node.op, Opaque):
        return _opaque(spelling, node.op, opset)
    if spelling.kind in RECURRENT:
        _state_hidden_size(spelling)
    schema = schema_of(spelling.kind, opset)
    if schema is None and spelling.kind in OWN_OF_RUNTIME:
        return spelling
    if schema is None:
        raise NotExpressible("it does not exist there", next_version(spelling.kind, opset))
    try:
        for threshold, step in STEPS.get(spelling.kind, ()):
            if opset < threshold:
                step(spelling)
        _check(spelling, schema)
    except NotExpressible as reason:
        reason.needs = reason.needs or next_version(node.kind, opset)
        raise
    return spelling


def _state_hidden_size(spelling: Spelling) -> None:
    """Write how many units there are, which the weights tell, too: ONNX Runtime asks for it."""
    recurrence = spelling.shape(2)
    if (
        recurrence is not None
        and not spelling.attributes.get("hidden_size")
        and isinstance(recurrence[-1], int)
    ):
        spelling.attributes["hidden_size"] = recurrence[-1]


def newest(node: Node) -> Spelling:
    """`node` in the newest form, with the attributes that differ from their defaults."""
    op = node.op
    attributes = dict(op.attributes())
    if isinstance(op, Op):
        schema = schema_of(op.name, NEWEST) if not op.domain else None
        required = schema.required if schema is not None else frozenset()
        if isinstance(op, MlOp):
            required = _without_default(op.name, op.since, op.domain) & {
                k for k, v in attributes.items() if not isinstance(v, tuple) or len(v)
            }
        defaults = _defaults(op)
        attributes = {
            k: v for k, v in attributes.items() if k in required or not _same(v, defaults[k])
        }
    attributes = {
        k: v.onnx if isinstance(v, dtypes.DType) else v
        for k, v in attributes.items()
        if v is not None
    }
    return Spelling(
        op.name, op.domain, list(node.inputs), attributes, dict(node.subgraphs), list(node.outputs)
    )


@cache
def _without_default(kind: str, opset: int, domain: str) -> frozenset[str]:
    """The attributes for which ONNX has no default, though we may."""
    schema = schema_of(kind, opset, domain)
    attributes = schema.attributes if schema is not None else {}
    return frozenset(name for name, a in attributes.items() if not a.default_value.type)


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and not isinstance(a, np.ndarray) and bool(a == b)


def _opaque(spelling: Spelling, op: Opaque, opset: int) -> Spelling:
    """An unknown operator of ONNX itself keeps its form, so its opset must define it alike."""
    own, there = schema_of(op.name, op.version or opset), schema_of(op.name, opset)
    if own is not None and (there is None or own.since_version != there.since_version):
        raise NotExpressible(
            f"it is kept as it was in opset {op.version}",
            op.version if op.version > opset else None,
        )
    return spelling


def _defaults(op: Op) -> Mapping[str, Any]:
    """The attributes of an operator as they are where nothing is given."""
    defaults = _DEFAULTS.get(type(op))
    if defaults is None:
        defaults = _DEFAULTS[type(op)] = {f.name: f.default for f in dataclasses.fields(op)}  # type: ignore[arg-type]
    return defaults


def _check(spelling: Spelling, schema: Definition) -> None:
    """NotExpressible unless attributes, inputs and their types are those of `schema`."""
    for name, value in list(spelling.attributes.items()):
        if name not in schema.attributes:
            raise NotExpressible(f"it has no {name} (here {value!r})")
    optional = defs.OpSchema.FormalParameterOption.Optional
    while (
        len(spelling.inputs) < schema.min_input
        and schema.inputs[len(spelling.inputs)].option == optional
    ):
        spelling.inputs.append(None)
    if not schema.min_input <= len(spelling.inputs) <= schema.max_input:
        raise NotExpressible(
            f"it takes {schema.min_input} to {schema.max_input} inputs, not {len(spelling.inputs)}"
        )
    if len(spelling.outputs) > schema.max_output:
        raise NotExpressible(f"it gives {schema.max_output} outputs, not {len(spelling.outputs)}")
    accepted = operand_types(spelling.kind, schema.since_version)
    for index, value in enumerate(spelling.inputs):
        if (
            value is not None
            and type_text(value.type) not in accepted[min(index, len(accepted) - 1)]
        ):
            raise NotExpressible(f"its input {index} cannot be {type_text(value.type)}")
    target = spelling.attributes.get("to", spelling.attributes.get("output_dtype"))
    if (
        target
        and schema.outputs
        and f"tensor({element_text(dtypes.by_onnx(target))})" not in schema.outputs[0].types
    ):
        raise NotExpressible(f"it cannot give {dtypes.by_onnx(target)}")
