"""What a step of a lowered program has in hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from infuse.codegen.tensors import Tensor
from infuse.ir.dims import Dim
from infuse.ir.graph import Array, Value


@dataclass(frozen=True)
class Memory:
    """The values of a graph, and what lies in the memory of its program.

    `number`: a size as a number. `elements`: what lies from the first element of a tensor on, flat.
    `put`: stores elements so many behind the first one of a tensor. `sizes`: by symbol. `lanes`:
    elements of float32 in a vector.
    """

    values: Mapping[Value, Array]
    number: Callable[[Dim], int]
    elements: Callable[[Tensor], Array]
    put: Callable[[Tensor, Array, Array], None]
    sizes: dict[str, int]
    lanes: int
