"""Seconds to compile: with an empty object cache, with a full one, and to load what was compiled.

`python -m benchmarks.compile_time --models resnet50 --threads 2 --json FILE`

Each model is compiled twice by new processes that share one fresh cache folder; both then load the compiled model again
several times, and the fastest load counts.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.inputs import default_zoo

LOADS = 5
ROOT = Path(__file__).resolve().parent.parent
CHILD = "--in-this-process"


def phases(path: Path, threads: int) -> dict[str, float]:
    """Seconds of every step from the ONNX file to a loaded model, in this process and with its object cache."""
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
    steps = dict(zip(("import", "read", "optimize", "compile"), map(float.__sub__, times[1:], times), strict=False))
    return steps | {"total": times[-1] - times[1], "load": min(loads)}


def measure(path: Path, threads: int) -> dict[str, dict[str, float]]:
    """Phases with a cold and with a warm cache, each in a new process. CalledProcessError where compiling fails."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, "-m", "benchmarks.compile_time", CHILD, str(path), str(threads)]
        env = os.environ | {"INFUSE_CACHE": cache}
        found = {}
        for state in ("cold", "warm"):
            done = subprocess.run(command, cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE, text=True)
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


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description="Measure how long compiling takes.")
    parser.add_argument("--models", default="resnet50", metavar="NAME[,…]")
    parser.add_argument("--zoo", type=Path, default=default_zoo(), metavar="FOLDER", help="default: $INFUSE_ZOO")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    options = parser.parse_args(arguments)
    results = {name: measure(options.zoo / f"{name}.onnx", options.threads) for name in options.models.split(",")}
    Console().print(show(results))
    if options.json:
        machine.save(options.json, {"threads": options.threads, "seconds": results})


if __name__ == "__main__":
    if sys.argv[1:2] == [CHILD]:
        print(json.dumps(phases(Path(sys.argv[2]), int(sys.argv[3]))))
    else:
        main()
