"""Training: gradients, losses, optimizers and the loop, as graphs that are compiled like any
other.
"""

from __future__ import annotations

from infuse.training import schedules
from infuse.training.differentiation import differentiate
from infuse.training.loop import TrainingReport, train
from infuse.training.losses import CrossEntropy, Distillation, Loss, MeanSquaredError
from infuse.training.optimizers import SGD, AdamW, Optimizer
from infuse.training.step import Step, build_step, parameters_of

__all__ = [
    "SGD",
    "AdamW",
    "CrossEntropy",
    "Distillation",
    "Loss",
    "MeanSquaredError",
    "Optimizer",
    "Step",
    "TrainingReport",
    "build_step",
    "differentiate",
    "parameters_of",
    "schedules",
    "train",
]
