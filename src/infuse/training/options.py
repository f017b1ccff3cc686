"""How a training goes, and who looks on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from infuse.ir.graph import Array, Graph
from infuse.options.fields import Checked, documented, option
from infuse.training import schedules
from infuse.training.losses import Losses
from infuse.training.optimizers import Optimizer

Progress = Callable[[int, int, float], None]
"""Called after every step: its number from 1, how many there are, and the loss."""
Augment = Callable[[dict[str, Array], np.random.Generator], dict[str, Array]]
"""Changes the data of a batch before it is learned from."""
AfterEpoch = Callable[[int, Callable[[], Graph]], bool]
"""Called after every epoch: its number from 1, and a function that gives the graph as it is by
then; whether the training ends.
"""


@documented
@dataclass(frozen=True, eq=False)
class TrainOptions(Checked):
    """How a graph is trained."""

    loss: Losses = option(
        "cross_entropy", "`cross_entropy`, `mse`, a Loss, or several with weights.", form="object"
    )
    optimizer: Optimizer | None = option(None, "The optimizer; default: AdamW.", form="object")
    epochs: int = option(1, "How often each example is learned from.", least=1)
    batch_size: int = option(32, "Examples of a step.", least=1)
    schedule: schedules.Schedule = option(
        schedules.constant, "The factor of the optimizer's rate at each step.", form="object"
    )
    clip_norm: float | None = option(
        None, "The largest norm of all gradients together.", least=0, excluded=True
    )
    batch_statistics: bool = option(
        False, "Let the statistics of batch normalizations follow those of the batches."
    )
    augment: Augment | None = option(
        None, "What changes the data of a batch before it is learned from.", form="object"
    )
    seed: int = option(0, "Decides the order of examples.", least=0)
    threads: int | None = option(
        None, "Threads of a step; default: all processors that this process may use.", least=1
    )


@documented
@dataclass(frozen=True, eq=False)
class Watch(Checked):
    """What is called while a graph is trained."""

    progress: Progress | None = option(
        None,
        "Called after every step: its number from 1, how many there are, and the loss.",
        form="object",
    )
    after_epoch: AfterEpoch | None = option(
        None,
        "Called after every epoch: its number from 1, and a function that gives the graph as it is "
        "by then; whether the training ends.",
        form="object",
    )
    until: Callable[[], bool] | None = option(
        None, "Asked after every step whether the training ends.", form="object"
    )
