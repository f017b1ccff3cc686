"""A model of Keras → graph: its layers in the order in which they need one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import infuse.frontends.keras.layers  # noqa: F401  registers the layers
from infuse.errors import InfuseError, ModelFileError, UnsupportedOperatorError
from infuse.frontends.keras.calls import KerasCall
from infuse.frontends.keras.config import compute_type, policy_of
from infuse.frontends.keras.custom import entry_of
from infuse.frontends.keras.nodes import KerasNode, Place, completed, nodes_of, places_of, resolved
from infuse.frontends.keras.tree import KerasLayer, layer_of
from infuse.frontends.keras.weights import LayerWeights
from infuse.ir.graph import Graph, Value
from infuse.tracing.importer import free_name, require_all
from infuse.tracing.layout import LayoutImporter, tidy

_INPUT: Final = "InputLayer"
_DEEPEST: Final = 50
"""Models inside each other."""
_PYTHON: Final = ("Lambda", "ops.Function", "FunctionLayer")


class KerasReader:
    """Reads one model. `masks`: those that Keras would have attached to tensors; `generation`: 2 or
    3, the release of Keras.
    """

    def __init__(self, serialized: object, version: str, weights: LayerWeights) -> None:
        self.generation = 3 if version.startswith("3") else 2
        self.model = layer_of(serialized)
        self.g = LayoutImporter(self.model.name)
        self.masks: dict[Value, Value] = {}
        self._weights, self._depth = weights, 0

    def graph(self) -> Graph:
        """The graph; UnsupportedOperatorError names all layers that are not known."""
        if not self.model.is_model:
            raise UnsupportedOperatorError(
                f"the model is of the class {self.model.kind}, whose file says only how it is "
                "made by Python code",
                hint="export it as a SavedModel: model.export('folder')",
            )
        self._check()
        self._weights.bind(self.model)
        for layer in self.model.every():
            completed(layer)
        inputs, outputs = places_of(self.model)
        values = [self._input(name, place) for name, place in inputs]
        results = self.call_model(self.model, values)
        for (name, _), value in zip(outputs, results, strict=True):
            used = {*self.g.graph.output_names, *(v.name for v in self.g.graph.inputs)}
            self.g.output(free_name(name, used), value)
        tidy(self.g.graph)
        return self.g.graph

    def _check(self) -> None:
        layers = [layer for layer in self.model.every() if not layer.is_model]
        code = sorted({layer.name for layer in layers if layer.kind in _PYTHON})
        if code:
            raise UnsupportedOperatorError(
                f"{len(code)} layers hold Python code, which is never executed: "
                f"{', '.join(code[:20])}",
                hint="write them with operations of keras.ops, export a SavedModel: "
                "model.export('folder'), or write classes of operators for them "
                "(docs/extending.md)",
            )
        require_all(
            ((layer.kind.replace("ops.", "keras.ops."), f"layer {layer.name!r}") for layer in layers
             if entry_of(layer.kind) is None and layer.kind != _INPUT),
            (),
            "the model",
            "export it as a SavedModel, model.export('folder'), or report the layer",
        )  # fmt: skip

    # -- inputs and outputs ------------------------------------------------------------------------

    def _input(self, name: str, place: Place) -> Value:
        layer = next((each for each in self.model.layers if each.name == place[0]), None)
        if layer is None or layer.kind != _INPUT:
            raise ModelFileError(f"the input {name!r} is not an input of the model")
        config = layer.config
        shape = config.get("batch_shape") or config.get("batch_input_shape")
        if not isinstance(shape, (list, tuple)):
            raise ModelFileError(f"the input {name!r} has no shape, {shape!r}")
        if config.get("sparse") or config.get("ragged"):
            raise UnsupportedOperatorError(f"the input {name!r} is sparse or ragged")
        sizes: list[Any] = [None if size is None else int(size) for size in shape]
        if any(size is not None and size < 0 for size in sizes):
            raise ModelFileError(f"the input {name!r} has the shape {sizes}")
        if sizes and sizes[0] is None:
            sizes[0] = "batch"
        dtype = compute_type(policy_of(config.get("dtype")))
        return self.g.input(name, dtype, sizes)

    # -- models ------------------------------------------------------------------------------------

    def call_model(self, model: KerasLayer, values: Sequence[Value]) -> list[Value]:
        """The outputs of a model for these inputs, in the order of its file."""
        if self._depth >= _DEEPEST:
            raise ModelFileError(f"more than {_DEEPEST} models are inside each other")
        inputs, outputs = places_of(model)
        if len(inputs) != len(values):
            raise ModelFileError(
                f"the model {model.name!r} has {len(inputs)} inputs, and gets {len(values)}"
            )
        results: dict[tuple[str, int], list[Any]] = {}
        for place, value in zip((place for _, place in inputs), values):
            results[place[0], place[1]] = [value]
        self._depth += 1
        for node in nodes_of(model, [place for _, place in outputs]):
            key = node.layer.name, node.number
            if key not in results:
                results[key] = self._run_node(node, results)
        self._depth -= 1
        return [resolved(place, results) for _, place in outputs]

    def _run_node(self, node: KerasNode, results: Mapping[tuple[str, int], list[Any]]) -> list[Any]:
        if node.layer.kind == _INPUT:
            raise ModelFileError(f"the input {node.layer.name!r} is none of its model")
        args, kwargs = node.arguments(lambda place: resolved(place, results))
        with self.g.scope(node.layer.name):
            try:
                made = self.run(node.layer, args, kwargs)
            except InfuseError as error:
                error.within(node.layer.kind.replace("ops.", "keras.ops."))
                raise
        return flat(made)

    # -- layers ------------------------------------------------------------------------------------

    def run(self, layer: KerasLayer, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The results of a layer for these arguments, with masks as Keras hands them on."""
        options = dict(kwargs)
        if options.pop("training", None) is True and self.generation == 2:
            raise UnsupportedOperatorError("a layer that is called with training=True")
        if options.get("mask", ...) is None:
            del options["mask"]
        if layer.is_model:
            return self._nested(layer, args, options)
        entry = entry_of(layer.kind)
        if entry is None:
            raise UnsupportedOperatorError(f"a layer of the class {layer.kind} inside of another")
        call = KerasCall(self, layer)
        if layer.is_operation or layer.kind in ("TFOpLambda", "SlicingOpLambda"):
            return entry.build(call, *args, **options)
        args = [self._converted(layer, argument) for argument in args]
        options = {name: self._converted(layer, each) for name, each in options.items()}
        first = flat(args[0]) if args else flat(next(iter(options.values()), []))
        before = [self.masks.get(v) if isinstance(v, Value) else None for v in first]
        explicit = options.get("mask")
        if explicit is not None and flat(explicit):
            before = flat(explicit)
        made = entry.build(call, *args, **options)
        if not entry.masking:
            return self._unmasked(made, args)
        for value, mask in zip(flat(made), before):
            if value not in self.masks and mask is not None and layer.kind not in _OWN:
                self.masks[value] = mask
        return made

    def _unmasked(self, made: Any, args: Any) -> Any:
        """Results that are operands with masks are values of their own."""
        operands = set(flat(args))
        if isinstance(made, (list, tuple)):
            return tuple(self._unmasked(value, args) for value in made)
        if made in operands and made in self.masks:
            return self.g("Identity", made)
        return made

    def _converted(self, layer: KerasLayer, argument: Any) -> Any:
        """An argument in the type that the layer computes in, where both are floats."""
        if isinstance(argument, (list, tuple)):
            return type(argument)(self._converted(layer, each) for each in argument)
        if not isinstance(argument, Value):
            return argument
        dtype = layer.config.dtype
        as_it_is = not argument.dtype.is_float or not dtype.is_float or argument.dtype == dtype
        if as_it_is or layer.config.get("autocast") is False:
            return argument
        result = self.g.cast(argument, dtype)
        if argument in self.masks:
            self.masks[result] = self.masks[argument]
        return result

    def _nested(self, model: KerasLayer, args: Sequence[Any], options: dict[str, Any]) -> Any:
        values = flat(args)
        masks = flat(options.pop("mask", None))
        if options:
            raise UnsupportedOperatorError(f"a model that is called with {', '.join(options)}")
        for value, mask in zip(values, masks):
            self.masks[value] = mask
        results = self.call_model(model, values)
        return results[0] if len(results) == 1 else tuple(results)


_OWN: Final = ("MultiHeadAttention",)
"""Layers that set the masks of their results themselves."""


def flat(nested: Any) -> list[Any]:
    """What is nested in lists, tuples and dictionaries, in the order of Keras; None is left out."""
    if nested is None:
        return []
    if isinstance(nested, (list, tuple)):
        return [each for part in nested for each in flat(part)]
    if isinstance(nested, dict):
        return [each for key in sorted(nested) for each in flat(nested[key])]
    return [nested]
