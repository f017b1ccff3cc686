"""Other runtimes that `infuse bench` compares with, which read the ONNX file as it is, and how a
model is timed beside them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import infuse
from infuse.data.answers import type_text
from infuse.errors import OptionError, RuntimeFailure
from infuse.ir.graph import Array, Graph
from infuse.options import Turns
from infuse.options.data import ALL_PEERS, PEERS
from infuse.passes.verification import relative_difference
from infuse.profiling.turns import alternate, distribution
from infuse.runtime.folder import is_compiled
from infuse.runtime.interface import Model
from infuse.runtime.shapes import TensorSpec

OURS = "infuse"
Arrays = Mapping[str, Array]


class Peer(Protocol):
    """A model opened in another runtime, in float32 where the model is."""

    def run(self, feeds: Arrays) -> Any:
        """One inference in the runtime's own form: what is timed."""

    def answer(self, feeds: Arrays) -> dict[str, Array]:
        """One inference as arrays by output name."""


class _OnnxRuntime:
    """ONNX Runtime's CPU provider with all of its optimizations."""

    def __init__(self, path: Path, threads: int) -> None:
        runtime = import_module("onnxruntime")
        settings = runtime.SessionOptions()
        settings.intra_op_num_threads = threads
        settings.inter_op_num_threads = 1
        settings.log_severity_level = 3
        self._session = runtime.InferenceSession(
            str(path), settings, providers=["CPUExecutionProvider"]
        )
        self._names = [output.name for output in self._session.get_outputs()]

    def run(self, feeds: Arrays) -> Any:
        return self._session.run(None, dict(feeds))

    def answer(self, feeds: Arrays) -> dict[str, Array]:
        return dict(zip(self._names, self.run(feeds)))


class _OpenVino:
    """OpenVINO's CPU plugin, asked for latency, in float32."""

    def __init__(self, path: Path, threads: int) -> None:
        settings = {
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
        }
        core = import_module("openvino").Core()
        self._compiled = core.compile_model(str(path), "CPU", settings)
        self._request = self._compiled.create_infer_request()

    def run(self, feeds: Arrays) -> Any:
        return self._request.infer(dict(feeds), share_inputs=True, share_outputs=True)

    def answer(self, feeds: Arrays) -> dict[str, Array]:
        results = self.run(feeds)
        return {port.get_any_name(): np.array(results[port]) for port in self._compiled.outputs}


_OPENERS: Mapping[str, Callable[[Path, int], Peer]] = dict(zip(PEERS, (_OnnxRuntime, _OpenVino)))


def chosen_peers(names: Sequence[str]) -> list[str]:
    """The runtimes that are named, each once; `all` names those that are installed. OptionError for
    one that is unknown or cannot be imported.
    """
    chosen: dict[str, None] = {}
    for name in names:
        if name == ALL_PEERS:
            chosen.update((peer, None) for peer in PEERS if _missing(peer) is None)
            continue
        if name not in PEERS:
            raise OptionError(
                f"there is no runtime {name!r} to compare with",
                where="--against",
                hint=f"one of: {', '.join((*PEERS, ALL_PEERS))}",
            )
        reason = _missing(name)
        if reason is not None:
            raise OptionError(reason, where="--against", hint=f"pip install {name}")
        chosen[name] = None
    return list(chosen)


def _missing(name: str) -> str | None:
    """Why a runtime cannot be compared with; None where it can."""
    try:
        module = import_module(name)
    except ImportError as error:
        return f"{name} cannot be imported: {error}"
    if module.__name__.startswith("infuse."):
        return (
            f"{name} is Infuse in this process, so there is nothing to compare with: "
            "unset INFUSE_AS_ONNXRUNTIME"
        )
    return None


@contextmanager
def onnx_file(path: Path, graph: Graph | None) -> Iterator[Path]:
    """The model as an ONNX file, which is written where it has another format. OptionError for a
    compiled model.
    """
    if is_compiled(path):
        raise OptionError(
            f"{path} is a compiled model, which another runtime cannot read",
            hint="name the model file",
        )
    if path.suffix == ".onnx" or graph is None:
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        infuse.save(graph, file)
        yield file


class Opened:
    """A peer whose errors are RuntimeFailure, with its name in front."""

    def __init__(self, name: str, path: Path, threads: int) -> None:
        self.name = name
        self._peer: Peer = self._guarded("cannot open the model", _OPENERS[name], path, threads)

    def run(self, feeds: Arrays) -> Any:
        """See Peer."""
        return self._peer.run(feeds)

    def answer(self, feeds: Arrays) -> dict[str, Array]:
        """See Peer."""
        arrays: dict[str, Array] = self._guarded("failed", self._peer.answer, feeds)
        return arrays

    def _guarded(self, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except Exception as error:
            raise RuntimeFailure(f"{self.name} {what}: {error}") from error


@dataclass(frozen=True)
class Contest:
    """A model beside that of precision fp32, if there is one, and in other runtimes."""

    ours: Model
    exact: Model | None
    others: Sequence[Opened]
    turns: Turns

    def case(self, feeds: Arrays, progress: infuse.api.Progress) -> dict[str, Any]:
        """What the model is called with, differences and times on these inputs.

        Differences are the largest of each answer, relative to the largest element of each output.
        """
        answer = self.ours.run(feeds)
        exact = None if self.exact is None else _worst(answer, self.exact.run(feeds))
        runs: dict[str, Callable[[], Any]] = {OURS: partial(self.ours.run, feeds)}
        runs |= {peer.name: partial(peer.run, feeds) for peer in self.others}
        differences = {peer.name: _worst(answer, peer.answer(feeds)) for peer in self.others}
        count, seconds = self.turns.rounds, self.turns.seconds
        times = alternate(runs, count, seconds, lambda done: progress("measure", done, count))
        return {
            "inputs": {name: type_text(array) for name, array in feeds.items()},
            "difference": differences,
            "difference_from_fp32": exact,
            **_figures(times, _rows(self.ours.inputs, feeds)),
        }


def _rows(specs: Sequence[TensorSpec], feeds: Arrays) -> int:
    """Examples in a call: the size of the first axis that inputs share, 1 where it is fixed at
    different sizes.
    """
    firsts = {feeds[spec.name].shape[0] for spec in specs if spec.name in feeds and spec.shape}
    return int(firsts.pop()) if len(firsts) == 1 else 1


def _worst(ours: Arrays, theirs: Arrays) -> float:
    return max(
        (relative_difference(ours[name], array) for name, array in theirs.items()), default=0.0
    )


def _figures(times: Mapping[str, Sequence[float]], rows: int) -> dict[str, Any]:
    """Times by runtime, with examples for each second, and how many times as fast Infuse is."""
    figures = {name: distribution(taken) for name, taken in times.items()}
    for each in figures.values():
        each["throughput"] = rows / each["median_ms"] * 1e3
    least = figures[OURS]["min_ms"]
    speed = {name: each["min_ms"] / least for name, each in figures.items() if name != OURS}
    return {"batch": rows, "times": figures, "speed": speed}
