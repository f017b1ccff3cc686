"""What rules about attention and its masks must not fire on, and what they say then."""

from typing import Any

import numpy as np

from infuse.ops.core.sizes import int64s
from tests.pure.refused_operands import f32

# Rule → operands on which its pattern fits (or a graph on which it does not), and what the refusal
# says.
REFUSED: dict[str, tuple[Any, str]] = {
    "FuseAttention": (
        {
            **{
                "q": (2, 3, 5, 4),
                "kt": (1, 3, 4, 6),
                "v": (2, 3, 6, 7),
                "mask": (5, 6),
                "more": (5, 6),
            },
            **{"q_factor": f32(0.5)[0], "k_factor": f32(0.5)[0], "s_factor": f32(2)[0]},
        },
        "batch or heads are broadcast",
    ),
    "FlattenAttention": (
        {"operands": [(2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 4)], "moved": {"perm": (0, 2, 1, 3)}},
        "is not cut from rows of all heads",
    ),
    "FuseRotaryEmbedding": (
        {
            **{"x": (2, 3, 5, 4), "a": (2, 3, 5, 2), "b": (2, 3, 5, 2), "joined": {"axis": -1}},
            **{"cos": (1, 1, 5, 4), "sin": (1, 1, 5, 4)},
        },
        "the parts are not halves of what is turned",
    ),
    "FusePartialRotaryEmbedding": (
        {
            "x": (2, 3, 5, 4),
            "rest": (2, 3, 5, 2),
            "cos": (2, 5, 2),
            "sin": (2, 5, 2),
            "root": {"axis": -1},
        },
        "the parts do not come from one value",
    ),
    "ShareHeads": (
        {
            **{"q": (2, 6, 5, 4), "k": (2, 1, 6, 7, 4), "v": (2, 1, 6, 7, 4), "more": []},
            **{
                "wide": int64s(2, 1, 6, 7, 4),
                "k_shape": int64s(2, 6, 7, 4),
                "v_shape": int64s(2, 6, 7, 4),
            },
        },
        "other axes are repeated",
    ),
    "CausalMask": (
        {
            "q": (2, 3, 5, 4),
            "k": (2, 3, 5, 4),
            "v": (2, 3, 5, 4),
            "mask": np.tri(5, k=1, dtype=bool),
        },
        "the mask hides other keys, or shows some later ones",
    ),
    "BandedMask": (
        {
            "q": (2, 3, 5, 4),
            "k": (2, 3, 5, 4),
            "v": (2, 3, 5, 4),
            "mask": np.tri(5, k=-2, dtype=bool),
        },
        "the window lies beside the queries' places",
    ),
    "FuseRotaryHalves": (
        {
            **{"a": (2, 3, 5, 2), "b": (2, 3, 5, 2), "cos": (2, 1, 5, 2), "sin": (2, 1, 5, 2)},
            "joined": {"axis": -1},
        },
        "the parts are not halves of one value",
    ),
}
