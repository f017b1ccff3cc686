"""What the lists of families share: a network with its inputs, and how it is exported and asked."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn

from benchmarks.zoo_models import randomize

LEGACY, DYNAMO = EXPORTERS = ("legacy", "dynamo")
"""PyTorch's exporters: the one that traces (TorchScript), and the one of `torch.export`."""
SIZES = ({"batch": 2, "seq": 6, "target": 5}, {"batch": 3, "seq": 9, "target": 4})
"""Symbolic sizes of the two runs; networks are traced with the first."""
LARGEST = 64
"""Bound of a symbolic size, for the exporter."""
OPSET = 17
"""Of the TorchScript exporter; the other one writes its own newest."""
WORDS = 97
"""Token ids are below it: the size of the vocabularies."""


@dataclass(frozen=True)
class Input:
    """Shape of an input, with symbolic sizes by name, and what is in it: floats, ids or a mask."""

    shape: tuple[int | str, ...]
    kind: str = "floats"
    below: int = WORDS

    def made(self, sizes: Mapping[str, int], rng: np.random.Generator) -> np.ndarray:
        """Numbers for some sizes: normal floats, ids from 1 to `below`, or ones with the end of the
        first row zero.
        """
        shape = self.concrete(sizes)
        if self.kind == "ids":
            return rng.integers(1, self.below, shape)
        if self.kind == "mask":
            mask = np.ones(shape, np.int64)
            mask[0, max(1, shape[1] // 2) :] = 0
            return mask
        assert self.kind == "floats", self.kind
        return rng.standard_normal(shape, dtype=np.float32)

    def concrete(self, sizes: Mapping[str, int]) -> list[int]:
        """The shape for some sizes."""
        return [size if isinstance(size, int) else sizes[size] for size in self.shape]

    @property
    def axes(self) -> dict[int, str]:
        """Names of the symbolic dimensions."""
        return {axis: size for axis, size in enumerate(self.shape) if isinstance(size, str)}


@dataclass
class Network:
    """A module that takes tensors and returns a tensor, or a tuple of some."""

    model: nn.Module
    inputs: dict[str, Input]
    suppress: float | None = None
    """Overlap above which boxes are suppressed: appended to the exported graph, whose outputs are
    boxes and scores.
    """

    def prepare(self) -> "Network":
        """Seeded weights, no norm and no head trivial, ready to be run."""
        randomize(self.model).eval()
        return self

    def feeds(self, run: int, symbolic: bool = True) -> dict[str, np.ndarray]:
        """Inputs of one of the two runs, both of the same sizes where those are not symbolic."""
        rng = np.random.default_rng(run)
        return {
            name: value.made(SIZES[run if symbolic else 0], rng)
            for name, value in self.inputs.items()
        }

    def answer(self, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Outputs in PyTorch."""
        with torch.no_grad(), quiet():
            found = self.model(*(torch.from_numpy(feeds[name]) for name in self.inputs))
        outputs = [found] if isinstance(found, torch.Tensor) else list(found)
        if self.suppress is not None:
            boxes, scores = (output.numpy() for output in outputs)
            return [_suppressed(boxes, scores, self.suppress)]
        return [output.numpy() for output in outputs]

    def export(self, exporter: str, path: Path, symbolic: bool = True) -> None:
        """Write an ONNX file; with `symbolic`, named sizes stay open. Raises whatever the exporter
        does.
        """
        arguments = tuple(torch.from_numpy(value) for value in self.feeds(0).values())
        named = {name: value.axes for name, value in self.inputs.items()} if symbolic else {}
        options: dict[str, Any] = {
            "dynamo": False,
            "opset_version": OPSET,
            "dynamic_axes": named or None,
        }
        if exporter == DYNAMO:
            sizes = {size for axes in named.values() for size in axes.values()}
            dims = {size: torch.export.Dim(size, min=2, max=LARGEST) for size in sizes}
            shapes = tuple(
                {axis: dims[size] for axis, size in axes.items()} for axes in named.values()
            )
            options = {"dynamo": True, "dynamic_shapes": shapes or None}
        torch.backends.mha.set_fastpath_enabled(False)  # its fused operator has no ONNX form
        with torch.no_grad(), quiet():
            torch.onnx.export(
                self.model, arguments, str(path), input_names=list(self.inputs), **options
            )
        if self.suppress is not None:
            _append_suppression(path, self.suppress)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What libraries print and warn of concerns their own versions."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


SCORE = 0.5
"""Boxes with a lower score are left out."""
MOST = 10
"""Boxes of a class that are kept."""


def _append_suppression(path: Path, overlap: float) -> None:
    """Non-maximum suppression of the two outputs, boxes (N, boxes, 4) and scores (N, classes,
    boxes).
    """
    model = onnx.load(path)
    boxes, scores = (output.name for output in model.graph.output)
    limits = {
        "most": np.array([MOST]),
        "overlap": np.float32([overlap]),
        "score": np.float32([SCORE]),
    }
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(value, name) for name, value in limits.items()
    )
    model.graph.node.append(
        onnx.helper.make_node("NonMaxSuppression", [boxes, scores, *limits], ["selected"])
    )
    del model.graph.output[:]
    shape = onnx.helper.make_tensor_value_info("selected", onnx.TensorProto.INT64, ["found", 3])
    model.graph.output.append(shape)
    onnx.save(model, path)


def _suppressed(boxes: np.ndarray, scores: np.ndarray, overlap: float) -> np.ndarray:
    """What the appended operator means: of each image and class the best boxes that no better one
    covers.
    """
    kept: list[tuple[int, int, int]] = []
    for image, classes in enumerate(scores):
        for label, score in enumerate(classes):
            chosen: list[int] = []
            for box in np.argsort(-score, kind="stable"):
                covered = any(
                    _overlap(boxes[image, box], boxes[image, other]) > overlap for other in chosen
                )
                if score[box] > SCORE and len(chosen) < MOST and not covered:
                    chosen.append(int(box))
            kept += [(image, label, box) for box in chosen]
    return np.array(kept, np.int64).reshape(-1, 3)


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Intersection over union of two boxes y1, x1, y2, x2."""
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    common = float(np.prod(np.maximum(sides, 0)))
    areas = sum(float(np.prod(box[2:] - box[:2])) for box in (a, b))
    return common / (areas - common)
