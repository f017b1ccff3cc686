"""Calls of layers in a model: what they are given, and the order in which Keras runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.keras.config import Config
from infuse.frontends.keras.tree import KerasLayer
from infuse.tracing.axes import is_int

Place = tuple[str, int, int]
"""A tensor: the layer's name, the number of the call, the number of the result."""
Resolve = Callable[[Place], Any]
_CONSTANT: Final = "_CONSTANT_VALUE"


@dataclass(frozen=True)
class KerasNode:
    """A call of a layer: the number of the call, and how the file writes its arguments. `firsts`:
    the numbers that it gives the first calls of models inside, where these are not 0.
    """

    layer: KerasLayer
    number: int
    content: Any
    firsts: Mapping[str, int] = field(default_factory=dict)

    def arguments(self, resolve: Resolve) -> tuple[list[Any], dict[str, Any]]:
        """What the layer is given: arguments by place, and by name."""
        return self._arguments(lambda place: resolve(_counted(place, self.firsts)))

    def _arguments(self, resolve: Resolve) -> tuple[list[Any], dict[str, Any]]:
        if isinstance(self.content, Mapping):
            args = _decoded(self.content.get("args", []), resolve)
            kwargs = _decoded(self.content.get("kwargs", {}), resolve)
            return list(args), dict(kwargs)
        entries = list(self.content)
        if not entries:
            return [], {}
        if isinstance(entries[0], str):
            entries = [entries]
        kwargs = _legacy(dict(entries[0][3]) if len(entries[0]) > 3 else {}, resolve)
        values = [_first(entry, resolve) for entry in entries]
        return [values[0] if len(values) == 1 else values], kwargs

    def places(self) -> list[Place]:
        """The tensors that it reads."""
        listed: list[Place] = []

        def note(place: Place) -> Any:
            listed.append(place)
            return None

        self.arguments(note)
        return listed


def _first(entry: Sequence[Any], resolve: Resolve) -> Any:
    if entry[0] == _CONSTANT:
        return entry[2]
    return resolve(_place(entry[:3]))


def _is_place(content: Any) -> bool:
    return (
        isinstance(content, (list, tuple))
        and len(content) == 3
        and isinstance(content[0], str)
        and is_int(content[1])
        and is_int(content[2])
    )


def _place(content: Any) -> Place:
    if not _is_place(content):
        raise ModelFileError(f"{str(content)[:80]!r} names no tensor of the model")
    return content[0], content[1], content[2]


def _legacy(content: Any, resolve: Resolve) -> Any:
    """Arguments by name as Keras 2 writes them."""
    if _is_place(content):
        return resolve(_place(content))
    if isinstance(content, list):
        return [_legacy(each, resolve) for each in content]
    if isinstance(content, dict):
        if set(content) == {"start", "stop", "step"}:
            return slice(*(_legacy(content[part], resolve) for part in ("start", "stop", "step")))
        if content.get("class_name") == "TypeSpec" or content.get("class_name") == "TensorShape":
            raise UnsupportedOperatorError(f"an argument of the class {content['class_name']}")
        return {name: _legacy(each, resolve) for name, each in content.items()}
    return content


def _decoded(content: Any, resolve: Resolve) -> Any:
    """Arguments as Keras 3 writes them."""
    if isinstance(content, list):
        return [_decoded(each, resolve) for each in content]
    if not isinstance(content, dict):
        return content
    kind: Any = content.get("class_name")
    config: Any = content.get("config")
    if kind == "__keras_tensor__":
        return resolve(_place(config["keras_history"]))
    if kind in ("__tensor__", "__numpy__"):
        return np.asarray(config["value"], config["dtype"])
    if kind == "__tuple__":
        return tuple(_decoded(content["items"], resolve))
    if kind == "__slice__":
        return slice(*(_decoded(config[part], resolve) for part in ("start", "stop", "step")))
    if kind == "__ellipsis__":
        return ...
    if isinstance(kind, str):
        raise UnsupportedOperatorError(f"an argument of the class {kind} is not supported")
    return {name: _decoded(each, resolve) for name, each in content.items()}


# -- models ----------------------------------------------------------------------------------------

Named = list[tuple[str, Place]]


def _counted(place: Place, firsts: Mapping[str, int]) -> Place:
    return place[0], place[1] - firsts.get(place[0], 0), place[2]


def _firsts(model: KerasLayer) -> tuple[dict[str, int], dict[str, int]]:
    """The numbers of the first calls of models inside, in arguments and in outputs.

    Keras counts the call that made a model: Keras 3 in outputs only, and not for Sequential models.
    """
    arguments, outputs = {}, {}
    for layer in model.layers:
        calls = layer.serialized.get("inbound_nodes") or []
        if layer.is_model and calls and isinstance(calls[0], Mapping):
            outputs[layer.name] = int(layer.kind != "Sequential")
        elif layer.is_model and calls:
            arguments[layer.name] = outputs[layer.name] = 1
    return arguments, outputs


def places_of(model: KerasLayer) -> tuple[Named, Named]:
    """The inputs and the outputs of a model, with their names."""
    if model.kind == "Sequential":
        layers = model.layers
        if not layers:
            raise ModelFileError(f"the model {model.name!r} has no layers")
        return [(layers[0].name, (layers[0].name, 0, 0))], [
            (layers[-1].name, (layers[-1].name, 0, 0))
        ]
    inputs, outputs = (
        list(_listed(model.config.get(part))) for part in ("input_layers", "output_layers")
    )
    firsts = _firsts(model)[1]
    outputs = [(name, _counted(place, firsts)) for name, place in outputs]
    if not outputs:
        raise ModelFileError(f"the model {model.name!r} has no outputs")
    return inputs, outputs


def _listed(content: Any, name: str = "") -> Iterator[tuple[str, Place]]:
    if _is_place(content):
        yield name or content[0], _place(content)
    elif isinstance(content, dict):
        for key in sorted(content):
            yield from _listed(content[key], key)
    elif isinstance(content, (list, tuple)):
        for each in content:
            yield from _listed(each)
    else:
        raise ModelFileError(f"{str(content)[:80]!r} names no tensor of the model")


def completed(model: KerasLayer) -> None:
    """Let Sequential models begin with an input, of the shape that their files say."""
    layers = model.layers
    if model.kind != "Sequential" or not layers or layers[0].kind == "InputLayer":
        return
    first = layers[0]
    shape = (
        first.config.get("batch_input_shape")
        or model.config.get("build_input_shape")
        or (model.serialized.get("build_config") or {}).get("input_shape")
    )
    if shape is None and first.is_model:
        completed(first)
        shape = first.layers[0].config.get("batch_shape")
    dtype = None if first.is_model else first.config.get("dtype")
    fields = {"batch_shape": shape, "dtype": dtype}
    if first.kind == "Embedding":
        fields["dtype"] = "float32"
    name = f"{first.name}_input"
    model.children["layers"] = [KerasLayer("InputLayer", name, Config(fields), {}), *layers]


def nodes_of(model: KerasLayer, outputs: Iterable[Place]) -> list[KerasNode]:
    """The calls that the outputs need, in the order in which Keras runs them."""
    nodes = {(n.layer.name, n.number): n for n in _all_nodes(model)}
    reads = {key: [p[:2] for p in node.places()] for key, node in nodes.items()}
    order = _sorted(reads, [place[:2] for place in outputs])
    depths: dict[tuple[str, int], int] = {}
    layers: dict[str, int] = {}
    for key in reversed(order):
        depth = max(depths.get(key, 0), layers.get(key[0], 0))
        depths[key] = layers[key[0]] = depth
        for source in reads[key]:
            depths[source] = max(depths.get(source, 0), depth + 1)
    numbers = {key: number for number, key in enumerate(nodes)}
    ready = sorted(order, key=lambda key: (-depths[key], numbers[key]))
    return [nodes[key] for key in ready]


def _all_nodes(model: KerasLayer) -> Iterator[KerasNode]:
    if model.kind == "Sequential":
        before: list[Any] = []
        for layer in model.layers:
            yield KerasNode(layer, 0, before)
            before = [[layer.name, 0, 0, {}]]
        return
    firsts = _firsts(model)[0]
    for layer in model.layers:
        calls = layer.serialized.get("inbound_nodes") or []
        if not calls:
            yield KerasNode(layer, 0, [])
        for number, content in enumerate(calls):
            yield KerasNode(layer, number, content, firsts)


def _sorted(
    reads: Mapping[tuple[str, int], Sequence[tuple[str, int]]], ends: Iterable[tuple[str, int]]
) -> list[tuple[str, int]]:
    """The calls that these need, each behind what it reads; ModelFileError for a circle."""
    order: list[tuple[str, int]] = []
    state: dict[tuple[str, int], bool] = {}
    stack = [(key, False) for key in reversed(list(ends))]
    while stack:
        key, is_left = stack.pop()
        if is_left:
            state[key] = True
            order.append(key)
            continue
        if key in state:
            if not state[key]:
                raise ModelFileError(f"the layer {key[0]!r} needs its own result")
            continue
        if key not in reads:
            raise ModelFileError(f"the model has no call {key[1]} of a layer {key[0]!r}")
        state[key] = False
        stack.append((key, True))
        for source in reversed(reads[key]):
            if state.get(source) is not True:
                stack.append((source, False))
    return order


def resolved(place: Place, results: Mapping[tuple[str, int], Sequence[Any]]) -> Any:
    """The tensor at a place."""
    listed = results.get(place[:2])
    if listed is None or not 0 <= place[2] < len(listed):
        raise ModelFileError(f"the layer {place[0]!r} has no result {place[2]} of call {place[1]}")
    return listed[place[2]]
