"""What verbs are asked for, as objects that check themselves."""

from infuse.options import compressing
from infuse.options.compiling import AUTO, PRECISIONS, PREFIX, WEIGHTS, Auto, CompileOptions
from infuse.options.compressing import *
from infuse.options.data import Examples, Turns
from infuse.options.formats import FormatOptions, HuggingFace, SavedModel, TorchScript
from infuse.options.rules import LEVELS, RUNTIMES, Rules

__all__ = [
    "AUTO",
    "LEVELS",
    "PRECISIONS",
    "PREFIX",
    "RUNTIMES",
    "WEIGHTS",
    "Auto",
    "CompileOptions",
    "Examples",
    "FormatOptions",
    "HuggingFace",
    "Rules",
    "SavedModel",
    "TorchScript",
    "Turns",
]
__all__ += compressing.__all__
