"""What a model's configuration says of its inputs and outputs: held against the model, and against
requests.

The rules are those of Triton's ONNX backend: every input is declared and is there, outputs that are
declared are there, types are equal, and a size is the model's unless that is free. A declared size
that the model leaves free binds callers.
"""

from __future__ import annotations

from collections.abc import Sequence

from infuse.errors import ConfigurationError, InputError
from infuse.runtime.session import Array
from infuse.runtime.shapes import Size, TensorSpec
from infuse.serving.control.model_config import DeclaredTensor, ModelConfig
from infuse.serving.datatypes import NUMPY, name_of

_FREE = -1


class Declared:
    """The declarations of a model, none of which contradicts it; ConfigurationError says which one
    does.
    """

    def __init__(
        self, config: ModelConfig, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
    ) -> None:
        self._inputs = _checked(config.inputs, inputs, "input")
        self._outputs = _checked(config.outputs, outputs, "output")
        names = list(self._outputs) or [spec.name for spec in outputs]
        places = {spec.name: number for number, spec in enumerate(outputs)}
        self.outputs = [places[name] for name in names]
        """The numbers of the outputs that callers get, in their order."""
        if config.inputs and (
            missing := [spec.name for spec in inputs if spec.name not in self._inputs]
        ):
            raise ConfigurationError(
                f"the model has an input {missing[0]!r} that is not declared",
                hint="declare all of its inputs, or none",
            )
        if config.batching.required:
            _check_batch(inputs, outputs)

    def enter(self, name: str, array: Array) -> Array:
        """An input as the model takes it; InputError when its shape is not the declared one."""
        tensor = self._inputs.get(name)
        if tensor is None or tensor.shape is None:
            return array
        free = _free_sizes(tensor.shape, array.shape)
        if free is None:
            raise InputError(
                f"the input {name!r} has the shape {list(array.shape)}, and the model takes "
                f"{list(tensor.shape)}"
            )
        return array if tensor.reshape is None else array.reshape(_filled(tensor.reshape, free))

    def leave(self, name: str, array: Array) -> Array:
        """An output as callers get it."""
        tensor = self._outputs.get(name)
        if tensor is None or tensor.shape is None or tensor.reshape is None:
            return array
        free = _free_sizes(tensor.reshape, array.shape)
        return array if free is None else array.reshape(_filled(tensor.shape, free))

    def shape(self, spec: TensorSpec, is_input: bool) -> list[int]:
        """The sizes that callers are told; -1 for what is free."""
        tensor = (self._inputs if is_input else self._outputs).get(spec.name)
        return (
            list(tensor.shape)
            if tensor is not None and tensor.shape is not None
            else _sizes(spec.shape)
        )


def _checked(
    declared: Sequence[DeclaredTensor], specs: Sequence[TensorSpec], what: str
) -> dict[str, DeclaredTensor]:
    """The declarations by name."""
    of_model = {spec.name: spec for spec in specs}
    by_name: dict[str, DeclaredTensor] = {}
    for tensor in declared:
        place = f"{what} {tensor.name!r}"
        if tensor.name in by_name:
            raise ConfigurationError(f"the {place} is declared twice")
        if tensor.name not in of_model:
            raise ConfigurationError(
                f"the model has no {place}", hint=f"its {what}s are {', '.join(of_model)}"
            )
        _check_type(tensor, of_model[tensor.name], place)
        _check_shape(tensor, of_model[tensor.name], place)
        by_name[tensor.name] = tensor
    return by_name


def _check_type(tensor: DeclaredTensor, spec: TensorSpec, place: str) -> None:
    if tensor.datatype not in NUMPY:
        raise ConfigurationError(
            f"{place}: {tensor.datatype!r} is not an element type", hint=", ".join(NUMPY)
        )
    if tensor.datatype != name_of(spec.dtype):
        raise ConfigurationError(
            f"the {place} is declared as {tensor.datatype}, and the model's is "
            f"{name_of(spec.dtype)}"
        )


def _check_shape(tensor: DeclaredTensor, spec: TensorSpec, place: str) -> None:
    if tensor.reshape is not None:
        if tensor.shape is None:
            raise ConfigurationError(f"the {place} has a reshape, and no dims that are reshaped")
        if _products(tensor.shape) != _products(tensor.reshape):
            raise ConfigurationError(
                f"the {place} of {list(tensor.shape)} cannot be reshaped to {list(tensor.reshape)}",
                hint="both need as many -1, and as many elements between them",
            )
    shape = tensor.reshape if tensor.reshape is not None else tensor.shape
    if shape is None:
        return
    sizes = _sizes(spec.shape)
    fits = len(shape) == len(sizes) and all(
        size in (_FREE, mine) for mine, size in zip(shape, sizes)
    )
    if not fits or 0 in (tensor.shape or ()):
        raise ConfigurationError(
            f"the {place} is declared as {list(shape)}, and the model's is {sizes} ({spec})",
            hint="dims leave out the first dimension where max_batch_size is above 0"
            if not fits
            else None,
        )


def _check_batch(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
    for spec in (*inputs, *outputs):
        if not spec.shape or isinstance(spec.shape[0], int):
            raise ConfigurationError(
                f"it asks for batches, and the first dimension of {spec} is not free",
                hint="set max_batch_size to 0, or export the model with a free first dimension",
            )


def _sizes(shape: Sequence[Size]) -> list[int]:
    return [size if isinstance(size, int) else _FREE for size in shape]


def _products(shape: Sequence[int]) -> list[int]:
    """How many elements lie between the free sizes."""
    products = [1]
    for size in shape:
        if size == _FREE:
            products.append(1)
        else:
            products[-1] *= size
    return products


def _free_sizes(declared: Sequence[int], shape: Sequence[int]) -> list[int] | None:
    """What stands where a declaration leaves a size free; None where a shape is not as declared."""
    if len(declared) != len(shape) or any(
        mine not in (_FREE, size) for mine, size in zip(declared, shape)
    ):
        return None
    return [size for mine, size in zip(declared, shape) if mine == _FREE]


def _filled(declared: Sequence[int], free: Sequence[int]) -> tuple[int, ...]:
    sizes = iter(free)
    return tuple(next(sizes) if size == _FREE else size for size in declared)
