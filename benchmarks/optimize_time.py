"""Seconds to optimize: constant folding and every rule of level `all`, best of several runs.

`python -m benchmarks.optimize_time --models bert_base,swin_t --json FILE`
"""

import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import infuse
from benchmarks import machine, options


def measure(path: Path, rounds: int) -> dict[str, Any]:
    """Seconds to read and to optimize one model, and how many nodes it had before and after."""
    read, optimize = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        graph = infuse.load(path)
        read.append(time.perf_counter() - start)
        before = len(graph.nodes)
        start = time.perf_counter()
        better = infuse.optimize(graph, "all")
        optimize.append(time.perf_counter() - start)
    return {
        "nodes_before": before,
        "nodes_after": len(better.nodes),
        "read_s": min(read),
        "optimize_s": min(optimize),
        "first_s": optimize[0],
    }


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, save."""
    parser = options.parser("Measure how long optimizing takes.")
    options.add_models(parser, "bert_base,swin_t")
    parser.add_argument("--rounds", type=int, default=3)
    given, models = options.parse(parser, arguments)
    results = {path.stem: measure(path, given.rounds) for path in models}
    table = Table("model", "nodes", "nodes left", "read s", "optimize s", "first run s")
    for name, found in results.items():
        seconds = [f"{found[key]:.2f}" for key in ("read_s", "optimize_s", "first_s")]
        table.add_row(name, str(found["nodes_before"]), str(found["nodes_after"]), *seconds)
    Console().print(table)
    if given.json:
        machine.save(given.json, {"rounds": given.rounds, "models": results})


if __name__ == "__main__":
    main()
