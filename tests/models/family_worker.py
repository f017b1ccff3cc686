"""One family as one exporter writes it: from the network to the answers of the compiled model, in a
process of its own.

A crash or a hang costs one answer. The processes are forked from this one, which has imported the
libraries but has run nothing, so that it has no threads.
"""

import math
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch

import infuse
from benchmarks.conformance_worker import described
from benchmarks.measure import difference
from tests.models.family_models import FAMILIES
from tests.models.family_network import SIZES

RIGHT, WRONG, FAILED, REFUSED, CRASHED = OURS = ("right", "wrong", "failed", "refused", "crashed")
"""As PyTorch or ONNX Runtime says; not so; an error while running, while compiling; the process
ended or hung.
"""
UNEXPORTED, BROKEN = OTHERS = ("not exported", "broken")
"""The exporter failed; what it wrote fails in Infuse, and fails or is wrong in ONNX Runtime too."""
OUTCOMES = (*OURS, *OTHERS)
EXPORTING, COMPILING, RUNNING, CHECKING = ("exporting", "compiling", "running", "checking")
Outputs = Sequence[np.ndarray]
Tell = Callable[[str], None]
Prepare = Callable[[Path, "Result"], Any]
"""From the exported file to what has `inputs` and `run`; it notes the counts of nodes."""


@dataclass
class Result:
    """What came of one family and exporter."""

    outcome: str
    reason: str = ""
    from_pytorch: float | None = None
    """Largest difference from PyTorch's outputs, relative to the largest of them."""
    from_onnxruntime: float | None = None
    runtime: str = ""
    """Why ONNX Runtime does not run it, or how far it is from PyTorch where that is too far."""
    symbolic: bool = True
    """Whether it was exported with symbolic sizes; else the exporter did not manage that."""
    nodes: int = 0
    optimized: int = 0
    """Nodes before and after the optimizer."""
    host: list[str] = field(default_factory=list)
    """What does not run as native code."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Of each step."""


def is_good(result: Result) -> bool:
    """Right, or no fault of Infuse."""
    return result.outcome == RIGHT or result.outcome in OTHERS


def ask(name: str, exporter: str, limit: float, tolerance: float, saved: bool = False) -> Result:
    """Run one family in a process of its own; each step may take `limit` seconds. See `measure` for
    `saved`.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder:
        process = context.Process(
            target=_serve, args=(name, exporter, folder, tolerance, theirs, saved)
        )
        process.start()
        theirs.close()
        try:
            return _receive(ours, limit)
        finally:
            ours.close()
            _end(process.pid)
            process.join()


def _receive(pipe: Connection, limit: float) -> Result:
    step = EXPORTING
    while True:
        if not pipe.poll(limit):
            reason = f"no answer for {limit:g} seconds while {step}"
            break
        try:
            message = pipe.recv()
        except EOFError:
            reason = f"the process ended while {step}"
            break
        if isinstance(message, Result):
            return message
        step = message
    return Result(UNEXPORTED if step == EXPORTING else CRASHED, reason)


def _end(group: int | None) -> None:
    """End a process and what it started: compilers."""
    try:
        os.killpg(group or 0, signal.SIGKILL)
    except ProcessLookupError:
        return


def _serve(
    name: str, exporter: str, folder: str, tolerance: float, pipe: Connection, saved: bool
) -> None:
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # exporters print whole graphs
    os.environ["INFUSE_CACHE"] = str(Path(folder) / "cache")
    torch.set_num_threads(1)
    pipe.send(measure(name, exporter, Path(folder), tolerance, pipe.send, saved))


def measure(
    name: str,
    exporter: str,
    folder: Path,
    tolerance: float,
    tell: Tell = lambda step: None,
    saved: bool = False,
) -> Result:
    """Export, compile and run one family in this process; `tell` hears of each step that begins.

    With `saved`, what is run is the optimized graph as `infuse.save` writes it, by ONNX Runtime.
    The sizes are fixed where the exporter cannot leave them open, or writes what only runs with
    those it has seen.
    """
    prepare = _save if saved else _compile
    result = _measure(name, exporter, folder, tolerance, tell, prepare, symbolic=True)
    if result.outcome not in OTHERS:
        return result
    fixed = _measure(name, exporter, folder, tolerance, tell, prepare, symbolic=False)
    fixed.symbolic = False
    return result if fixed.outcome == UNEXPORTED else fixed


def _measure(
    name: str,
    exporter: str,
    folder: Path,
    tolerance: float,
    tell: Tell,
    prepare: Prepare,
    symbolic: bool,
) -> Result:
    tell(EXPORTING)
    torch.manual_seed(0)
    network, path = FAMILIES[name]().prepare(), folder / f"model{'' if symbolic else '.fixed'}.onnx"
    result, start = Result(RIGHT), time.perf_counter()
    try:
        network.export(exporter, path, symbolic)
    except Exception as error:  # a gap in the exporter, whatever it raises
        return Result(UNEXPORTED, described(error))
    feeds = [network.feeds(run, symbolic) for run in range(len(SIZES))]
    start = _took(result, EXPORTING, start)
    tell(COMPILING)
    try:
        model = prepare(path, result)
        start = _took(result, COMPILING, start)
        tell(RUNNING)
        found = [_answer(model, feed) for feed in feeds]
        start = _took(result, RUNNING, start)
    except Exception as error:  # whatever is raised is the answer
        result.outcome = REFUSED
        result.reason, found = described(error), []
    tell(CHECKING)
    _judge(
        result, found, [network.answer(feed) for feed in feeds], _runtime(path, feeds), tolerance
    )
    _took(result, CHECKING, start)
    return result


def _answer(model: Any, feed: Mapping[str, np.ndarray]) -> Outputs | str:
    """What the compiled model answers, or why it does not; exporters leave out inputs that nothing
    reads.
    """
    try:
        return [
            np.array(v)
            for v in model.run({spec.name: feed[spec.name] for spec in model.inputs}).values()
        ]
    except Exception as error:  # whatever is raised is the answer
        return described(error)


def _took(result: Result, step: str, start: float) -> float:
    now = time.perf_counter()
    result.seconds[step] = round(now - start, 2)
    return now


def _compile(path: Path, result: Result) -> Any:
    graph = infuse.load(path)
    result.nodes = len(graph.nodes)
    optimized = infuse.optimize(graph, "all")
    result.optimized = len(optimized.nodes)
    model = infuse.compile(optimized)
    result.host = list(model.host_steps)
    return model


class _Written:
    """A file that ONNX Runtime runs, called as a compiled model is."""

    def __init__(self, path: Path) -> None:
        self._session = _session(path)
        self.inputs = self._session.get_inputs()

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs by name."""
        names = [value.name for value in self._session.get_outputs()]
        return dict(zip(names, self._session.run(names, dict(feeds)), strict=True))


def _save(path: Path, result: Result) -> Any:
    graph = infuse.load(path)
    optimized = infuse.optimize(graph, "extended")
    result.nodes, result.optimized = len(graph.nodes), len(optimized.nodes)
    written = path.with_suffix(".saved.onnx")
    infuse.save(optimized, written)
    return _Written(written)


def _session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _runtime(path: Path, feeds: Sequence[Mapping[str, np.ndarray]]) -> list[Outputs | str]:
    """What ONNX Runtime answers to each, or why it does not."""
    try:
        session = _session(path)
    except Exception as error:  # whatever it raises
        return [described(error)] * len(feeds)
    answers: list[Outputs | str] = []
    for feed in feeds:
        try:
            answers.append(
                session.run(None, {value.name: feed[value.name] for value in session.get_inputs()})
            )
        except Exception as error:
            answers.append(described(error))
    return answers


def _judge(
    result: Result,
    found: list[Outputs | str],
    wanted: list[Outputs],
    runtime: list[Outputs | str],
    tolerance: float,
) -> None:
    """Fill in the differences; what is wrong in Infuse and in ONNX Runtime is the exporter's.

    Nothing is found where the model was refused.
    """
    theirs = [_far(answer, w) for answer, w in zip(runtime, wanted, strict=True)]
    bad = [t > tolerance for t in theirs]
    if any(bad):
        worst = runtime[bad.index(True)]
        result.runtime = worst if isinstance(worst, str) else f"{max(theirs):.1e} away from PyTorch"
    if not found:
        result.outcome = BROKEN if all(bad) else result.outcome
        return
    away = [_far(f, w) for f, w in zip(found, wanted, strict=True)]
    apart = [
        math.inf if isinstance(r, str) else _far(f, r) for f, r in zip(found, runtime, strict=True)
    ]
    result.from_pytorch, result.from_onnxruntime = max(away), max(apart)
    missed = [i for i in range(len(found)) if min(away[i], apart[i]) > tolerance]
    if missed:
        answer = found[missed[0]]
        result.outcome = FAILED if isinstance(answer, str) else WRONG
        result.reason = (
            answer
            if isinstance(answer, str)
            else f"{min(away[missed[0]], apart[missed[0]]):.1e} away"
        )
        result.reason += f" in run {missed[0] + 1}"
        if all(bad[i] for i in missed):
            result.outcome = BROKEN


def _far(found: Outputs | str, wanted: Outputs) -> float:
    """The largest difference; infinite where there was no answer."""
    if isinstance(found, str):
        return math.inf
    return difference(dict(enumerate(found)), dict(enumerate(wanted)))  # type: ignore[arg-type]
