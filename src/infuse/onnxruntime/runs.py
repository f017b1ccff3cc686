"""Running the model of a session, with a trace of what happens where profiling is enabled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from infuse.onnxruntime.tracing import SessionTrace
from infuse.options import PRECISIONS, CompileOptions
from infuse.runtime.interface import Model

if TYPE_CHECKING:
    from infuse.ir.graph import Graph
    from infuse.profiling import ProfiledModel

Run = Callable[[Mapping[str, Any]], dict[str, Any]]


class Runs:
    """`run` gives the outputs by name, for inputs by name.

    With a trace, runs come one after another and are recorded: with their kernels where there is a
    graph, which is compiled with clocks for that, and its layers are all of one precision.
    """

    def __init__(self, model: Model, graph: Graph | None, trace: SessionTrace | None) -> None:
        self._model, self._trace = model, trace
        self._lock = threading.Lock()
        self._names = {spec.name for spec in model.inputs}
        self._profiled = _profiled(graph, model) if graph is not None and trace else None
        self.run: Run = model.run if trace is None else self._recorded

    def end_profiling(self) -> None:
        """Run without records from now on."""
        self.run = self._model.run

    def _recorded(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        assert self._trace is not None
        with self._lock:
            begin = time.perf_counter_ns()
            if self._profiled is None or not feeds.keys() <= self._names:
                results = self._model.run(feeds)
            else:
                results, run = self._profiled.run(feeds)
                self._trace.add_kernels(run, self._profiled.places)
            self._trace.add("model_run", begin, time.perf_counter_ns())
            return results


def _profiled(graph: Graph, model: Model) -> ProfiledModel | None:
    """The model with clocks in it; None where its layers are of several precisions."""
    from infuse.build.compile import Compilation
    from infuse.profiling import ProfiledModel

    precision = model.metadata.get("precision", "fp32")
    if precision not in PRECISIONS:
        return None
    weights = model.metadata.get("weights", CompileOptions.weights)
    options = CompileOptions(threads=model.threads, precision=precision, weights=weights)
    return ProfiledModel.compile(Compilation(graph, options))
