"""Seconds to optimize synthetic graphs of growing size: the time per node must not grow with the
graph.

`python -m benchmarks.optimizer_scaling --sizes 1000,10000,100000 --families chain,transformer
--json FILE`
"""

import argparse
import gc
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import infuse
from benchmarks import machine
from infuse.testing.large import FAMILIES, node_count

GROWTH = 1.5
"""How much longer a node of the largest graph may take than one of the smallest."""
LONGEST = 20.0
"""Seconds that any graph may take."""
SHORT = 0.5
"""Seconds of measuring per graph; smaller graphs are optimized several times."""


def measure(family: str, nodes: int, level: str) -> dict[str, Any]:
    """The best time to optimize a graph of that family and size, and how many nodes it had before
    and after.
    """
    graph = FAMILIES[family](nodes)
    seconds: list[float] = []
    while sum(seconds) < SHORT:
        gc.collect()
        start = time.perf_counter()
        better = infuse.optimize(graph, level)
        seconds.append(time.perf_counter() - start)
    given = node_count(graph)
    return {
        "nodes": given,
        "left": node_count(better),
        "seconds": min(seconds),
        "per_node": min(seconds) / given,
    }


def failures(results: dict[str, list[dict[str, Any]]]) -> list[str]:
    """What is slower than it may be, in words."""
    found = []
    for family, rows in results.items():
        growth = rows[-1]["per_node"] / rows[0]["per_node"]
        if growth > GROWTH:
            found.append(f"{family}: a node takes {growth:.2f} times as long in the largest graph")
        found += [
            f"{family}: {r['nodes']} nodes take {r['seconds']:.1f} s"
            for r in rows
            if r["seconds"] > LONGEST
        ]
    return found


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, save; exit status 1 when a bar is missed."""
    parser = argparse.ArgumentParser(
        description="Measure how the time to optimize grows with the graph."
    )
    parser.add_argument("--sizes", default="1000,10000,100000", metavar="NODES[,…]")
    parser.add_argument("--families", default=",".join(FAMILIES), metavar="NAME[,…]")
    parser.add_argument("--level", default="all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    options = parser.parse_args(arguments)
    sizes = [int(n) for n in options.sizes.split(",")]
    results = {
        f: [measure(f, n, options.level) for n in sizes] for f in options.families.split(",")
    }
    table = Table("graph", *(f"{n} nodes" for n in sizes), "growth per node")
    for family, rows in results.items():
        cells = [
            f"{r['seconds']:.2f} s, {1e6 * r['per_node']:.0f} µs/node, {r['left']} left"
            for r in rows
        ]
        table.add_row(family, *cells, f"{rows[-1]['per_node'] / rows[0]['per_node']:.2f}")
    console = Console()
    console.print(table)
    if options.json:
        machine.save(options.json, {"level": options.level, "families": results})
    missed = failures(results)
    for line in missed:
        console.print(line)
    if missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
