"""What a model takes and gives, as the protocol says it, and the checks that a request must
pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from infuse.errors import InputError
from infuse.runtime.session import Array
from infuse.runtime.shapes import Formula, ShapeBinder, TensorSpec
from infuse.serving.control.model_config import ModelConfig
from infuse.serving.datatypes import name_of
from infuse.serving.engine.batching.padding import Padding
from infuse.serving.engine.declared import Declared
from infuse.serving.messages import InferRequest, Tensor, TensorMetadata

_MOST_SHAPES: Final = 4096


class Checker:
    """Checks requests against a model's inputs and outputs.

    `batch` is the symbol of the first axis that all inputs and outputs share, "" where they share
    none: then requests cannot be put together. `declared`: what the model's configuration says of
    them.
    """

    def __init__(
        self,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        symbols: Sequence[str],
        pad: Mapping[str, float],
        declared: Declared | None = None,
    ) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.datatypes = [name_of(spec.dtype) for spec in inputs]
        self.output_datatypes = [name_of(spec.dtype) for spec in outputs]
        self.batch = batch_symbol(inputs, outputs)
        self.padding = Padding(inputs, outputs, pad if self.batch else {})
        self._binder = ShapeBinder(inputs, symbols)
        self._places = {spec.name: number for number, spec in enumerate(inputs)}
        self._declared = declared or Declared(ModelConfig(), inputs, outputs)
        self._all = self._declared.outputs
        self._names = {outputs[number].name: number for number in self._all}
        self._known: dict[tuple[tuple[int, ...], ...], None] = {}

    def arrays(self, request: InferRequest) -> list[Array]:
        """The inputs of a request in the model's order; InputError when they are not the
        model's.
        """
        tensors = request.inputs
        if len(tensors) != len(self.inputs):
            raise self._wrong_names(request)
        by_number: list[Array | None] = [None] * len(tensors)
        for tensor in tensors:
            number = self._places.get(tensor.name)
            if number is None or by_number[number] is not None:
                raise self._wrong_names(request)
            if tensor.datatype != self.datatypes[number]:
                raise InputError(
                    f"the input {tensor.name!r} is {tensor.datatype}, and the model takes "
                    f"{self.datatypes[number]}",
                    hint=f"the model takes {self.inputs[number]}",
                )
            by_number[number] = self._declared.enter(tensor.name, tensor.data)
        arrays: list[Array] = [array for array in by_number if array is not None]
        shapes = tuple([array.shape for array in arrays])
        if shapes not in self._known:
            self._binder.bind(shapes)
            if len(self._known) >= _MOST_SHAPES:
                self._known.clear()
            self._known[shapes] = None
        return arrays

    def requested_outputs(self, request: InferRequest) -> list[int]:
        """The numbers of the outputs that a request asks for, in its order: all, if it names
        none.
        """
        if not request.outputs:
            return self._all
        numbers = []
        for output in request.outputs:
            number = self._names.get(output.name)
            if number is None:
                names = ", ".join(self._names)
                raise InputError(
                    f"the model has no output {output.name[:100]!r}",
                    hint=f"its outputs are {names}",
                )
            if number in numbers:
                raise InputError(f"the output {output.name!r} is asked for twice")
            numbers.append(number)
        return numbers

    def key(self, arrays: Sequence[Array]) -> tuple[Hashable, dict[str, int]]:
        """With which other requests this one may run (`Padding.key`); None: with none."""
        return self.padding.key(arrays) if self.batch else (None, {})

    def described(self, inputs: bool) -> list[TensorMetadata]:
        """Inputs or outputs as the protocol's metadata; -1 for what is not fixed."""
        specs, types = (
            (self.inputs, self.datatypes) if inputs else (self.outputs, self.output_datatypes)
        )
        return [
            {
                "name": specs[n].name,
                "datatype": types[n],
                "shape": self._declared.shape(specs[n], inputs),
            }
            for n in (range(len(specs)) if inputs else self._all)
        ]

    def tensors(self, numbers: Sequence[int], arrays: Sequence[Array]) -> list[Tensor]:
        """Outputs by their numbers as callers get them."""
        tensors = []
        for number, array in zip(numbers, arrays):
            name = self.outputs[number].name
            array = self._declared.leave(name, array)
            tensors.append(Tensor(name, self.output_datatypes[number], array))
        return tensors

    def _wrong_names(self, request: InferRequest) -> InputError:
        names = Counter(tensor.name for tensor in request.inputs)
        takes = ", ".join(map(str, self.inputs))
        twice = [name for name, count in names.items() if count > 1]
        missing = [name for name in self._places if name not in names]
        unknown = [name for name in names if name not in self._places]
        if twice:
            what = f"the input {twice[0][:100]!r} is there twice"
        elif unknown:
            what = f"the model has no input {unknown[0][:100]!r}"
        else:
            what = f"the input {missing[0]!r} is missing"
        return InputError(what, hint=f"the model takes {takes}")


def batch_symbol(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> str:
    """The symbol that is the first size of every input and output and stands nowhere else; "" if
    there is none.
    """
    specs = (*inputs, *outputs)
    first = {spec.shape[0] if spec.shape else 0 for spec in specs}
    if len(first) != 1:
        return ""
    (symbol,) = first
    if (
        not isinstance(symbol, str)
        or not symbol.isidentifier()
        or any(spec.late for spec in outputs)
    ):
        return ""
    for spec in specs:
        for size in spec.shape[1:]:
            if isinstance(size, str) and symbol in Formula(size).symbols:
                return ""
    return symbol
