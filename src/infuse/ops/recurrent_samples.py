"""Samples of recurrent operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.ops.core.base import Sample
from infuse.ops.core.samples import Floats
from infuse.ops.recurrent_base import DIRECTIONS


def one_sample(
    gates: int,
    time: int,
    batch: int,
    size: int,
    hidden: int,
    *optional_inputs: str,
    **attributes: Any,
) -> Sample:
    """Random weights of these sizes, and the optional inputs of these names."""
    directions = DIRECTIONS[attributes.get("direction", "forward")]
    first = (batch,) if attributes.get("layout") else ()
    last = () if first else (batch,)
    state = Floats((*first, directions, *last, hidden), -1, 1)
    optional = {
        "B": Floats((directions, 2 * gates * hidden), -1, 1),
        "sequence_lens": np.array(
            [(time * (i + 1) // batch + i % 2 * time) % (time + 1) for i in range(batch)], np.int32
        ),
        "initial_h": state,
        "initial_c": state,
        "P": Floats((directions, 3 * hidden), -1, 1),
    }
    inputs: dict[str, Any] = {
        "X": Floats((*first, time, *last, size), -1, 1),
        "W": Floats((directions, gates * hidden, size), -0.6, 0.6),
        "R": Floats((directions, gates * hidden, hidden), -0.6, 0.6),
    }
    attributes.setdefault("hidden_size", hidden)
    return Sample({**inputs, **{name: optional[name] for name in optional_inputs}}, attributes)


def usual_samples(gates: int, functions: int, *optional_inputs: str) -> tuple[Sample, ...]:
    """What every cell can do; `optional_inputs` are all that there are."""
    both = {"direction": "bidirectional"}
    names = (
        "Relu",
        "Affine",
        "LeakyRelu",
        "ThresholdedRelu",
        "ScaledTanh",
        "HardSigmoid",
        "Elu",
        "Softsign",
        "Softplus",
    )
    chosen = [names[i % len(names)] for i in range(9 + functions)]
    odd = [
        one_sample(gates, 3, 2, 3, 5, "B", activations=tuple(chosen[i : i + functions]), **numbers)
        for i in range(0, len(names), functions)
        for numbers in [
            {"activation_alpha": (0.3, 0.4, 0.5)[:functions], "activation_beta": (0.7, 0.2, 0.1)}
        ]
    ]
    return (
        one_sample(gates, 4, 3, 5, 6),
        one_sample(gates, 3, 1, 2, 19, "B"),
        one_sample(gates, 5, 3, 4, 7, *optional_inputs, direction="reverse"),
        one_sample(gates, 5, 7, 3, 5, *optional_inputs, **both),
        one_sample(gates, 3, 2, 4, 37, *optional_inputs, **both, layout=1),
        one_sample(gates, 4, 3, 5, 70, "B", "initial_h", layout=1, hidden_size=None),
        one_sample(gates, 3, 2, 3, 4, "B", clip=0.3),
        one_sample(gates, 0, 2, 3, 4, "B", "initial_h"),
        one_sample(gates, 3, 2, 0, 4, "B"),
        one_sample(
            gates, 3, 2, 3, 4, activations=("Softsign", "Relu", "TANH")[:functions] * 2, **both
        ),
        one_sample(
            gates,
            3,
            2,
            3,
            4,
            activations=("Softsign", "Sigmoid", "Tanh", "Elu", "Tanh", "Relu")[: 2 * functions],
            **both,
        ),
        *odd,
    )
