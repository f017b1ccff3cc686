"""What verbs are asked for, as objects that check themselves."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from infuse.options.commands import BindOptions
from infuse.options.compiling import (
    AUTO,
    BARE,
    PRECISIONS,
    PREFIX,
    WEIGHTS,
    Auto,
    CompileOptions,
)
from infuse.options.data import Examples, Turns
from infuse.options.formats import FormatOptions, HuggingFace, SavedModel, TorchScript
from infuse.options.rules import LEVELS, RUNTIMES, Rules

if TYPE_CHECKING:
    from infuse.options import compressing
    from infuse.options.compressing import *

__all__ = [
    "AUTO",
    "BARE",
    "LEVELS",
    "PRECISIONS",
    "PREFIX",
    "RUNTIMES",
    "WEIGHTS",
    "Auto",
    "BindOptions",
    "CompileOptions",
    "Examples",
    "FormatOptions",
    "HuggingFace",
    "Rules",
    "SavedModel",
    "TorchScript",
    "Turns",
]

if TYPE_CHECKING:
    __all__ += compressing.__all__
else:

    def __getattr__(name: str) -> Any:
        """The classes of compression, which most programs have no use for."""
        compressing = import_module("infuse.options.compressing")
        if name not in compressing.__all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(compressing, name)
