"""Write the figures of a measured zoo into README.md: `python -m benchmarks.readme_figures RESULTS.json`."""

import argparse
import json
import re
from pathlib import Path
from typing import Any

from benchmarks.measure import geomean

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
PEER = "onnxruntime"


def text(results: dict[str, Any], source: str) -> str:
    """The section between the markers: machine, table, means."""
    rows = results["rows"]
    threads = sorted({row["threads"] for row in rows})
    by_model: dict[str, dict[int, Any]] = {}
    for row in rows:
        by_model.setdefault(row["model"], {})[row["threads"]] = row
    head = "| model | " + " | ".join(f"Infuse, {n} thread{'s' * (n > 1)} | ONNX Runtime | ratio" for n in threads)
    lines = [head + " | difference |", "|---" * (3 * len(threads) + 2) + "|"]
    for model, found in by_model.items():
        cells = [cell for n in threads for cell in _cells(found[n])]
        worst = max(row["difference"] for row in found.values())
        lines.append(f"| {model} | {' | '.join(cells)} | {worst:.0e} |")
    means = []
    for n in threads:
        speeds = [row["speed"][PEER] for row in rows if row["threads"] == n]
        means.append(
            f"{n} thread{'s' * (n > 1)}: geometric mean {geomean(speeds):.2f}×, "
            f"lowest {min(speeds):.2f}×, highest {max(speeds):.2f}×"
        )
    machine = results["machine"]
    versions = ", ".join(f"{name} {machine['versions'][name]}" for name in ("infuse", PEER))
    intro = (
        "Least milliseconds for one call, batch 1 (text: 128 tokens), fp32, each engine in a process of its own, in "
        f"turns, on {machine['processor']} ({machine['cores']} cores; {versions}). *Ratio* is ONNX Runtime's time over "
        "Infuse's, *difference* the largest one between the answers over the largest output. Medians and memory are "
        f"in [{source}]({source}); `python -m benchmarks.zoo --against onnxruntime --json {source}` measured them."
    )
    if "remark" in results:
        intro += f" {results['remark']}"
    return "\n\n".join([intro, "\n".join(lines), "; ".join(means) + "."])


def _cells(row: dict[str, Any]) -> list[str]:
    times = row["times"]
    return [f"{times[e]['best'] * 1e3:.2f}" for e in ("infuse", PEER)] + [f"{row['speed'][PEER]:.2f}×"]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    options = parser.parse_args()
    results = json.loads(options.results.read_text("utf-8"))
    source = options.results.resolve().relative_to(README.parent).as_posix()
    page = README.read_text("utf-8")
    section = f"{BEGIN}\n{text(results, source)}\n{END}"
    README.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: section, page, flags=re.DOTALL), "utf-8")


if __name__ == "__main__":
    main()
