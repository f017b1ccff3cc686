"""Architectures of many families, as both of PyTorch's exporters write them, compiled and compared
with PyTorch.

`python -m benchmarks.families --only 'timm/*,transformers/bert' [--saved] --json FILE`

Families are the smallest members of timm's, tiny ones of transformers', and some written in plain
PyTorch; all have random weights. Each export is optimized, compiled and run with two sets of
symbolic sizes (where the exporter manages only fixed ones, on two inputs), and must give what
PyTorch or ONNX Runtime gives, up to `--tolerance` times the largest output. What the exporter
cannot write, or writes so that ONNX Runtime fails too, is counted by itself. What is in the JSON
file already is not run again. With `--saved`, the optimized graph is saved as ONNX and run by ONNX
Runtime in place of being compiled. Exit status 1 where a result of Infuse is wrong or missing.
"""

import argparse
import fnmatch
import json
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.family_worker import OTHERS, OUTCOMES, RIGHT, Result, ask

Results = dict[str, dict[str, Result]]
"""By family and exporter."""


def is_good(result: Result) -> bool:
    """Right, or no fault of Infuse."""
    return result.outcome == RIGHT or result.outcome in OTHERS


def summarize(results: Results) -> dict[str, object]:
    """Counts by library and exporter, and what is wrong."""
    flat = [
        (name, exporter, found)
        for name, both in results.items()
        for exporter, found in both.items()
    ]
    counts: dict[str, Counter[str]] = {}
    for name, exporter, found in flat:
        counts.setdefault(f"{name.partition('/')[0]} {exporter}", Counter())[found.outcome] += 1
    right = Counter(name for name, _, found in flat if found.outcome == RIGHT)
    return {
        "families": len(results),
        "exports": len(flat),
        "exported": sum(found.outcome != OTHERS[0] for _, _, found in flat),
        "right": sum(found.outcome == RIGHT for _, _, found in flat),
        "right by both exporters": sum(n > 1 for n in right.values()),
        "right by one": len(right),
        "with fixed sizes only": sum(
            not found.symbolic for _, _, found in flat if found.outcome == RIGHT
        ),
        "with host steps": sum(bool(found.host) for _, _, found in flat),
        "counts": {
            group: {outcome: found[outcome] for outcome in OUTCOMES}
            for group, found in counts.items()
        },
        "wrong": [f"{name} {exporter}" for name, exporter, found in flat if not is_good(found)],
    }


def load(path: Path | None) -> Results:
    """What an earlier run wrote."""
    if path is None or not path.exists():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))["results"]
    return {
        name: {exporter: Result(**one) for exporter, one in both.items()}
        for name, both in found.items()
    }


def save(path: Path, results: Results, options: argparse.Namespace) -> None:
    """Write everything as JSON."""
    brief = {
        name: {exporter: _brief(one) for exporter, one in both.items()}
        for name, both in results.items()
    }
    facts = {
        "tolerance": options.tolerance,
        "limit": options.limit,
        "saved": options.saved,
        "summary": summarize(results),
    }
    machine.save(path, {**facts, "results": brief})


def _brief(result: Result) -> dict[str, object]:
    return {key: value for key, value in asdict(result).items() if value not in ("", [], None)}


# -- what is shown ---------------------------------------------------------------------------------


def report(results: Results, console: Console) -> None:
    """Print the table, what is not right, and the counts."""
    console.print(_table(results))
    for name, both in results.items():
        for exporter, found in both.items():
            if found.outcome != RIGHT:
                reason = (
                    f"{found.reason}{f'; ONNX Runtime: {found.runtime}' if found.runtime else ''}"
                )
                console.print(
                    f"{name} {exporter}: {found.outcome}: {reason}", markup=False, highlight=False
                )
    summary = summarize(results)
    counts = summary.pop("counts")
    assert isinstance(counts, Mapping)
    for group, by_outcome in counts.items():
        shown = ", ".join(f"{count} {outcome}" for outcome, count in by_outcome.items() if count)
        console.print(f"{group}: {shown}", highlight=False)
    for key, value in summary.items():
        console.print(
            f"{key}: {', '.join(value) or 'none' if isinstance(value, list) else value}",
            highlight=False,
        )


def _table(results: Results) -> Table:
    made = Table(
        title="Families: the difference from PyTorch, from ONNX Runtime", title_justify="left"
    )
    for name in (
        "family",
        "exporter",
        "outcome",
        "sizes",
        "PyTorch",
        "ONNX Runtime",
        "nodes",
        "optimized",
        "host",
    ):
        made.add_column(
            name, justify="left" if name in ("family", "exporter", "outcome", "sizes") else "right"
        )
    made.add_column("seconds", justify="right")
    for name, both in results.items():
        for exporter, found in both.items():
            far = [
                f"{d:.1e}" if d is not None else "–"
                for d in (found.from_pytorch, found.from_onnxruntime)
            ]
            sizes, counts = (
                "symbolic" if found.symbolic else "fixed",
                (found.nodes, found.optimized, len(found.host)),
            )
            seconds = f"{sum(found.seconds.values()):.0f}"
            cells = (name, exporter, found.outcome, sizes, *far, *map(str, counts), seconds)
            made.add_row(*cells, style=None if is_good(found) else "red")
    return made


# -- options ---------------------------------------------------------------------------------------


def parse(arguments: list[str] | None) -> tuple[argparse.Namespace, list[tuple[str, str]]]:
    """Options, and the families with the exporters."""
    from benchmarks.family_models import FAMILIES
    from benchmarks.family_network import EXPORTERS

    parser = argparse.ArgumentParser(
        description="Compile and check architectures of many families."
    )
    globs = {"type": lambda text: text.split(","), "default": ["*"], "metavar": "GLOB[,…]"}
    parser.add_argument("--only", **globs, help="families such as timm/res*")
    parser.add_argument("--exporters", **globs, help=" or ".join(EXPORTERS))
    parser.add_argument(
        "--limit", type=float, default=180, metavar="SECONDS", help="for each step (default: 180)"
    )
    parser.add_argument(
        "--tolerance", type=float, default=1e-4, help="of the largest output (default: 1e-4)"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write all results there, after each family"
    )
    parser.add_argument("--again", action="store_true", help="also run what the file has")
    parser.add_argument(
        "--saved", action="store_true", help="ONNX Runtime runs what Infuse optimizes and saves"
    )
    parser.add_argument("--list", action="store_true", help="only print the names")
    options = parser.parse_args(arguments)
    chosen = [
        name for name in FAMILIES if any(fnmatch.fnmatch(name, glob) for glob in options.only)
    ]
    exporters = [
        name for name in EXPORTERS if any(fnmatch.fnmatch(name, glob) for glob in options.exporters)
    ]
    if not chosen or not exporters:
        parser.error(
            f"no family is called {','.join(options.only)}, or no exporter "
            f"{','.join(options.exporters)}"
        )
    return options, [(name, exporter) for name in chosen for exporter in exporters]


def main(arguments: list[str] | None = None) -> int:
    """Run, print, save."""
    options, chosen = parse(arguments)
    if options.list:
        print("\n".join(dict.fromkeys(name for name, _ in chosen)))
        return 0
    results = load(options.json)
    todo = [
        (name, exporter)
        for name, exporter in chosen
        if options.again or exporter not in results.get(name, {})
    ]
    for i, (name, exporter) in enumerate(todo, 1):
        found = results.setdefault(name, {})[exporter] = ask(
            name, exporter, options.limit, options.tolerance, options.saved
        )
        print(
            f"{i}/{len(todo)} {name} {exporter}: {found.outcome} {found.reason}",
            file=sys.stderr,
            flush=True,
        )
        if options.json:
            save(options.json, results, options)
    report(results, Console(width=None if sys.stdout.isatty() else 190))
    return 0 if all(is_good(found) for both in results.values() for found in both.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
