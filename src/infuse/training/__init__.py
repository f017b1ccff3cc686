"""Training: gradients, losses, optimizers and the loop, as graphs that are compiled like any
other.
"""

from __future__ import annotations

from infuse.training import schedules
from infuse.training.differentiation import differentiate
from infuse.training.loop import TrainingReport, train
from infuse.training.lora import add_lora, lora_parameters, merge_lora
from infuse.training.losses import CrossEntropy, Distillation, Loss, MeanSquaredError
from infuse.training.optimizers import SGD, AdamW, Optimizer
from infuse.training.options import TrainOptions, Watch
from infuse.training.step import TrainingStep, build_step, parameters_of

__all__ = [
    "SGD",
    "AdamW",
    "CrossEntropy",
    "Distillation",
    "Loss",
    "MeanSquaredError",
    "Optimizer",
    "TrainOptions",
    "TrainingStep",
    "TrainingReport",
    "Watch",
    "add_lora",
    "build_step",
    "differentiate",
    "lora_parameters",
    "merge_lora",
    "parameters_of",
    "schedules",
    "train",
]
