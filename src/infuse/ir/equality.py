"""Whether two graphs are the same, and the first place where they are not."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from infuse.ir.graph import Array, Graph, Node, Value
from infuse.ir.nesting import room_for


def equal(a: Graph, b: Graph, *, annotations: bool = True) -> str | None:
    """The first difference between two graphs in words, or None when they are the same.

    Compared in execution order: structure, operators with their attributes, types, constants bit by
    bit, which reads share one value, and the names of inputs and outputs. `annotations` adds what
    no result depends on: names of graphs, inner values and nodes, origins, documentation, metadata
    and opsets.
    """
    try:
        with room_for(a):
            _Comparison(annotations).graphs(a, b, a.name or "graph")
    except _Difference as difference:
        return str(difference)
    return None


def same_attribute(a: Any, b: Any) -> bool:
    """Whether two attribute values are the same: of one Python type, floats bit by bit, arrays byte
    by byte.
    """
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack("<d", a) == struct.pack("<d", b)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same_attribute, a, b))
    if isinstance(a, np.ndarray):
        return same_array(a, b)
    return bool(a == b)


def same_array(a: Array, b: Array) -> bool:
    """Whether two arrays have the same element type, shape and bytes."""
    if a is b:
        return True
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype == object:
        return bool(a.tolist() == b.tolist())
    return bool(np.array_equal(raw_bytes(a), raw_bytes(b)))


def raw_bytes(array: Array) -> Array:
    """The bytes of `array` in row-major order, as a flat view where that is possible."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


class _Difference(Exception):
    """Unwinds the comparison; never leaves this module."""


def _check(what: str, a: Any, b: Any) -> None:
    if a != b:
        raise _Difference(f"{what}: {_short(a)} against {_short(b)}")


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


class _Comparison:
    def __init__(self, annotations: bool) -> None:
        self.annotations = annotations
        self.partner: dict[Value, Value] = {}
        self.partner_back: dict[Value, Value] = {}

    def graphs(self, a: Graph, b: Graph, place: str) -> None:
        _check(f"{place}: number of inputs", len(a.inputs), len(b.inputs))
        _check(f"{place}: output names", a.output_names, b.output_names)
        if self.annotations:
            _check(f"{place}: name", a.name, b.name)
            _check(f"{place}: documentation", a.doc, b.doc)
            _check(f"{place}: metadata", a.metadata, b.metadata)
            _check(f"{place}: opsets", a.opsets, b.opsets)
        for index, (x, y) in enumerate(zip(a.inputs, b.inputs)):
            _check(f"{place}: name of input {index}", x.name, y.name)
            self.define(x, y, f"{place}: input {x.name!r}")
            _check(
                f"{place}: whether input {x.name!r} has a default",
                x.default is None,
                y.default is None,
            )
            if (
                x.default is not None
                and y.default is not None
                and not same_array(x.default, y.default)
            ):
                raise _Difference(f"{place}: the default of input {x.name!r} differs")
        nodes, others = a.nodes, b.nodes
        for node, other in zip(nodes, others):
            self.nodes(node, other, f"{place}: {node.kind} node {node.name!r}")
        _check(f"{place}: number of nodes", len(nodes), len(others))
        _check(f"{place}: number of outputs", len(a.outputs), len(b.outputs))
        for name, x, y in zip(a.output_names, a.outputs, b.outputs):
            self.read(x, y, f"{place}: output {name!r}")

    def nodes(self, a: Node, b: Node, place: str) -> None:
        _check(f"{place}: operator", (a.op.domain, a.kind), (b.op.domain, b.kind))
        self.attributes(a.op.attributes(), b.op.attributes(), place)
        if self.annotations:
            _check(f"{place}: name", a.name, b.name)
            _check(f"{place}: origin", a.origin, b.origin)
            _check(f"{place}: documentation", a.doc, b.doc)
            _check(f"{place}: metadata", a.metadata, b.metadata)
        _check(f"{place}: number of inputs", len(a.inputs), len(b.inputs))
        for index, (x, y) in enumerate(zip(a.inputs, b.inputs)):
            if x is None or y is None:
                _check(f"{place}: input {index}", x, y)
            else:
                self.read(x, y, f"{place}: input {index}")
        _check(f"{place}: bodies", list(a.subgraphs), list(b.subgraphs))
        for name, body in a.subgraphs.items():
            self.graphs(body, b.subgraphs[name], f"{place}: {name}")
        self.outputs(a.outputs, b.outputs, place)

    def attributes(self, a: Mapping[str, Any], b: Mapping[str, Any], place: str) -> None:
        _check(f"{place}: attributes", sorted(a), sorted(b))
        for name, value in a.items():
            if not same_attribute(value, b[name]):
                raise _Difference(
                    f"{place}: attribute {name}: {_short(value)} against {_short(b[name])}"
                )

    def outputs(self, a: Sequence[Value], b: Sequence[Value], place: str) -> None:
        _check(f"{place}: number of outputs", len(a), len(b))
        for index, (x, y) in enumerate(zip(a, b)):
            if self.annotations:
                _check(f"{place}: name of output {index}", x.name, y.name)
            self.define(x, y, f"{place}: output {index}")

    def define(self, a: Value, b: Value, place: str) -> None:
        """Let `a` and `b` stand for each other from now on."""
        _check(f"{place}: type", a.type, b.type)
        self.partner[a] = b
        self.partner_back[b] = a

    def read(self, a: Value, b: Value, place: str) -> None:
        """`a` and `b` must be a known pair, or two equal constants that nobody has read so far."""
        if a not in self.partner and b not in self.partner_back and a.is_const and b.is_const:
            self.constants(a, b, place)
        if self.partner.get(a) is not b or self.partner_back.get(b) is not a:
            raise _Difference(f"{place}: reads {a.name!r} against {b.name!r}")

    def constants(self, a: Value, b: Value, place: str) -> None:
        assert a.const is not None
        assert b.const is not None
        if self.annotations:
            _check(f"{place}: name of the constant", a.name, b.name)
        self.define(a, b, place)
        if not same_array(a.const, b.const):
            raise _Difference(f"{place}: the elements of constant {a.name!r} differ")
