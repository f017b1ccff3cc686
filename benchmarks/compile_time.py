"""Seconds from an ONNX file to the first answer, of an `InferenceSession` and step by step: with an
empty cache, with the objects of functions but no compiled model, and with a full cache; and to load
what was compiled.

`python -m benchmarks.compile_time --models resnet50 --threads 2 --json FILE`

New processes that share one fresh cache folder open each model: once with the folder empty, then
ROUNDS times without the compiled model, as where other models have the same functions, and with it;
the fastest counts. Sessions do so in one folder, calls of `load`, `optimize` and `compile` in
another, with several loads of the compiled model, too. Exit status 1 where an empty
cache takes longer than BAR seconds.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.table import Table

from benchmarks import machine, options, terminal
from benchmarks.inputs import DEFAULT_DIMS, load_arrays, save_inputs

LOADS = 5
ROUNDS = 3
STATES = ("empty", "objects", "full")
"""What the cache holds at first."""
BAR = 30.0
"""Seconds that no model may take with an empty cache."""
ROOT = Path(__file__).resolve().parent.parent
CHILD = "--in-this-process"
SESSION, STEPS = "session", "steps"
_IMPORTS = "import infuse.build.compile, infuse.onnxruntime, infuse.passes.selection"
"""Compiles the modules of a checkout to bytecode, as pip does with those of a package."""


def phases(path: Path, threads: int, inputs: Path) -> dict[str, float]:
    """Seconds of every step from the ONNX file to the first answer, in this process, which has
    imported NumPy, and with its cache. `total`: all of them, imports included.
    """
    arrays = load_arrays(inputs)
    times = [time.perf_counter()]
    import infuse
    from infuse.runtime import CompiledModel

    times.append(time.perf_counter())
    graph = infuse.load(path)
    times.append(time.perf_counter())
    better = infuse.optimize(graph, "all")
    times.append(time.perf_counter())
    model = infuse.compile(better, infuse.CompileOptions(threads=threads))
    times.append(time.perf_counter())
    model.run(arrays)
    times.append(time.perf_counter())
    loads = []
    for _ in range(LOADS):
        start = time.perf_counter()
        CompiledModel.load(model.folder, threads=threads).close()
        loads.append(time.perf_counter() - start)
    lengths = map(float.__sub__, times[1:], times)
    steps = dict(zip(("import", "read", "optimize", "compile", "run"), lengths, strict=True))
    return steps | {"total": times[-1] - times[0], "load": min(loads)}


def session(path: Path, threads: int, inputs: Path) -> dict[str, float]:
    """Seconds of a session from its import to the first answer, in this process."""
    arrays = load_arrays(inputs)
    start = time.perf_counter()
    from infuse.onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = threads
    InferenceSession(path, options).run(None, arrays)
    return {"total": time.perf_counter() - start}


def measure(path: Path, threads: int) -> dict[str, dict[str, float]]:
    """Phases in each state of the cache, each time in a new process, with those of a session as
    `session`. CalledProcessError where compiling fails.
    """
    sessions, steps = (_states(path, threads, kind) for kind in (SESSION, STEPS))
    return {state: steps[state] | {SESSION: sessions[state]["total"]} for state in STATES}


def _states(path: Path, threads: int, kind: str) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        inputs = save_inputs(path, DEFAULT_DIMS, Path(folder) / "inputs.npz")
        command = [sys.executable, "-m", "benchmarks.compile_time", CHILD, kind]
        command += [str(path), str(threads), str(inputs)]
        env = os.environ | {"INFUSE_CACHE": str(cache)}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        subprocess.run([sys.executable, "-c", _IMPORTS], cwd=ROOT, env=env, check=True)

        def once(state: str) -> dict[str, float]:
            if state == "objects":
                _unseal(cache / "compiled")
                shutil.rmtree(cache / "compiled")
            done = subprocess.run(
                command, cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE, text=True
            )
            times: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
            return times

        rounds = {"empty": 1, "objects": ROUNDS, "full": ROUNDS}
        return {
            state: min((once(state) for _ in range(rounds[state])), key=lambda s: s["total"])
            for state in STATES
        }


def _unseal(folder: Path) -> None:
    """Let a folder of sealed ones be removed."""
    for inner in folder.iterdir():
        inner.chmod(0o700)


def show(results: dict[str, dict[str, dict[str, float]]]) -> Table:
    """One line a model and state of the cache."""
    names = ("import", "read", "optimize", "compile", "run", "total")
    table = Table("model", "cache", "session s", *names[:-1], "total s", "load ms")
    for model, states in results.items():
        for state, steps in states.items():
            seconds = [f"{steps[name]:.2f}" for name in names]
            table.add_row(
                model, state, f"{steps[SESSION]:.2f}", *seconds, f"{steps['load'] * 1e3:.1f}"
            )
    return table


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, save."""
    parser = options.parser("Measure how long compiling takes.")
    options.add_models(parser, "resnet50")
    parser.add_argument("--threads", type=int, default=2)
    given, models = options.parse(parser, arguments)
    results = {
        path.stem: measure(path, given.threads)
        for path in terminal.watched(models, lambda path: path.stem)
    }
    terminal.console().print(show(results))
    if given.json:
        machine.save(given.json, {"threads": given.threads, "bar_s": BAR, "seconds": results})
    return 0 if max(states["empty"]["total"] for states in results.values()) <= BAR else 1


if __name__ == "__main__":
    if sys.argv[1:2] == [CHILD]:
        kind, path, threads, inputs = sys.argv[2:]
        run = session if kind == SESSION else phases
        print(json.dumps(run(Path(path), int(threads), Path(inputs))))
    else:
        sys.exit(main())
