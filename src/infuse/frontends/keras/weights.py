"""Where the weights of layers are: in groups that follow the layers (Keras 3), in lists for each
layer of the model (Keras 2), or by name (TensorFlow.js).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from infuse.errors import ModelFileError
from infuse.frontends.keras.hdf5 import StoredGroup
from infuse.frontends.keras.tree import KerasLayer, snake_case
from infuse.ir.graph import Array

_LISTS: Final = ("layers", "_layer_checkpoint_dependencies")
"""What the group of a model's layers is called, in newer and older releases."""
_HINT: Final = "the file is of another model, or damaged; save it again"


class LayerWeights(Protocol):
    """Gives the layers of a model their weights."""

    def bind(self, model: KerasLayer) -> None:
        """Bind the weights of all layers; ModelFileError where some are missing."""


class Stored:
    """Groups whose paths are the attributes of layers, with weights by number."""

    def __init__(self, root: StoredGroup) -> None:
        self._root = root

    def bind(self, model: KerasLayer) -> None:
        """Bind the weights of all layers."""
        self._bind(model, self._root)

    def _bind(self, layer: KerasLayer, group: StoredGroup | None) -> None:
        if layer.weights:
            self._own(layer, group.group("vars") if group is not None else None)
        for attribute, inner in layer.children.items():
            names = _LISTS if layer.is_model else (attribute, attribute.removeprefix("_"))
            parts = (group.group(name) for name in names if group is not None)
            owner = next((part for part in parts if part is not None), None)
            if not isinstance(inner, list):
                self._bind(inner, owner)
                continue
            counts: Counter[str] = Counter()
            for each in inner:
                if each.is_operation:
                    continue
                name = snake_case(each.kind.rpartition(">")[2])
                place = f"{name}_{counts[name]}" if counts[name] else name
                counts[name] += 1
                self._bind(each, owner.group(place) if owner is not None else None)

    def _own(self, layer: KerasLayer, group: StoredGroup | None) -> None:
        stored = group.datasets() if group is not None else []
        if group is None or len(stored) != len(layer.weights):
            raise ModelFileError(
                f"the layer {layer.name!r} has {len(layer.weights)} weights "
                f"({', '.join(layer.weights)}), and {len(stored)} in the file",
                hint=_HINT,
            )
        for number, name in enumerate(layer.weights):
            layer.bind(name, group.array(str(number)))


class Listed:
    """A group for each layer of the model, which lists its weights in the order of Keras."""

    def __init__(self, root: StoredGroup) -> None:
        self._root = root

    def bind(self, model: KerasLayer) -> None:
        """Bind the weights of all layers."""
        for layer in model.layers:
            if any(True for _ in layer.slots()):
                group = self._root.group(layer.name)
                names = group.texts("weight_names") if group is not None else None
                if group is None or names is None:
                    raise _missing(layer)
                _bind_all(layer, names, [group.array(name) for name in names])


class Named:
    """Weights by path: `dense/kernel`."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = arrays

    def bind(self, model: KerasLayer) -> None:
        """Bind the weights of all layers."""
        for layer in model.layers:
            if layer.is_model:
                self.bind(layer)
            elif any(True for _ in layer.slots()):
                names = [n for n in self._arrays if layer.name in n.split("/")[:-1]]
                if not names:
                    raise _missing(layer)
                _bind_all(layer, names, [self._arrays[name] for name in names])


def _bind_all(layer: KerasLayer, names: Sequence[str], arrays: Sequence[Array]) -> None:
    """Bind weights of a layer in the order of Keras: first those that training changes."""
    slots = list(layer.slots())
    ordered = [s for s in slots if s[2]] + [s for s in slots if not s[2]]
    if len(ordered) != len(names):
        raise ModelFileError(
            f"the layer {layer.name!r} has {len(ordered)} weights, and {len(names)} in the file",
            hint=_HINT,
        )
    names_of_slots = {name for _, name, _ in slots}
    for (owner, name, _), path, array in zip(ordered, names, arrays):
        last = path.rpartition("/")[2].partition(":")[0]
        if last in names_of_slots and last != name:
            raise ModelFileError(
                f"the weight {path!r} is where the {name} of the layer {owner.name!r} must be",
                hint=_HINT,
            )
        owner.bind(name, array)


def _missing(layer: KerasLayer) -> ModelFileError:
    return ModelFileError(f"the file has no weights of the layer {layer.name!r}", hint=_HINT)
