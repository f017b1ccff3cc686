"""Resource variables of a model: what they are at first, and while the graph is built."""

from __future__ import annotations

from dataclasses import dataclass, field

from infuse.ir.graph import Array, Value
from infuse.tracing.items import Table


@dataclass
class Resources:
    """Variables by name. `stateful`: whether a run of the model assigns any.

    While a subgraph that runs once is read (`once`), what is assigned is the first value. `tables`
    are hash tables, which such a subgraph fills.
    """

    stateful: bool
    first: dict[str, Array] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    assigned: set[str] = field(default_factory=set)
    once: bool = False
    tables: dict[str, Table] = field(default_factory=dict)
