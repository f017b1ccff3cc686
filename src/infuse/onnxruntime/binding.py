"""Inputs and outputs bound to memory before a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from infuse.errors import InfuseError, InputError
from infuse.onnxruntime.devices import CPU, require_cpu
from infuse.onnxruntime.errors import ArgumentTypeError, BindingFault, BoundRunFailure, ValueFault
from infuse.onnxruntime.values import (
    OrtValue,
    OrtValueVector,
    array_at,
    element_type_of,
)

Array = NDArray[Any]


class Bound(Protocol):
    """What a binding has to know of its session."""

    _input_names: list[str]


class IOBinding:
    """What a run of one session reads and writes. The caller keeps memory alive that it binds by
    address.

    Results are copied into the memory of bound outputs after a run.
    """

    def __init__(self, session: Bound) -> None:
        self._session = session
        self._inputs: dict[str, OrtValue] = {}
        self._outputs: dict[str, OrtValue | None] = {}
        self._results: OrtValueVector | None = None

    # -- inputs ------------------------------------------------------------------------------------

    def bind_cpu_input(self, name: str, arr_on_cpu: Array) -> None:
        """Read an input from an array, as it is when the session runs. BindingFault for a name that
        no input has, and for what is no array.
        """
        if not isinstance(arr_on_cpu, np.ndarray):
            raise BindingFault(
                f"the input {name} cannot be bound to a {type(arr_on_cpu).__name__}",
                hint="bind an array of NumPy",
            )
        if arr_on_cpu.dtype.kind in "OUS":
            self._bind(name, OrtValue(arr_on_cpu))
        else:
            self._bind(name, OrtValue.ortvalue_from_numpy(arr_on_cpu))

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: Any,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Read an input from memory at an address."""
        require_cpu(device_type)
        dtype = element_type_of(element_type)
        self._bind(name, OrtValue(array_at(buffer_ptr, shape, dtype)))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Read an input from a value."""
        if not isinstance(ortvalue, OrtValue):
            raise ArgumentTypeError(f"the input {name} cannot be a {type(ortvalue).__name__}")
        self._bind(name, ortvalue)

    def _bind(self, name: str, value: OrtValue) -> None:
        names = self._session._input_names
        if name not in names:
            raise BindingFault(
                f"the model has no input {name!r}", hint=f"its inputs are {', '.join(names)}"
            )
        self._inputs[name] = value

    def clear_binding_inputs(self) -> None:
        """Forget all inputs."""
        self._inputs.clear()

    # -- outputs -----------------------------------------------------------------------------------

    def bind_output(
        self,
        name: str,
        device_type: str = CPU,
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Let a run compute an output, into memory at an address where one is named: then with its
        element type and shape, which must be those of the result.
        """
        require_cpu(device_type)
        if not buffer_ptr:
            self._outputs[name] = None
            return
        if element_type is None or shape is None:
            raise UntypedMemory(
                f"the memory of the output {name} is bound without element type and shape"
            )
        dtype = element_type_of(element_type)
        self._outputs[name] = OrtValue(array_at(buffer_ptr, shape, dtype))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Let a run write an output into a tensor of its type and shape."""
        if not isinstance(ortvalue, OrtValue):
            raise ArgumentTypeError(f"the output {name} cannot be a {type(ortvalue).__name__}")
        self._outputs[name] = ortvalue

    def clear_binding_outputs(self) -> None:
        """Forget all outputs, and the results of the last run."""
        self._outputs.clear()
        self._results = None

    def get_outputs(self) -> OrtValueVector:
        """The bound outputs of the last run, in the order in which they were bound."""
        if self._results is None:
            raise ValueFault("there are no outputs yet", hint="run_with_iobinding makes them")
        return OrtValueVector(self._results)

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        """As `get_outputs`."""
        return self.get_outputs()

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The bound outputs of the last run as arrays."""
        return [value._value for value in self.get_outputs()]

    # -- runs --------------------------------------------------------------------------------------

    def _run(
        self, run: Callable[[Sequence[str], Mapping[str, OrtValue]], Sequence[OrtValue]]
    ) -> None:
        """Call `run` with the names of the outputs and the inputs that are bound, and store the
        results. Errors are RuntimeErrors, as in ONNX Runtime.
        """
        names = [*self._outputs]
        try:
            if not names:
                raise InputError("no output is bound", hint="bind_output names one")
            self._store(run(names, self._inputs))
        except InfuseError as error:
            if isinstance(error, RuntimeError):
                raise
            failure = BoundRunFailure(error.what, where=error.where, hint=error.hint)
            raise failure from error

    # -- devices -----------------------------------------------------------------------------------

    def synchronize_inputs(self) -> None:
        """Nothing to wait for: memory is the process's."""

    def synchronize_outputs(self) -> None:
        """Nothing to wait for: a run has ended when it returns."""

    # -- runs --------------------------------------------------------------------------------------

    def _store(self, results: Sequence[OrtValue]) -> None:
        """Take the results of the bound outputs, in their order."""
        stored = OrtValueVector()
        for (name, target), result in zip(self._outputs.items(), results):
            if target is not None:
                _write(name, target, result)
            stored.append(result if target is None else target)
        self._results = stored

    @property
    def _iobinding(self) -> IOBinding:
        return self


class UntypedMemory(BindingFault, ValueError):
    """Memory is bound without saying what lies in it; ONNX Runtime raises ValueError."""


def _write(name: str, target: OrtValue, result: OrtValue) -> None:
    told, made = (
        (value.data_type(), value.shape() if value.is_tensor() else None)
        for value in (target, result)
    )
    if told != made:
        raise BindingFault(
            f"the output {name} is {made[0]} of the shape {made[1]}, and bound to memory of "
            f"{told[0]} of the shape {told[1]}"
        )
    target.update_inplace(result)
