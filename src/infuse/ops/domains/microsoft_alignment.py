"""The cheapest path through a table of costs, by which texts are aligned with sound."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.errors import ShapeError
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op
from infuse.ops.core.elementwise import require_kind, widened
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.samples import Floats, cases
from infuse.ops.core.sizes import agree, fresh_dim
from infuse.ops.core.traits import Trait
from infuse.ops.domains.microsoft import DOMAIN


class DynamicTimeWarping(Op):
    """The cheapest path through costs (rows, columns), or (1, rows, columns), from the first to the
    last: its row and column at each step, (2, steps).

    A step goes one row on, one column on, or both. Of equal sums that of the column before is
    taken; both only where it is less than either. A path ends early where no sum is a number.
    """

    traits = Trait.FLOAT32

    domain = DOMAIN
    samples = (
        cases(input=[Floats((4, 6), 0, 1), Floats((1, 7, 3), -1, 1), Floats((1, 5), 0, 1)]),
        cases(input=[np.zeros((3, 4), np.float32), np.full((3, 3), np.nan, np.float32)]),
        cases(input=[(np.arange(72, dtype=np.float32).reshape(9, 8) * 7) % 3]),
    )

    def infer(self, input: Value) -> Inferred:
        require_kind(self.name, input.dtype, "f")
        shape = input.tensor.shape
        if shape is not None and len(shape) not in (2, 3):
            raise ShapeError(f"{self.name} takes (rows, columns) or (1, rows, columns)")
        if shape is not None and len(shape) == 3:
            agree(shape[0], 1, f"the first axis of {self.name}")
        return TensorType(dtypes.int32, (2, fresh_dim("steps")))

    def eval(self, input: Array) -> Array:
        rows, columns = input.shape[-2:]
        costs = widened(input).reshape(rows, columns)
        sums = np.full((rows + 1, columns + 1), np.inf, costs.dtype)
        sums[0, 0] = 0
        steps = np.zeros(sums.shape, np.int8)
        for total in range(rows + columns - 1):
            i = np.arange(max(0, total - columns + 1), min(rows, total + 1))
            j = total - i
            both, row, column = sums[i, j], sums[i, j + 1], sums[i + 1, j]
            chosen = np.where((row < both) & (row < column), 1, 2)
            chosen = np.where((both < row) & (both < column), 0, chosen)
            steps[i + 1, j + 1] = chosen
            sums[i + 1, j + 1] = costs[i, j] + np.choose(chosen, (both, row, column))
        path, i, j = [], rows, columns
        while i > 0 and j > 0:
            path.append((i - 1, j - 1))
            step = steps[i, j]
            i, j = i - int(step != 2), j - int(step != 1)
        result: Array = np.array(path[::-1], np.int32).reshape(-1, 2).T
        return result

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, 3 * shapes.size(0))
