"""Write the figures of a benchmark into README.md: `python -m benchmarks.readme_figures RESULTS.json`.

The results are those of `benchmarks.zoo` or of `benchmarks.optimizer`.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

from benchmarks.measure import geomean

README = Path(__file__).parents[1] / "README.md"
ZOO, OPTIMIZER = "figures", "optimizer figures"
PEER = "onnxruntime"
TOOLS = (
    ("(a) Infuse", "infuse basic"),
    ("onnxslim", "onnxslim"),
    ("onnxsim", "onnxsim"),
    ("onnxscript", "onnxscript"),
    ("ORT basic", "onnxruntime basic"),
    ("(b) Infuse for ORT", "infuse for onnxruntime"),
    ("ORT extended", "onnxruntime extended"),
    ("(c) Infuse, opset 24", "infuse opset 24"),
)


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


def optimizer_text(results: dict[str, Any], source: str) -> str:
    """The same for optimizers: nodes and seconds of each, and what ONNX Runtime makes of the result."""
    machine, summary = results["machine"], results["summary"]
    versions = ", ".join(f"{name} {machine['versions'][name]}" for name in sorted(machine["versions"]))
    lines = [
        "| model | nodes | " + " | ".join(title for title, _ in TOOLS) + " |",
        "|---" * (len(TOOLS) + 2) + "|",
        *(_optimizer_row(row) for row in results["rows"]),
    ]
    intro = (
        "Nodes left / seconds, of every network of the zoo: (a) standard operators in the model's own opset, (b) with "
        "ONNX Runtime's own operators, (c) with the fused operators of opset 24; each result runs and agrees with the "
        f"original on random inputs. On {machine['processor']} ({machine['cores']} cores; {versions}); "
        f"`python -m benchmarks.optimizer --runtime --json {source}` measured it."
    )
    closing = [f"{key}: {_shown(value)}" for key, value in summary.items() if key != "models"]
    return "\n\n".join([intro, "\n".join(lines), "; ".join(closing) + "."])


def _optimizer_row(row: dict[str, Any]) -> str:
    found = [row["results"].get(key) for _, key in TOOLS]
    cells = [f"{r['nodes']} / {min(r['times']):.2f}" if r else "–" for r in found]
    return f"| {row['model']} | {row['nodes']} | {' | '.join(cells)} |"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return f"{value:.2f}×" if isinstance(value, float) else str(value)


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
    is_zoo = "threads" in results["rows"][0]
    name, written = (ZOO, text(results, source)) if is_zoo else (OPTIMIZER, optimizer_text(results, source))
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    section = f"{begin}\n{written}\n{end}"
    README.write_text(re.sub(f"{begin}.*{end}", lambda _: section, page, flags=re.DOTALL), "utf-8")


if __name__ == "__main__":
    main()
