"""What callers of one version may ask of another: the signatures of versions side by side."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeAlias

from infuse.errors import UnavailableError
from infuse.serving.messages import InferRequest, TensorMetadata

_Tensors: TypeAlias = Mapping[str, TensorMetadata]


class Described(Protocol):
    """A version that says what it takes and gives."""

    def described(self, inputs: bool) -> Sequence[TensorMetadata]:
        """Its inputs or outputs as the protocol describes tensors."""


class Signatures:
    """The signatures of a model's versions. `version` gives one that is loaded, or None."""

    def __init__(self, version: Callable[[int], Described | None]) -> None:
        self._version = version

    def changed(self, number: int, others: Collection[int]) -> str:
        """Why callers of other versions would not be served by this one; "" if they would."""
        new = self._tensors(number)
        for other in sorted(others):
            old = self._tensors(other)
            if old is not None and new is not None:
                reason = _narrower(old[0], new[0]) or _lacking(old[1], new[1])
                if reason:
                    return f"its signature is not that of version {other}: {reason}"
        return ""

    def takes(self, numbers: Collection[int], request: InferRequest) -> bool:
        """Whether a request is what one of these versions takes."""
        return any(_takes(tensors, request) for n in numbers if (tensors := self._tensors(n)))

    def _tensors(self, number: int) -> tuple[_Tensors, _Tensors] | None:
        version = self._version(number)
        if version is None:
            return None
        try:
            inputs, outputs = version.described(inputs=True), version.described(inputs=False)
        except UnavailableError:
            return None
        return {each["name"]: each for each in inputs}, {each["name"]: each for each in outputs}


def _narrower(old: _Tensors, new: _Tensors) -> str:
    """Why inputs that the old version takes are not taken by the new one."""
    for name in old:
        if name not in new:
            return f"it has no input {name!r}"
    for name, tensor in new.items():
        if name not in old:
            return f"its input {name!r} is new"
        former = old[name]
        if tensor["datatype"] != former["datatype"]:
            return f"its input {name!r} is {tensor['datatype']}, and was {former['datatype']}"
        if len(tensor["shape"]) != len(former["shape"]) or any(
            size not in (-1, before) for size, before in zip(tensor["shape"], former["shape"])
        ):
            return f"its input {name!r} has shape {tensor['shape']}, and had {former['shape']}"
    return ""


def _lacking(old: _Tensors, new: _Tensors) -> str:
    """What callers of the old version get and do not get of the new one."""
    for name, former in old.items():
        tensor = new.get(name)
        if tensor is None:
            return f"it has no output {name!r}"
        if tensor["datatype"] != former["datatype"]:
            return f"its output {name!r} is {tensor['datatype']}, and was {former['datatype']}"
        if len(tensor["shape"]) != len(former["shape"]) or any(
            before not in (-1, size) for size, before in zip(tensor["shape"], former["shape"])
        ):
            return f"its output {name!r} has shape {tensor['shape']}, and had {former['shape']}"
    return ""


def _takes(tensors: tuple[_Tensors, _Tensors], request: InferRequest) -> bool:
    inputs, outputs = tensors
    names = [tensor.name for tensor in request.inputs]
    return (
        sorted(names) == sorted(inputs)
        and all(output.name in outputs for output in request.outputs)
        and all(
            tensor.datatype == inputs[tensor.name]["datatype"]
            and len(tensor.shape) == len(inputs[tensor.name]["shape"])
            and all(
                want in (-1, size) for size, want in zip(tensor.shape, inputs[tensor.name]["shape"])
            )
            for tensor in request.inputs
        )
    )
