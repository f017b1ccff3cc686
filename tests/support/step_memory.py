"""What a step of a lowered program has in hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from infuse.ir.dims import Dim
from infuse.ir.graph import Array, Value
from infuse.lowering.tensors import Tensor
from infuse.targets import Machine


def strided(tensor: Tensor, number: Callable[[Dim], int]) -> Array:
    """How far each element of a tensor is from its first one."""
    places = np.zeros((), np.int64)
    for axis, (size, stride) in enumerate(zip(tensor.shape, tensor.strides)):
        line = np.arange(number(size), dtype=np.int64) * number(stride)
        places = places + line.reshape(-1, *(1,) * (tensor.rank - axis - 1))
    return np.asarray(places)


@dataclass(frozen=True)
class Memory:
    """The values of a graph, and what lies in the memory of its program.

    `number`: a size as a number. `elements`: what lies from the first element of a tensor on, flat.
    `take`, `put`: read and store elements so many behind the first one of a tensor. `sizes`: by
    symbol. `machine`: what kernels are made for. `places`: where values lie. `parts`: of results
    that several steps make, which elements of the buffer each of those left.
    """

    values: Mapping[Value, Array]
    number: Callable[[Dim], int]
    elements: Callable[[Tensor], Array]
    take: Callable[[Tensor, Array], Array]
    put: Callable[[Tensor, Array, Array], None]
    sizes: dict[str, int]
    machine: Machine
    places: Mapping[Value, Tensor]
    parts: dict[Value, list[Array]] = field(default_factory=dict)
