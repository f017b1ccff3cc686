"""Seconds to compile: with an empty object cache, with a full one, and to load what was compiled.

`python -m benchmarks.compile_time --models resnet50 --threads 2 --json FILE`

Each model is compiled twice by new processes that share one fresh cache folder; both then load the
compiled model again several times, and the fastest load counts. Exit status 1 where a cold compile
takes longer than BAR seconds.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.table import Table

from benchmarks import machine, options, terminal

LOADS = 5
BAR = 30.0
"""Seconds that no model may take with an empty cache."""
ROOT = Path(__file__).resolve().parent.parent
CHILD = "--in-this-process"


def phases(path: Path, threads: int) -> dict[str, float]:
    """Seconds of every step from the ONNX file to a loaded model, in this process and with its
    object cache.
    """
    times = [time.perf_counter()]
    import infuse
    from infuse.runtime import CompiledModel

    times.append(time.perf_counter())
    graph = infuse.load(path)
    times.append(time.perf_counter())
    better = infuse.optimize(graph, level="all")
    times.append(time.perf_counter())
    model = infuse.compile(better, threads=threads)
    times.append(time.perf_counter())
    loads = []
    for _ in range(LOADS):
        start = time.perf_counter()
        CompiledModel.load(model.folder, threads=threads).close()
        loads.append(time.perf_counter() - start)
    steps = dict(
        zip(
            ("import", "read", "optimize", "compile"),
            map(float.__sub__, times[1:], times),
            strict=False,
        )
    )
    return steps | {"total": times[-1] - times[1], "load": min(loads)}


def measure(path: Path, threads: int) -> dict[str, dict[str, float]]:
    """Phases with a cold and with a warm cache, each in a new process. CalledProcessError where
    compiling fails.
    """
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, "-m", "benchmarks.compile_time", CHILD, str(path), str(threads)]
        env = os.environ | {"INFUSE_CACHE": cache}
        found = {}
        for state in ("cold", "warm"):
            done = subprocess.run(
                command, cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE, text=True
            )
            found[state] = json.loads(done.stdout.splitlines()[-1])
        return found


def show(results: dict[str, dict[str, dict[str, float]]]) -> Table:
    """One line a model and state of the cache."""
    table = Table("model", "cache", "read", "optimize", "compile", "total s", "load ms")
    for model, states in results.items():
        for state, steps in states.items():
            seconds = [f"{steps[name]:.2f}" for name in ("read", "optimize", "compile", "total")]
            table.add_row(model, state, *seconds, f"{steps['load'] * 1e3:.1f}")
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
    return 0 if max(states["cold"]["total"] for states in results.values()) <= BAR else 1


if __name__ == "__main__":
    if sys.argv[1:2] == [CHILD]:
        print(json.dumps(phases(Path(sys.argv[2]), int(sys.argv[3]))))
    else:
        sys.exit(main())
