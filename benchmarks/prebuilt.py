"""Models that prebuilt kernels run, beside the same models compiled (sharing these kernels, and as
a whole, for this processor) and ONNX Runtime: the time from the start of a process to the first
answer with an empty cache, and the time of a run.

`infuse prebuilt -o kernels; INFUSE_PREBUILT=kernels python -m benchmarks.prebuilt --models resnet50
--threads 2 --json FILE`

First answers are those of new processes, imports included, in turns, with bytecode as an installed
package has it; the fastest counts. Runs are timed in turns in one process; a ratio is that of the
fastest of each. A model that the library lacks functions for is listed with the reason.
"""

import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks import machine, options, terminal
from benchmarks.inputs import DEFAULT_DIMS, load_arrays, save_inputs

ROUNDS = 3
TURNS = 5
RUNS = 8
"""Of each turn, one after another: what runs behind another engine shares a core with its threads,
which spin for a while.
"""
FIRST = {
    "prebuilt": """
from infuse.onnxruntime import InferenceSession, SessionOptions
options = SessionOptions()
options.compile = "never"
""",
    "onnxruntime": """
from onnxruntime import InferenceSession, SessionOptions
options = SessionOptions()
""",
}
"""What a new process begins with, by engine."""
_CHILD = """
import sys, time
start = time.perf_counter()
import numpy
{engine}
path, threads, inputs = sys.argv[1:]
options.intra_op_num_threads = int(threads)
InferenceSession(path, options).run(None, dict(numpy.load(inputs)))
print(time.perf_counter() - start)
"""


def first_answers(path: Path, threads: int) -> dict[str, float]:
    """Seconds to the first answer, by engine."""
    times: dict[str, list[float]] = {engine: [] for engine in FIRST}
    with tempfile.TemporaryDirectory() as folder:
        inputs = save_inputs(path, DEFAULT_DIMS, Path(folder) / "inputs.npz")
        for number in range(ROUNDS):
            for engine, begin in FIRST.items():
                script = _CHILD.format(engine=begin)
                command = [sys.executable, "-c", script, str(path), str(threads), str(inputs)]
                env = os.environ | {"INFUSE_CACHE": str(Path(folder) / f"{engine}{number}")}
                env.pop("PYTHONDONTWRITEBYTECODE", None)
                done = subprocess.run(
                    command, env=env, check=True, stdout=subprocess.PIPE, text=True
                )
                times[engine].append(float(done.stdout.splitlines()[-1]))
    return {engine: min(each) for engine, each in times.items()}


def runs(path: Path, threads: int) -> dict[str, float]:
    """Seconds of the fastest run, by what runs the model, in turns."""
    import onnxruntime

    import infuse

    graph = infuse.optimize(infuse.load(path))
    never = infuse.compile(graph, infuse.CompileOptions(threads=threads, compile="never"))
    sharing = infuse.compile(graph, infuse.CompileOptions(threads=threads))
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    peer = onnxruntime.InferenceSession(str(path), settings)
    with tempfile.TemporaryDirectory() as folder:
        arrays = load_arrays(save_inputs(path, DEFAULT_DIMS, Path(folder) / "inputs.npz"))
        own = Path(folder) / "model"
        whole = infuse.compile(graph, infuse.CompileOptions(threads=threads), output=own)
    calls = {
        "prebuilt": lambda: never.run(arrays),
        "sharing": lambda: sharing.run(arrays),
        "whole": lambda: whole.run(arrays),
        "onnxruntime": lambda: peer.run(None, arrays),
    }
    best = dict.fromkeys(calls, math.inf)
    for _ in range(TURNS):
        for name, call in calls.items():
            for _ in range(RUNS):
                start = time.perf_counter()
                call()
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def measure(path: Path, threads: int) -> dict[str, Any]:
    """Figures of a model, or why it is refused."""
    from infuse.errors import InfuseError

    try:
        steady = runs(path, threads)
    except InfuseError as error:
        return {"refused": error.what}
    return {"first": first_answers(path, threads), "run": steady}


def show(results: dict[str, dict[str, Any]]) -> Table:
    """One line a model."""
    heads = ("run ms", "× sharing", "× whole", "× ONNX Runtime")
    table = Table("model", "first s", "ONNX Runtime's s", *heads)
    for model, result in results.items():
        if "refused" in result:
            table.add_row(model, result["refused"][:80], *[""] * 5)
            continue
        first, run = result["first"], result["run"]
        own = run["prebuilt"]
        ratios = (f"{run[name] / own:.2f}" for name in ("sharing", "whole", "onnxruntime"))
        seconds = (f"{first[engine]:.2f}" for engine in FIRST)
        table.add_row(model, *seconds, f"{own * 1e3:.2f}", *ratios)
    return table


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, save."""
    parser = options.parser("Measure models that prebuilt kernels run.")
    options.add_models(parser, "*")
    parser.add_argument("--threads", type=int, default=2)
    given, models = options.parse(parser, arguments)
    results = {
        path.stem: measure(path, given.threads)
        for path in terminal.watched(models, lambda path: path.stem)
    }
    terminal.console().print(show(results))
    if given.json:
        machine.save(given.json, {"threads": given.threads, "models": results})
    return 0


if __name__ == "__main__":
    sys.exit(main())
