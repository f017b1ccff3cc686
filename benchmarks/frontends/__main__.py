"""Models of a framework beside it: `python -m benchmarks.frontends FRAMEWORK [NAME or PLACE …]`.

For every model: whether Infuse reads it, in how many seconds, its nodes and transposes before and
after optimization, and the largest difference from the framework's answers as a part of the largest
output. Needs the framework, which tests do not. Exit status 1 where a model disagrees.

keras        networks of keras.applications with random weights, as .keras and as .h5
mindspore    ResNet-50, MobileNetV2, LeNet, BERT and an LSTM, or .mindir files of places
paddle       networks of paddle.vision, and .pdmodel files of places (old: the format before 3.0)
tensorflow   SavedModels, frozen graphs and TensorFlow.js below places, or keras.applications
tflite       .tflite files of places; the wheels of mediapipe and basic-pitch have good ones
torchscript  architectures of torchvision, traced and scripted, or those of timm by `timm/NAME`
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import infuse
from benchmarks import machine
from benchmarks.frontends import CannotRun, Case, Outputs
from benchmarks.measure import difference
from infuse.errors import InfuseError
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate

FRAMEWORKS = ("keras", "mindspore", "paddle", "tensorflow", "tflite", "torchscript")


@dataclass(frozen=True)
class Row:
    """What came of one model; without nodes it was not read, `left_out` says why."""

    name: str
    left_out: str = ""
    is_refused: bool = False
    seconds: float = 0.0
    nodes: tuple[int, int] = (0, 0)
    transposes: tuple[int, int] = (0, 0)
    difference: float = 0.0
    own: float = 0.0
    agrees: bool = False

    @property
    def text(self) -> str:
        """A line for people."""
        if self.left_out:
            return f"{self.name:34} {self.left_out[:200]}"
        pairs = [f"{a:4} → {b:3}" for a, b in (self.nodes, self.transposes)]
        return (
            f"{self.name:34} {pairs[0]} nodes, {pairs[1]} transposes in {self.seconds:.2f} s, "
            f"difference {self.difference:.1e} (theirs {self.own:.1e})"
        )


def row(case: Case, tolerance: float) -> Row:
    """A model read, run here and there, and compared."""
    begin = time.perf_counter()
    try:
        graph = case.load()
    except InfuseError as error:
        return Row(case.name, f"refused: {error}", is_refused=True)
    except CannotRun as error:
        return Row(case.name, f"the framework cannot make it: {error}")
    seconds = time.perf_counter() - begin
    feeds = case.feeds(graph)
    try:
        expected = case.run(feeds)
        near = expected if case.near is None else case.near(feeds)
    except CannotRun as error:
        return Row(case.name, f"the framework cannot run it: {error}")
    ours = {n: a for n, a in evaluate(graph, feeds).items() if case.is_output(n)}
    largest, own = apart(ours, expected), apart(named(near, ours), expected)
    better = infuse.optimize(graph)
    return Row(
        case.name,
        seconds=seconds,
        nodes=(len(graph), len(better)),
        transposes=(transposes(graph), transposes(better)),
        difference=largest,
        own=own,
        agrees=largest <= max(tolerance, case.slack * own),
    )


def named(outputs: Outputs, ours: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs under our names: by name, else in order. ValueError where there are others."""
    if isinstance(outputs, Mapping):
        return {name: outputs[name] for name in ours}
    return dict(zip(ours, outputs, strict=True))


def apart(ours: Mapping[str, np.ndarray], expected: Outputs) -> float:
    """The largest difference as a part of the largest element; infinite for another type."""
    theirs = named(expected, ours)
    if any(theirs[name].dtype != array.dtype for name, array in ours.items()):
        return float("inf")
    return difference(ours, theirs)


def transposes(graph: Graph) -> int:
    """How many there are."""
    return sum(node.kind == "Transpose" for node in graph.nodes)


def main(arguments: list[str] | None = None) -> int:
    """The command; 1 where a model disagrees."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("framework", choices=FRAMEWORKS)
    parser.add_argument("names", nargs="*", metavar="NAME or PLACE")
    parser.add_argument("--old", action="store_true", help="Paddle: the format before 3.0")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    module: Any = import_module(f"benchmarks.frontends.{options.framework}")
    cases: Callable[..., Any] = module.cases
    extra: dict[str, Any] = {"old": options.old} if options.framework == "paddle" else {}
    rows: list[Row] = []
    for case in cases(options.names, **extra):
        rows.append(row(case, options.tolerance))
        print(rows[-1].text, flush=True)
    if options.json is not None:
        machine.save(options.json, {"models": [vars(found) for found in rows]})
    return summed_up(rows)


def summed_up(rows: Sequence[Row]) -> int:
    """Print how many agree; 1 where one that was read does not."""
    read = [found for found in rows if not found.left_out]
    refused = sum(found.is_refused for found in rows)
    agree = sum(found.agrees for found in read)
    print(f"{len(rows)} models, {refused} refused, {len(read)} compared, {agree} agree")
    return int(agree < len(read))


if __name__ == "__main__":
    sys.exit(main())
