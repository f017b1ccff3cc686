"""Random numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.tflite.calls import LiteCall, builtin
from infuse.ir.graph import Value


def _seed(call: LiteCall) -> dict[str, float]:
    seeds: Sequence[int] = [int(call.option("seed")), int(call.option("seed2"))]
    return {"seed": float(np.float32(seeds[0] ^ seeds[1]))} if any(seeds) else {}


@builtin("RANDOM_UNIFORM")
def random_uniform(call: LiteCall) -> Value:
    """Random numbers from 0 to 1; other ones than TensorFlow Lite's for the same seed."""
    like = call.g("Expand", call.g.number(0, dtypes.float32), call.list_of(0))
    return call.g("RandomUniformLike", like, **_seed(call))


@builtin("RANDOM_STANDARD_NORMAL")
def random_normal(call: LiteCall) -> Value:
    """Random numbers of the normal distribution; other ones for the same seed."""
    like = call.g("Expand", call.g.number(0, dtypes.float32), call.list_of(0))
    return call.g("RandomNormalLike", like, **_seed(call))


@builtin("MULTINOMIAL")
def multinomial(call: LiteCall) -> Value:
    """Random classes by the logarithms of their chances; other ones for the same seed."""
    count = call.one(1)
    if count < 1:
        raise ModelFileError(f"it draws {count} samples")
    return call.g("Multinomial", call.real(0), sample_size=count, dtype=call.dtype, **_seed(call))
