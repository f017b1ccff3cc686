"""What a session says of its model: inputs, outputs, and what the file says about itself; and runs
held against that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.errors import InputError
from infuse.onnxruntime.errors import ArgumentTypeError, InvalidArgument, MissingInput, translated
from infuse.onnxruntime.values import OrtValue, tensor_type
from infuse.runtime.interface import Model
from infuse.runtime.shapes import TensorSpec

_TENSOR: Final = re.compile(r"(\w+)\[[^\]]*\]")


@dataclass(frozen=True)
class NodeArg:
    """An input or output: its name, its type as "tensor(float)", and its shape: numbers, the texts
    of named sizes, and None for those that have no name.
    """

    name: str
    type: str
    shape: list[int | str | None]

    @classmethod
    def of(
        cls,
        spec: TensorSpec,
        texts: Mapping[str, str] | None = None,
        stated: Sequence[int | str | None] | None = None,
    ) -> NodeArg:
        """The description of an input or output. `texts` are what the model calls symbols that
        have other names here ("" for nothing), `stated` the sizes that it states for an output.
        """
        if spec.other_type:
            return cls(spec.name, _holder_type(spec.other_type), [])
        sizes = [
            size if isinstance(size, int) else (texts or {}).get(size, size) or None
            for size in spec.shape
        ]
        if stated is not None and len(stated) == len(sizes):
            sizes = [
                own if isinstance(own, int) else other or None for own, other in zip(sizes, stated)
            ]
        return cls(spec.name, tensor_type(dtypes.by_numpy(spec.dtype)), sizes)

    def __str__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"


@dataclass(frozen=True)
class ModelMetadata:
    """What a model file says about itself."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Model) -> ModelMetadata:
        """The description that a compiled model carries."""
        told = model.metadata.get("model", {})
        fields = {name: told[name] for name in cls.__dataclass_fields__ if name in told}
        return cls(**{"graph_name": model.name, **fields})


@dataclass(frozen=True)
class Interface:
    """The inputs that a run needs, those that it may leave out, and the outputs."""

    inputs: list[NodeArg]
    optional_inputs: list[NodeArg]
    outputs: list[NodeArg]

    @classmethod
    def of(cls, model: Model) -> Interface:
        """The interface of a compiled model, in the words of the file that it was made of."""
        told = model.metadata.get("model", {})
        texts, stated = told.get("sizes", {}), told.get("outputs", {})
        inputs = [(NodeArg.of(spec, texts), spec.optional) for spec in model.inputs]
        return cls(
            [argument for argument, is_optional in inputs if not is_optional],
            [argument for argument, is_optional in inputs if is_optional],
            [NodeArg.of(spec, texts, stated.get(spec.name)) for spec in model.outputs],
        )

    def require(self, feed: Any) -> None:
        """ArgumentTypeError for what is no dictionary, MissingInput where inputs are left out."""
        if not isinstance(feed, Mapping):
            raise ArgumentTypeError(
                f"the inputs of a run cannot be a {type(feed).__name__}",
                hint="give a dictionary of arrays by name",
            )
        required = [argument.name for argument in self.inputs]
        if missing := [name for name in required if name not in feed]:
            raise MissingInput(
                f"the inputs {', '.join(missing)} are missing",
                hint=f"the model takes {', '.join(required)}, the call gives "
                f"{', '.join(map(str, feed)) or 'nothing'}",
            )

    def chosen(self, results: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
        """The results of these names; InvalidArgument where there is none of one."""
        if isinstance(names, str):
            raise ArgumentTypeError(
                f"the names of outputs cannot be the text {names!r}", hint=f"give [{names!r}]"
            )
        try:
            return [results[name] for name in names]
        except KeyError as error:
            outputs = ", ".join(argument.name for argument in self.outputs)
            raise translated(
                InputError(
                    f"the model has no output {error.args[0]!r}", hint=f"its outputs are {outputs}"
                ),
                InvalidArgument,
            ) from None

    def values(self, names: Iterable[str], results: Sequence[Any]) -> list[OrtValue]:
        """The results of these names as values."""
        types = {argument.name: argument.type for argument in self.outputs}
        return [
            OrtValue(result, "" if isinstance(result, np.ndarray) else types[name])
            for name, result in zip(names, results)
        ]


def _holder_type(text: str) -> str:
    """`seq(map(int64, float32[]))` as "seq(map(int64,tensor(float)))"."""
    named = _TENSOR.sub(lambda match: tensor_type(dtypes.by_name(match[1])), text)
    return named.replace(", ", ",")
