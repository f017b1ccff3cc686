"""How calls of ONNX Runtime's own operators are read as ONNX's: a body for each, on a builder."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from infuse.catalog import Catalog, CatalogTable, calling_module
from infuse.dtypes import DType
from infuse.errors import ModelFileError
from infuse.ir.dims import Dim
from infuse.ir.expression import Call
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.operator import Operator
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN, Shape
from infuse.ops.core.building import GraphBuilder

DOMAIN: Final = "com.microsoft"
Body = Callable[..., Value | Sequence[Value | None] | None]
"""The results of a call with these inputs and attributes; None where it cannot be read so."""
BODIES: Final[CatalogTable[Body]] = CatalogTable(Catalog("infuse.tracing.microsoft"))


def reads(*kinds: str) -> Callable[[Body], Body]:
    """Register how calls of operators are read. Of the attributes a body gets those that it names,
    or all.
    """
    module = calling_module()

    def register(body: Body) -> Body:
        for kind in kinds:
            BODIES.register((DOMAIN, kind), body, module)
        return body

    return register


class CallBuilder(GraphBuilder):
    """Adds the nodes of a call to a graph, named after it.

    Where types are not known yet, as inside of bodies of control flow, nothing is made of them:
    conversions are nodes, and numbers take the type of the operand beside them in a run.
    """

    def __init__(self, graph: Graph, name: str, asked: Sequence[bool], typed: bool) -> None:
        super().__init__(graph)
        self.name, self.asked, self.typed = name, asked, typed
        self._count = 0

    def asks(self, output: int) -> bool:
        """Whether the call has this output."""
        return output < len(self.asked) and self.asked[output]

    def apply(self, op: Operator, inputs: Sequence[Value | None], count: int = 1) -> list[Value]:
        """The outputs of a new node with this operator."""
        name = f"{self.name}/{op.name}_{self._count}"
        self._count += 1
        outputs = [Value(UNKNOWN, f"{name}:{i}" if i else name) for i in range(count)]
        node = self.graph.add_node(Node(op, inputs, outputs, name=name))
        op.infer_node(node)
        return outputs

    def several(self, count: int, kind: str, *operands: Any, **attributes: Any) -> list[Value]:
        """All `count` outputs of a new node."""
        values = [self(v) if isinstance(v, Call) else v for v in operands]
        first = next((v for v in values if isinstance(v, Value)), None)
        if not self.typed and first is not None:
            values = [
                self("CastLike", constant(v), first) if isinstance(v, (int, float)) else v
                for v in values
            ]
        return super().several(count, kind, *values, **attributes)

    def runtime(self, count: int, kind: str, *inputs: Value | None, **attributes: Any) -> Any:
        """All outputs of another operator of ONNX Runtime's own."""
        return self.apply(make_operator(DOMAIN, kind, attributes), inputs, count)

    def cast(self, value: Value, dtype: DType) -> Value:
        """`value` in another element type."""
        return super().cast(value, dtype) if self.typed else self("Cast", value, to=dtype)

    def like(self, value: Value | Call, other: Value) -> Value:
        """`value` in the element type of another one."""
        if self.typed:
            return self.cast(self(value), other.dtype)
        return self("CastLike", value, other)

    def shape(self, value: Value | None) -> Shape | None:
        """The shape of a tensor; None where the rank is not known."""
        return None if value is None else value.tensor.shape

    # -- sizes -------------------------------------------------------------------------------------

    def ints(self, *values: Dim) -> Value:
        """A list of fixed sizes or axes."""
        return constant(np.array([int(str(v)) for v in values], np.int64))

    def whole(self, value: int) -> Value:
        """A number of int64."""
        return constant(np.asarray(value, np.int64))

    def sizes(self, *parts: int | Value) -> Value:
        """A list of sizes, from numbers and lists."""
        lists = [self.ints(part) if isinstance(part, int) else part for part in parts]
        return self("Concat", *lists, axis=0)


def results_of(
    make: CallBuilder, kind: str, inputs: Sequence[Value | None], attributes: Mapping[str, Any]
) -> list[Value | None] | None:
    """What stands for the outputs of a call, None where nothing does; ModelFileError where it does
    not fit.
    """
    body = BODIES.get((DOMAIN, kind))
    if body is None:
        return None
    parameters = inspect.signature(body).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    named = {k: v for k, v in attributes.items() if takes_all or k in parameters}
    given = list(inputs)
    while given and given[-1] is None:
        given.pop()
    try:
        inspect.signature(body).bind(make, *given, **named)
    except TypeError as error:
        raise ModelFileError(f"a call of {kind} does not fit: {error}") from error
    results = body(make, *given, **named)
    if results is None:
        return None
    listed: list[Value | None] = [results] if isinstance(results, Value) else list(results)
    for number, is_asked in enumerate(make.asked):
        if is_asked and (number >= len(listed) or listed[number] is None):
            raise ModelFileError(f"a call of {kind} with these inputs has no output {number}")
    return listed
