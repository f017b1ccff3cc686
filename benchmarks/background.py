"""The change from prebuilt kernels to compiled code under load: what callers see of it.

`infuse prebuilt -o kernels; INFUSE_PREBUILT=kernels python -m benchmarks.background --models
mobilenet_v2 --json FILE`

Callers run a session in threads, without a pause, from its first answer until some seconds after it
has changed. Their times are told apart: before the compiler has ended, within a second of the
change, and after. Each answer is compared with the first one.
"""

import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks import machine, options, terminal
from benchmarks.inputs import DEFAULT_DIMS, load_arrays, save_inputs

CALLERS = 8
AFTER = 5.0  # seconds of calls after the change
NEAR = 1.0
MOST = 300.0
BOUND = 1e-3
"""How far an answer may be from the first one, in parts of its largest element."""


def measure(path: Path, threads: int) -> dict[str, Any]:
    """Times of calls before, during and after the change, in milliseconds, and wrong answers."""
    import infuse
    from infuse.runtime.swapping import difference

    graph = infuse.optimize(infuse.load(path))
    with tempfile.TemporaryDirectory() as folder:
        arrays = load_arrays(save_inputs(path, DEFAULT_DIMS, Path(folder) / "inputs.npz"))
    options = infuse.CompileOptions(threads=threads, compile="background")
    begin = time.perf_counter()
    with infuse.compile(graph, options) as model:
        first = model.run(arrays)
        calls: list[tuple[float, float, bool]] = []
        is_over = threading.Event()

        def call() -> None:
            while not is_over.is_set():
                start = time.perf_counter()
                results = model.run(arrays)
                end = time.perf_counter()
                wrong = any(difference(first[name], results[name], BOUND) for name in first)
                calls.append((start - begin, end - start, wrong))

        callers = [threading.Thread(target=call) for _ in range(CALLERS)]
        for caller in callers:
            caller.start()
        while model.tier == "prebuilt" and time.perf_counter() - begin < MOST:
            time.sleep(0.001)
        changed = time.perf_counter() - begin
        time.sleep(AFTER)
        is_over.set()
        for caller in callers:
            caller.join()
    parts = {
        "before": [t for at, t, _ in calls if at < changed - NEAR],
        "during": [t for at, t, _ in calls if abs(at - changed) <= NEAR],
        "after": [t for at, t, _ in calls if at > changed + NEAR],
    }
    return {
        "tier": model.tier,
        "changed": changed,
        "calls": len(calls),
        "wrong": sum(wrong for *_, wrong in calls),
        **{name: _quantiles(times) for name, times in parts.items()},
    }


def _quantiles(times: list[float]) -> dict[str, float]:
    return {f"p{q}": float(np.percentile(times, q)) * 1e3 if times else 0.0 for q in (50, 99)}


def show(results: dict[str, dict[str, Any]]) -> Table:
    """One line a model."""
    parts = ("before", "during", "after")
    table = Table(
        "model", "changed s", "calls", "wrong", *(f"{part} p50 / p99 ms" for part in parts)
    )
    for model, result in results.items():
        times = (f"{result[part]['p50']:.2f} / {result[part]['p99']:.2f}" for part in parts)
        numbers = (f"{result['changed']:.1f}", str(result["calls"]), str(result["wrong"]))
        table.add_row(model, *numbers, *times)
    return table


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, save."""
    parser = options.parser("Measure the change from prebuilt kernels to compiled code.")
    options.add_models(parser, "*")
    parser.add_argument("--threads", type=int, default=1)
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
