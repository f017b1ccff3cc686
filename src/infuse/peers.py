"""Other runtimes that `infuse bench` compares with: each reads the ONNX file as it is."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import infuse
from infuse.errors import OptionError, RuntimeFailure
from infuse.ir.graph import Array, Graph
from infuse.options.data import ALL_PEERS, PEERS
from infuse.runtime.folder import is_compiled

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
