"""What is made of a model's scores and embeddings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

import numpy as np

from infuse.errors import InputError, ModelFailureError
from infuse.runtime.session import Array
from infuse.serving.config import Positive
from infuse.serving.datatypes import BYTES
from infuse.serving.engine.pipelines.ports import FLOATS, INTEGERS, Port
from infuse.serving.engine.pipelines.steps import Builtin, Options, Place, objects


class SoftmaxOptions(Options, frozen=True):
    """How scores become probabilities."""

    axis: int = -1
    """The axis along which probabilities sum to one."""
    temperature: float = 1.0
    """What scores are divided by; greater than 0."""


class Softmax(Builtin[SoftmaxOptions]):
    """Probabilities from scores: exponentials along one axis, scaled to a sum of one.

    Input: `scores`, floats of any shape. Output: `probabilities`, FP32 of the same shape. Options:
    `SoftmaxOptions`.
    """

    kind = SoftmaxOptions

    def prepare(self, options: SoftmaxOptions, place: Place) -> None:
        if not 0 < options.temperature < np.inf:
            raise place.fail("`temperature` is a number above zero")
        self.options = options
        self.inputs = (Port("scores", FLOATS),)
        self.outputs = (Port("probabilities", frozenset({"FP32"})),)

    def run(self, inputs: Mapping[str, Array], outputs: Collection[str]) -> dict[str, Array]:
        scores = inputs["scores"]
        axis = self.options.axis
        if not -scores.ndim <= axis < scores.ndim:
            raise InputError(f"input 'scores' of shape {list(scores.shape)} has no axis {axis}")
        wide = scores.astype(np.float64) / self.options.temperature
        if scores.size:
            with np.errstate(
                invalid="ignore"
            ):  # rows that are infinite or NaN become NaN, as in a model
                wide = np.exp(wide - wide.max(axis, keepdims=True))
                wide /= wide.sum(axis, keepdims=True)
        return {"probabilities": wide.astype(np.float32)}


class LabelOptions(Options, frozen=True):
    """How the best classes are named."""

    k: Positive = 5
    """How many of the best classes, or all where there are fewer."""
    labels: str = "labels.txt"
    """A file in the model's folder with one name a line, in the order of the classes."""
    separator: str = ":"
    """What stands between a name and its score."""


class TopkLabels(Builtin[LabelOptions]):
    """The names of the best classes, best first; of equals the earlier class, NaN last.

    Input: `scores`, floats [n, classes] or [classes]. Outputs, [n, k] or [k]: `labels`, BYTES
    `name:score`; `indices`, INT64; `scores`, FP32. Options: `LabelOptions`. ModelFailureError when
    there are not as many classes as names.
    """

    kind = LabelOptions

    def prepare(self, options: LabelOptions, place: Place) -> None:
        """Read the names."""
        self.options = options
        path = place.find(options.labels)
        try:
            self._names = path.read_text("utf-8").removesuffix("\n").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise place.fail(f"'{options.labels}' cannot be read: {error}") from error
        if self._names == [""]:
            raise place.fail(f"'{options.labels}' is empty")
        self.inputs = (Port("scores", FLOATS),)
        self.outputs = (
            Port("labels", frozenset({BYTES})),
            Port("indices", frozenset({"INT64"})),
            Port("scores", frozenset({"FP32"})),
        )

    def run(self, inputs: Mapping[str, Array], outputs: Collection[str]) -> dict[str, Array]:
        scores = inputs["scores"].astype(np.float32)
        if scores.ndim not in (1, 2):
            raise InputError(
                f"input 'scores' has shape [n, classes] or [classes], not {list(scores.shape)}"
            )
        if scores.shape[-1] != len(self._names):
            raise ModelFailureError(
                f"there are scores of {scores.shape[-1]} classes, and {len(self._names)} names in "
                f"'{self.options.labels}'"
            )
        order = np.argsort(-scores, axis=-1, kind="stable")[..., : self.options.k].astype(np.int64)
        best = np.take_along_axis(scores, order, axis=-1)
        pairs = zip(order.ravel().tolist(), best.ravel())
        labels = [
            f"{self._names[index]}{self.options.separator}{score!s}".encode()
            for index, score in pairs
        ]
        return {"labels": objects(labels, order.shape), "indices": order, "scores": best}


class PoolOptions(Options, frozen=True):
    """How embeddings of tokens become one."""

    mode: Literal["mean", "max", "cls"] = "mean"
    """`mean`; `max`: the largest of each element; `cls`: the first embedding."""
    normalise: bool = True
    """Whether the result is scaled to a length of one."""


class MeanPool(Builtin[PoolOptions]):
    """Vectors of sentences from those of their tokens.

    Inputs: `embeddings`, floats [n, tokens, size]; optional `mask`, INT64 or INT32 [n, tokens], not
    zero where there is a token. Output: `vectors`, FP32 [n, size]; zeros for a row without tokens.
    Options: `PoolOptions`.
    """

    kind = PoolOptions

    def prepare(self, options: PoolOptions, place: Place) -> None:
        self.options = options
        self.inputs = (
            Port("embeddings", FLOATS, (-1, -1, -1)),
            Port("mask", INTEGERS | {"BOOL"}, (-1, -1), optional=True),
        )
        self.outputs = (Port("vectors", frozenset({"FP32"}), (-1, -1)),)

    def run(self, inputs: Mapping[str, Array], outputs: Collection[str]) -> dict[str, Array]:
        embeddings = inputs["embeddings"]
        if embeddings.ndim != 3:
            raise InputError(
                f"input 'embeddings' has shape [n, tokens, size], not {list(embeddings.shape)}"
            )
        mask = inputs.get("mask")
        if mask is None:
            mask = np.ones(embeddings.shape[:2], np.bool_)
        if mask.shape != embeddings.shape[:2]:
            shapes = f"{list(mask.shape)} and {list(embeddings.shape)}"
            raise InputError(
                f"inputs 'mask' and 'embeddings' do not fit: they have shapes {shapes}"
            )
        vectors = self._pooled(embeddings.astype(np.float64), mask != 0)
        if self.options.normalise:
            length = np.sqrt((vectors * vectors).sum(-1, keepdims=True))
            vectors = np.divide(vectors, length, out=np.zeros_like(vectors), where=length != 0)
        return {"vectors": vectors.astype(np.float32)}

    def _pooled(self, embeddings: Array, there: Array) -> Array:
        empty: Array = np.logical_not(there.any(1))
        if self.options.mode == "max":
            largest = np.where(there[:, :, None], embeddings, -np.inf).max(1, initial=-np.inf)
            return np.where(empty[:, None], 0.0, largest)
        if self.options.mode == "cls":
            first = (
                embeddings[:, 0]
                if embeddings.shape[1]
                else np.zeros((len(embeddings), embeddings.shape[2]))
            )
            return np.where(empty[:, None], 0.0, first)
        total = np.where(there[:, :, None], embeddings, 0.0).sum(1)
        return np.asarray(total / np.maximum(there.sum(1), 1)[:, None])
