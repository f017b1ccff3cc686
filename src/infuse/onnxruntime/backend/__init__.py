"""The interface of ONNX's backends: `prepare(model).run([array, …])`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from onnx.backend.base import Backend, BackendRep

from infuse.errors import InputError
from infuse.onnxruntime.errors import ValueFault, refused
from infuse.onnxruntime.options import RunOptions, SessionOptions
from infuse.onnxruntime.session import InferenceSession

_DEVICE: Final = "CPU"


class OnnxRuntimeBackendRep(BackendRep):
    """A model that is ready to run."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session

    def run(self, inputs: Any, **options: Any) -> list[Any]:  # type: ignore[override]
        """The outputs for arrays in order, or by name; for one array where the model has one input.
        `options` are those of `RunOptions`.
        """
        names = [argument.name for argument in self._session.get_inputs()]
        if isinstance(inputs, Mapping):
            feed = dict(inputs)
        else:
            arrays = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
            if len(arrays) != len(names):
                raise _WrongNumber(
                    f"the model has {len(names)} inputs, and {len(arrays)} arrays were given",
                    hint=f"its inputs are {', '.join(names)}",
                )
            feed = dict(zip(names, arrays))
        return self._session.run(None, feed, RunOptions(**options) if options else None)


class _WrongNumber(InputError, RuntimeError):
    """More or fewer arrays than inputs; ONNX Runtime raises RuntimeError."""


class OnnxRuntimeBackend(Backend):
    """Models of ONNX on this processor."""

    @classmethod
    def is_compatible(cls, model: Any, device: str | None = None, **arguments: Any) -> bool:
        """Whether the device is there."""
        return device is None or cls.supports_device(device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether a device is there: "CPU" is."""
        return device == _DEVICE

    @classmethod
    def prepare(
        cls, model: Any, device: str | None = None, **options: Any
    ) -> OnnxRuntimeBackendRep:
        """A model that is ready to run, of a path, bytes, a ModelProto or a session. `options` are
        those of `SessionOptions`.
        """
        if device is not None and not cls.supports_device(device):
            raise ValueFault(f"there is no device {device!r} here", hint=f"use {_DEVICE!r}")
        if isinstance(model, OnnxRuntimeBackendRep):
            return model
        if not isinstance(model, InferenceSession):
            model = InferenceSession(model, SessionOptions(**options))
        return OnnxRuntimeBackendRep(model)

    @classmethod
    def run_model(  # type: ignore[override]  # a list, as in ONNX Runtime
        cls, model: Any, inputs: Sequence[Any], device: str | None = None, **options: Any
    ) -> list[Any]:
        """Prepare a model and run it."""
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def run_node(cls, *arguments: Any, **named: Any) -> NoReturn:
        """Refused: a model of one node is run by `run_model`."""
        raise refused("way to run a node alone", "make a model of it")


is_compatible = OnnxRuntimeBackend.is_compatible
prepare = OnnxRuntimeBackend.prepare
run = OnnxRuntimeBackend.run_model
supports_device = OnnxRuntimeBackend.supports_device
