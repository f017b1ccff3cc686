"""Errors under the names that code written for ONNX Runtime catches.

What a session raises is both: `InvalidArgument` of ONNX Runtime and `InputError` of Infuse, say.
`translated` makes it so; nothing is raised that has a name of ONNX Runtime only.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, cast

from infuse import errors
from infuse.errors import InfuseError, InputError, OptionError, RuntimeFailure


class Fail(InfuseError):
    """Something failed that has no kind of its own."""


class InvalidArgument(InfuseError):
    """An argument, or a value that a model was given, is not one that it takes."""


class NoSuchFile(InfuseError):
    """There is no model at this path."""


class NoModel(InfuseError):
    """A session has no model."""


class EngineError(InfuseError):
    """Native code could not be made or loaded."""


class RuntimeException(InfuseError):
    """A run failed."""


class InvalidProtobuf(InfuseError):
    """The model is not a message of ONNX."""


class ModelLoaded(InfuseError):
    """A model was loaded before."""


class NotImplemented(InfuseError):
    """ONNX Runtime has it, and Infuse does not."""


class InvalidGraph(InfuseError):
    """The graph of the model is not well formed, or has an operator that is not known."""


class EPFail(InfuseError):
    """An execution provider failed."""


class ModelLoadCanceled(InfuseError):
    """Loading a model was cancelled."""


class ModelRequiresCompilation(InfuseError):
    """A model has to be compiled first."""


class NotFound(InfuseError):
    """What was asked for is not there."""


class DeviceReset(InfuseError):
    """A device was reset."""


class MissingInput(InputError, ValueError):
    """A run lacks inputs; ONNX Runtime raises ValueError."""


class ArgumentTypeError(OptionError, TypeError):
    """An argument has the wrong type; ONNX Runtime raises TypeError."""


class UnknownOption(OptionError, AttributeError):
    """Options have no attribute of this name; ONNX Runtime raises AttributeError."""


class UnknownEntry(OptionError, RuntimeError):
    """A configuration entry or a provider that is not there; ONNX Runtime raises RuntimeError."""


class ValueFault(OptionError, RuntimeError):
    """A value that cannot be made or changed so; ONNX Runtime raises RuntimeError."""


class BindingFault(InputError, RuntimeError):
    """What was bound does not fit the model; ONNX Runtime raises RuntimeError."""


class BoundRunFailure(RuntimeFailure, RuntimeError):
    """A run on bound values failed; ONNX Runtime raises RuntimeError."""


_NAMES: Final[dict[type[InfuseError], tuple[type[InfuseError], ...]]] = {
    errors.ModelFileError: (InvalidProtobuf, InvalidArgument, Fail),
    errors.UnsupportedOperatorError: (InvalidGraph, NotImplemented, Fail),
    errors.GraphError: (InvalidGraph, InvalidArgument, Fail),
    errors.ShapeError: (Fail, InvalidGraph, InvalidArgument),
    errors.TypeMismatchError: (InvalidGraph, Fail, InvalidArgument),
    errors.ToolchainError: (EngineError, Fail),
    errors.CompileError: (EngineError, Fail),
    errors.CacheError: (EngineError, Fail),
    errors.CompiledModelError: (InvalidProtobuf, Fail),
    errors.InputError: (InvalidArgument,),
    errors.OptionError: (InvalidArgument,),
    errors.DataError: (InvalidArgument, Fail),
    errors.RuntimeFailure: (Fail, RuntimeException),
}
"""What an error of Infuse is called in ONNX Runtime. Several names where ONNX Runtime's own choice
depends on the operator; the first is the class's name.
"""
_NAMED: Final = (*dict.fromkeys(name for names in _NAMES.values() for name in names), NoSuchFile)


def translated(error: InfuseError, *names: type[InfuseError]) -> InfuseError:
    """The same error, also under the names of ONNX Runtime (`names`, or those of its kind)."""
    if isinstance(error, (*_NAMED, *_BUILTIN)):
        return error
    kind = type(error)
    if not names:
        names = next((_NAMES[base] for base in kind.__mro__ if base in _NAMES), (Fail,))
    result = _combined(names, cast(Any, kind))(error.what, where=error.where, hint=error.hint)
    result.__dict__.update(error.__dict__)
    result.__cause__ = error.__cause__
    return result


_BUILTIN: Final = (ValueError, TypeError, AttributeError, RuntimeError)


@cache
def _combined(names: tuple[type[InfuseError], ...], kind: Any) -> type[InfuseError]:
    content = {
        "__doc__": kind.__doc__,
        "__module__": __name__,
        "__reduce__": _reduced,
        "code": kind.code,
    }
    return type(names[0].__name__, (*names, kind), content)


def _reduced(error: InfuseError) -> tuple[Any, ...]:
    bases = type(error).__bases__
    return _restored, (bases[:-1], bases[-1], error.what, error.where, error.hint)


def _restored(
    names: tuple[type[InfuseError], ...],
    kind: type[InfuseError],
    what: str,
    where: str | None,
    hint: str | None,
) -> InfuseError:
    return _combined(names, cast(Any, kind))(what, where=where, hint=hint)


def refused(what: str, hint: str) -> InfuseError:
    """The error of a part of ONNX Runtime's interface that Infuse does not have."""
    return translated(OptionError(f"Infuse has no {what}", hint=hint), NotImplemented)
