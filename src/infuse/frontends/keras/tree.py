"""The layers of a model as its file describes them: kinds, configurations, and what is inside."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from infuse.errors import ModelFileError
from infuse.frontends.keras.calls import TABLE
from infuse.frontends.keras.config import Config, class_of, inner_config, layers_of
from infuse.frontends.keras.custom import entry_of, kind_of
from infuse.ir.graph import Array
from infuse.tracing.calls import words

MODELS: Final = ("Functional", "Sequential", "Model")
_FIXED: Final = words("""moving_mean moving_variance mean variance count vector_u sn_u kernel_scale
    embeddings_scale""")
"""Names of weights that training does not change."""
_OPERATIONS: Final = ("keras.src.ops.", "keras.ops")


_CLASSES: Final = {"GroupQueryAttention": "GroupedQueryAttention"}
"""Classes whose name in configurations is another."""


@dataclass
class KerasLayer:
    """A layer or operation: its kind (`ops.Add` for an operation), name and configuration; names of
    its own weights; the layers inside by attribute; elements of the weights, once they are bound.
    """

    kind: str
    name: str
    config: Config
    serialized: Mapping[str, Any]
    weights: list[str] = field(default_factory=list)
    children: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)

    @property
    def is_model(self) -> bool:
        """Whether it is a model inside."""
        return self.kind in MODELS

    @property
    def is_operation(self) -> bool:
        """Whether it is an operation of `keras.ops`, which is no layer."""
        return self.kind.startswith("ops.")

    @property
    def layers(self) -> list[KerasLayer]:
        """The layers inside a model."""
        return list(self.children.get("layers", ()))

    @property
    def inside(self) -> list[KerasLayer]:
        """All layers directly inside, in the order in which Keras tracks them."""
        listed = (c if isinstance(c, list) else [c] for c in self.children.values())
        return [layer for part in listed for layer in part]

    def every(self) -> Iterator[KerasLayer]:
        """This layer and all inside."""
        yield self
        for layer in self.inside:
            yield from layer.every()

    def slots(self, trainable: bool = True) -> Iterator[tuple[KerasLayer, str, bool]]:
        """All weights in the order of Keras: the layer, the name, and whether training changes
        it. A weight that a layer shares with one inside counts once.
        """
        trainable = trainable and self.config.flag("trainable", True)
        whole = self.config.policy.startswith(("int8", "int4"))
        for name in self.weights:
            yield self, name, trainable and name not in _FIXED and not (whole and name != "bias")
        for layer in self.inside:
            for slot in layer.slots(trainable):
                if slot[1] not in self.weights:
                    yield slot

    def bind(self, name: str, array: Array) -> None:
        """Let a weight have these elements."""
        if array.dtype.kind in "OSU":
            raise ModelFileError(f"the weight {name} of {self.name!r} has no numbers")
        self.arrays[name] = np.asarray(array)


def layer_of(serialized: Any, name: str = "") -> KerasLayer:
    """A layer with all that is inside; kinds that are not known have nothing inside."""
    kind = class_of(serialized)
    if _is_operation(serialized, kind):
        kind = f"ops.{kind}"
    if kind in MODELS:
        return _model(kind, serialized, name)
    config = Config(inner_config(serialized))
    kind = kind_of(kind, config)
    own = serialized.get("name") or config.get("name") or name or kind
    layer = KerasLayer(kind, str(own), config, serialized)
    entry = entry_of(kind)
    if entry is not None:
        layer.weights = entry.weights(config)
        for attribute, inner in entry.children(config).items():
            layer.children[attribute] = (
                [layer_of(each) for each in inner] if isinstance(inner, list) else layer_of(inner)
            )
    return layer


def _is_operation(serialized: Mapping[str, Any], kind: str) -> bool:
    """Whether it is an operation of `keras.ops`; HDF5 files of Keras 3 name no module, but layers
    have a field that operations have not.
    """
    module = serialized.get("module")
    if module is not None:
        return str(module).startswith(_OPERATIONS)
    config = serialized.get("config")
    return f"ops.{kind}" in TABLE and isinstance(config, Mapping) and "trainable" not in config


def _model(kind: str, serialized: Any, name: str) -> KerasLayer:
    config = serialized["config"]
    fields = config if isinstance(config, Mapping) else {}
    own = serialized.get("name") or fields.get("name") or name or "model"
    layer = KerasLayer(kind, str(own), Config(fields), serialized)
    layer.children["layers"] = [layer_of(each) for each in layers_of(serialized)]
    return layer


def snake_case(name: str) -> str:
    """A class's name as Keras writes it in the names of groups."""
    name = _CLASSES.get(name, name)
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()
