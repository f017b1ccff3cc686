"""`infuse bench`: how fast a model runs, alone or beside another runtime."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

import infuse
from infuse.cli import inputs, options, terminal
from infuse.cli.models import Opened, open_model
from infuse.cli.options import (
    AsJson,
    ChosenLevel,
    Dims,
    Level,
    ModelOrFolder,
    Precision,
    Search,
    Seed,
    Threads,
    Tune,
)
from infuse.cli.outputs import type_text
from infuse.errors import OptionError, RuntimeFailure
from infuse.ir.graph import Array
from infuse.ops.core.feeds import index_limits
from infuse.passes.verification import relative_difference
from infuse.profiling.turns import alternate, summary
from infuse.runtime.folder import is_compiled

Arrays = dict[str, Array]


class Peer(str, Enum):
    """Another runtime."""

    onnxruntime = "onnxruntime"


def bench(
    model: ModelOrFolder,
    threads: Threads = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often the runtimes take turns.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.0, help="Least length of one turn.")] = 0.5,
    against: Annotated[
        Peer | None, typer.Option(help="The runtime to compare with.", show_default=False)
    ] = None,
    dim: Dims = None,
    seed: Seed = 0,
    level: ChosenLevel = Level.all,
    precision: Precision = "fp32",
    tune: Tune = False,
    search: Search = 0.0,
    as_json: AsJson = False,
) -> None:
    """Measure a model's speed on random inputs.

    With a peer, both take turns in one process (A B A B), and their answers are compared. In
    another precision than fp32, the answer is compared with that of fp32.
    """
    sizes = options.dims(dim)
    peer_path = None if against is None else _file_for_peer(model)
    opened = open_model(
        model, threads=threads, level=level, precision=precision, tune=tune, search=search
    )
    with opened.model as compiled:
        values = inputs.sizes(compiled.inputs, sizes)
        limits = {} if opened.graph is None else index_limits(opened.graph)
        feeds = inputs.random_inputs(compiled.inputs, values, seed, limits)
        runs: dict[str, Callable[[], Any]] = {"infuse": lambda: compiled.run(feeds)}
        answer = compiled.run(feeds)
        difference = lost = None
        if precision != "fp32":
            with open_model(model, threads=threads, level=level).model as exact:
                lost = _worst(answer, exact.run(feeds))
        if peer_path is not None:
            peer = _Onnxruntime(opened, peer_path, compiled.threads)
            difference = _worst(answer, peer.run(feeds))
            runs["onnxruntime"] = lambda: peer.session.run(None, feeds)
        with terminal.progress(model.name) as progress:
            times = alternate(runs, rounds, seconds, lambda done: progress("measure", done, rounds))
        facts = {
            "inputs": {name: type_text(array) for name, array in feeds.items()},
            "threads": compiled.threads,
            "times": {name: summary(taken) for name, taken in times.items()},
            "speed": min(times["onnxruntime"]) / min(times["infuse"])
            if peer_path is not None
            else None,
            "difference": difference,
            "precision": compiled.metadata.get("precision", precision),
            "difference_from_fp32": lost,
            "arena_bytes": compiled.arena_bytes,
            "arena_lower_bound": compiled.arena_lower_bound,
            "weights_bytes": compiled.weights_bytes,
        }
    if as_json:
        terminal.say_json(facts)
    else:
        _print(facts)


def _worst(ours: Arrays, theirs: Arrays) -> float:
    return max(
        (relative_difference(ours[name], array) for name, array in theirs.items()), default=0.0
    )


def _file_for_peer(model: Path) -> Path:
    try:
        import onnxruntime
    except ImportError as error:
        raise OptionError(
            "onnxruntime is not installed here", hint="pip install onnxruntime"
        ) from error
    if onnxruntime.__name__ != "onnxruntime":
        raise OptionError(
            "onnxruntime is Infuse in this process, so there is nothing to compare with",
            hint="leave INFUSE_AS_ONNXRUNTIME out of the environment",
        )
    if is_compiled(model):
        raise OptionError(
            f"{model} is a compiled model, which another runtime cannot read",
            hint="name the model file",
        )
    return model


class _Onnxruntime:
    """ONNX Runtime's CPU provider with all of its optimizations; its errors become
    RuntimeFailure.
    """

    def __init__(self, opened: Opened, path: Path, threads: int) -> None:
        import onnxruntime

        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = threads
        settings.inter_op_num_threads = 1
        settings.log_severity_level = 3
        with tempfile.TemporaryDirectory() as folder:
            file = path
            if path.suffix == ".infuse":
                assert opened.graph is not None
                file = Path(folder) / "model.onnx"
                infuse.save(opened.graph, file)
            try:
                self.session = onnxruntime.InferenceSession(
                    file, settings, providers=["CPUExecutionProvider"]
                )
            except Exception as error:
                raise RuntimeFailure(
                    f"onnxruntime cannot open the model: {error}", where=str(path)
                ) from error
        self._names = [output.name for output in self.session.get_outputs()]

    def run(self, feeds: Arrays) -> Arrays:
        try:
            return dict(zip(self._names, self.session.run(None, feeds)))
        except Exception as error:
            raise RuntimeFailure(f"onnxruntime failed: {error}") from error


def _print(facts: dict[str, Any]) -> None:
    described = ", ".join(f"{name}: {kind}" for name, kind in facts["inputs"].items())
    terminal.say(f"{described}; {facts['threads']} thread{'' if facts['threads'] == 1 else 's'}")
    rows = [
        (name, f"{taken['min_ms']:.3f}", f"{taken['median_ms']:.3f}", taken["runs"])
        for name, taken in facts["times"].items()
    ]
    terminal.say_table("", ("", "#min ms", "#median ms", "#runs"), rows)
    if facts["speed"] is not None:
        terminal.say(f"speed: {facts['speed']:.2f} × onnxruntime's, by the least times")
        terminal.say(
            f"largest difference of the answers: {facts['difference']:.1e} of the output's largest "
            "element"
        )
    if facts["difference_from_fp32"] is not None:
        terminal.say(
            f"largest difference of {facts['precision']} from fp32: "
            f"{facts['difference_from_fp32']:.1e} "
            "of the output's largest element"
        )
    keys = ("arena_bytes", "arena_lower_bound", "weights_bytes")
    arena, bound, weights = (terminal.bytes_text(facts[key]) for key in keys)
    terminal.say(f"working memory {arena} (lower bound {bound}), weights {weights}")
