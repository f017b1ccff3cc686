"""Random graphs over toy operators: every kind of type, constant, attribute, name and nesting that
a graph can have.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from infuse import dtypes
from infuse.ir import (
    DataFormat,
    Graph,
    MapType,
    Node,
    OptionalType,
    SequenceType,
    TensorType,
    Type,
    Value,
    constant,
    dims,
)
from infuse.ir.registry import register_source
from infuse.ir.types import UNKNOWN


@dataclass(frozen=True)
class Toy:
    """Any inputs; every output has the type of the first input."""

    name: ClassVar[str] = "Toy"
    domain: ClassVar[str] = "test.toys"
    axis: int = -1
    alpha: float = 0.5
    mode: str = "plain"
    axes: tuple[int, ...] = ()
    given: Any = None

    def attributes(self) -> Mapping[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def infer_types(self, node: Node) -> Sequence[Type]:
        first = node.input(0)
        return [UNKNOWN if first is None else first.type] * len(node.outputs)

    def infer_node(self, node: Node) -> None:
        for value, inferred in zip(node.outputs, self.infer_types(node)):
            value.type = inferred


class Branch(Toy):
    """A toy with bodies."""

    name: ClassVar[str] = "Branch"
    domain: ClassVar[str] = ""


TOYS = {(kind.domain, kind.name): kind for kind in (Toy, Branch)}
register_source(lambda domain, name: TOYS.get((domain, name)))

NAMES = [
    "x",
    "x",
    "",
    "y_1",
    "y",
    "/layer.0/Add_output_0",
    "a b",
    "%x",
    "größe",
    "x:0",
    'q"\\',
    "return",
    "_",
    "-",
    "\n",
]
SYMBOLS = [
    "batch",
    "seq",
    "batch size",
    "max",
    "if",
    "a+b",
    "Größe",
    'q"',
    "unk__3",
    "float32",
    "inf",
]
REALS = [
    0.0,
    -0.0,
    0.1,
    -1.5,
    1e-45,
    3.4e38,
    math.inf,
    -math.inf,
    math.nan,
    1 / 3,
    16777217.0,
    1e22,
]
TEXTS = [
    "",
    "plain",
    'quo"te',
    "back\\slash",
    "line\nbreak",
    "tab\t",
    "ünïcödé ✓",
    "\x00\x7f",
    "}{#,",
]


def random_dim(rnd: random.Random, depth: int = 2) -> dims.Dim:
    if depth == 0 or rnd.random() < 0.5:
        return rnd.randint(0, 5) if rnd.random() < 0.5 else dims.symbol(rnd.choice(SYMBOLS))
    a, b = random_dim(rnd, depth - 1), random_dim(rnd, depth - 1)
    divisor = rnd.randint(2, 4)
    return rnd.choice(
        [
            a + b,
            a * b,
            a + 1,
            a * 2,
            a // divisor,
            a % divisor,
            dims.maximum(a, b),
            dims.minimum(a, b + 1),
            a // (b + 1),
        ]
    )


def random_type(rnd: random.Random) -> Type:
    if rnd.random() < 0.1:
        kind = rnd.choice((SequenceType, OptionalType, MapType))
        key = (rnd.choice((dtypes.int64, dtypes.string)),) if kind is MapType else ()
        return kind(*key, random_type(rnd))
    dtype = rnd.choice(dtypes.ALL)
    if rnd.random() < 0.1:
        return TensorType(dtype, None)
    shape = tuple(random_dim(rnd) for _ in range(rnd.randint(0, 4)))
    return TensorType(
        dtype, shape, rnd.choice(list(DataFormat)) if len(shape) == 4 else DataFormat.ND
    )


def random_array(rnd: random.Random, dtype: dtypes.DType, limit: int = 100) -> np.ndarray:
    shape = rnd.choice([(), (1,), (2,), (0,), (2, 3), (3, 0, 2), (1, 4), (9,), (8, 10)])
    count = math.prod(shape)
    if count > limit:
        shape, count = (), 1
    if dtype.kind == "s":
        flat = np.empty(count, dtype=object)
        flat[:] = [rnd.choice(TEXTS) for _ in range(count)]
    elif rnd.random() < 0.2 and dtype.kind in "fiu" and dtype.bits >= 8:
        flat = np.frombuffer(rnd.randbytes(count * dtype.bytes), dtype.numpy).copy()
    else:
        low = {"b": 0, "u": 0}.get(dtype.kind, -8)
        picked = [
            rnd.choice(REALS) if dtype.kind in "fc" else rnd.randint(low, 1 if low == 0 else 7)
            for _ in range(count)
        ]
        with np.errstate(all="ignore"):
            flat = np.array(picked, dtype=np.float64).astype(dtype.numpy)
    return flat.reshape(shape)


def random_attribute(rnd: random.Random, depth: int = 2) -> Any:
    makers = [
        lambda: None,
        lambda: rnd.random() < 0.5,
        lambda: rnd.choice([0, 1, -1, 7, 2**63 - 1, -(2**63), 2**70]),
        lambda: rnd.choice(REALS),
        lambda: rnd.choice(TEXTS),
        lambda: rnd.choice([b"", b"\x00\xff"]),
        lambda: rnd.choice(dtypes.ALL),
        lambda: rnd.choice(list(DataFormat)),
        lambda: random_type(rnd),
        lambda: dims.symbol(rnd.choice(SYMBOLS)) + rnd.randint(0, 2),
        lambda: random_array(rnd, rnd.choice(dtypes.ALL)),
        lambda: tuple(rnd.randint(-3, 3) for _ in range(rnd.randint(0, 3))),
        lambda: tuple(rnd.choice(REALS) for _ in range(rnd.randint(1, 3))),
        lambda: tuple(rnd.choice(TEXTS) for _ in range(rnd.randint(1, 3))),
        lambda: tuple(
            random_attribute(rnd, depth - 1) for _ in range(rnd.randint(0, 3) if depth else 0)
        ),
    ]
    return rnd.choice(makers)()


def random_operator(rnd: random.Random, kind: type[Toy]) -> Toy:
    choices = {
        "axis": lambda: rnd.randint(-2, 2),
        "alpha": lambda: rnd.choice(REALS),
        "mode": lambda: rnd.choice(TEXTS),
        "axes": lambda: tuple(rnd.randint(0, 3) for _ in range(rnd.randint(0, 2))),
        "given": lambda: random_attribute(rnd),
    }
    return kind(**{name: make() for name, make in choices.items() if rnd.random() < 0.4})


def random_content(rnd: random.Random, value: Value) -> None:
    """Sometimes let some elements of an integer value be known."""
    type = value.type
    if (
        isinstance(type, TensorType)
        and type.is_static
        and type.dtype.kind in "iub"
        and rnd.random() < 0.5
    ):
        content = np.empty(math.prod(type.shape or ()), dtype=object)
        for index in range(content.size):
            content[index] = (
                rnd.random() < 0.5 if type.dtype.is_bool else random_dim(rnd) - rnd.randint(0, 1)
            )
        value.content = content.reshape(type.shape)


def random_value(rnd: random.Random) -> Value:
    value = Value(random_type(rnd), rnd.choice(NAMES))
    random_content(rnd, value)
    return value


def random_graph(rnd: random.Random, outer: Sequence[Value] = (), depth: int = 2) -> Graph:
    """A well-formed graph; bodies read values of `outer`."""
    graph = Graph(rnd.choice(NAMES))
    graph.doc = rnd.choice(TEXTS)
    graph.metadata = (
        {t: rnd.choice(TEXTS) for t in rnd.sample(TEXTS, 2)} if rnd.random() < 0.3 else {}
    )
    graph.opsets = {"": 21, "test.toys": 1} if rnd.random() < 0.5 else {}
    graph.inputs = [random_value(rnd) for _ in range(rnd.randint(0, 3))]
    visible = [*outer, *graph.inputs]
    for _ in range(rnd.randint(0, 5)):
        node = random_node(rnd, visible, depth)
        graph.add_node(node)
        visible += node.outputs
    for _ in range(rnd.randint(0, 3)):
        graph.add_output(random_operand(rnd, visible), rnd.choice(NAMES))
    return graph


def random_operand(rnd: random.Random, visible: list[Value]) -> Value:
    if visible and rnd.random() < 0.7:
        return rnd.choice(visible)
    dtype = rnd.choice(dtypes.ALL)
    made = constant(random_array(rnd, dtype), rnd.choice(NAMES), dtype)
    visible.append(made)
    return made


def random_node(rnd: random.Random, visible: list[Value], depth: int) -> Node:
    kind = Branch if depth and rnd.random() < 0.3 else Toy
    names = rnd.sample(["then", "else", "odd name"], rnd.randint(1, 2)) if kind is Branch else []
    bodies = {name: random_graph(rnd, visible, depth - 1) for name in names}
    operands = [
        None if rnd.random() < 0.1 else random_operand(rnd, visible)
        for _ in range(rnd.randint(0, 3))
    ]
    outputs = [random_value(rnd) for _ in range(rnd.randint(0, 2))]
    operator = random_operator(rnd, kind)
    node = Node(operator, operands, outputs, name=rnd.choice(NAMES), subgraphs=bodies)
    if rnd.random() < 0.3:
        node.origin = tuple(rnd.sample(NAMES, 2))
    if rnd.random() < 0.2:
        node.doc, node.metadata = rnd.choice(TEXTS), {rnd.choice(TEXTS): "x"}
    return node
