"""What rules for quantization must not fire on, and what they say then."""

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.ops.core.samples import Ints
from infuse.ops.core.sizes import int64s
from infuse.ops.quantization import u8

BYTES = Ints((2, 3), 0, 256, dtypes.uint8)
STEP = np.array(0.02, np.float32)

# Rule → operands on which its pattern fits, and what the refusal says.
REFUSED: dict[str, tuple[Any, str]] = {
    "RemoveRequantization": (
        {"q": BYTES, "s": STEP, "z": np.uint8(128), "t": STEP, "y": np.uint8(127)},
        "the scales or zero points differ",
    ),
    "SinkDequantization": (
        {
            "q": BYTES,
            "s": np.array([0.1, 0.2, 0.3], np.float32),
            "z": u8(1, 2, 3),
            "more": [int64s(3, 2)],
        },
        "there are several scales",
    ),
    "PoolBeforeDequantization": (
        {
            "q": Ints((1, 2, 6, 5), 0, 9, dtypes.uint8),
            "s": np.float32(-0.5),
            "root": {"kernel_shape": (2, 2)},
        },
        "the scale is not positive",
    ),
    "RemoveLimitBeforeQuantization": (
        {"x": (2, 3), "s": STEP, "z": np.uint8(3)},
        "the limits are narrower than the integers",
    ),
    "QuantizeToUnsigned": (
        {"x": (2, 3), "s": STEP, "z": np.uint8(3), "t": STEP, "y": np.uint8(3)},
        "the integers are not int8",
    ),
}
