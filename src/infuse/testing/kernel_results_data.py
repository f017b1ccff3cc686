"""What nodes mean for the kernels that hand their results to a sink, by domain and kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from infuse.codegen.tensors import channels_last
from infuse.ir.graph import Array, Node, Value

Result = Callable[[str, Node, Mapping[Value, Array]], "Array | None"]
"""Of a kernel, a node and the values of its graph what is handed over, in the order of the sink."""
RESULTS: Final[dict[tuple[str, str], Result]] = {}


def means(*kinds: str, domain: str = "") -> Callable[[Result], Result]:
    """Register what nodes of these kinds mean for their kernels."""

    def register(result: Result) -> Result:
        RESULTS.update(dict.fromkeys([(domain, kind) for kind in kinds], result))
        return result

    return register


@means("Resize")
def resize(kernel: str, node: Node, values: Mapping[Value, Array]) -> Array:
    """Planes, or images with their channels last."""
    result = values[node.outputs[0]].astype(np.float64)
    return result if kernel == "resize_planes" else result.transpose(channels_last(result.ndim))
