"""Write the figures of a benchmark into docs/figures.md: `python -m benchmarks.figures_page
RESULTS.json …`.

The results are those of `benchmarks.zoo`, of which there may be several (other processors and
precisions; the plot shows the first), or of `benchmarks.optimizer`.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

from benchmarks.measure import geomean
from benchmarks.zoo import BEST

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "figures.md"
ZOO, OPTIMIZER = "figures", "optimizer figures"
NAMES = {
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "openvino-default": "OpenVINO by default",
    "ncnn": "ncnn",
    "mnn": "MNN",
    "tract": "tract",
    "torch-inductor": "torch.compile",
    "litert": "LiteRT",
}
PACKAGES = {
    "openvino-default": "openvino",
    "torch-inductor": "torch",
    "litert": "ai-edge-litert",
}
"""Of engines that are not named as their packages."""
PLOT = Path("docs") / "speed.svg"
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


def text(results: dict[str, Any], source: str, plot: str | None = None) -> str:
    """A part of the section between the markers: machine, plot, table, means."""
    rows, machine = results["rows"], results["machine"]
    peers = [peer for peer in rows[0]["speed"] if peer != BEST]
    threads = sorted({row["threads"] for row in rows})
    by_model: dict[str, dict[int, Any]] = {}
    for row in rows:
        by_model.setdefault(row["model"], {})[row["threads"]] = row
    head = "| model | " + " | ".join(
        f"Infuse, {counted(n)} | the best of the others | ratio | of roof" for n in threads
    )
    lines = [head + " | difference |", "|---" * (4 * len(threads) + 2) + "|"]
    for model, found in by_model.items():
        cells = [cell for n in threads for cell in _cells(found[n])]
        worst = max(row["difference"] for row in found.values())
        lines.append(f"| {model} | {' | '.join(cells)} | {worst:.0e} |")
    means = []
    for n in threads:
        of = [
            f"{_mean(rows, n, peer)} {NAMES[peer]}"
            for peer in peers
            if any(row["threads"] == n and row["speed"].get(peer) for row in rows)
        ]
        line = ", ".join(of)
        if len(of) > 1:
            line = f"{_mean(rows, n, BEST)} the best of them for each model; alone: {line}"
        means.append(f"* {counted(n)}: {line}.")
    packages = dict.fromkeys(PACKAGES.get(name, name) for name in ("infuse", *peers))
    versions = ", ".join(f"{name} {machine['versions'][name]}" for name in packages)
    precision = results["precision"]
    how = "" if precision == "fp32" else f" --precision {precision}"
    intro = (
        f"Least milliseconds for one call, batch {results['dims'].get('batch', 1)} (text: 128 "
        "tokens), "
        f"{precision}, each engine in a process of its own, in turns, on "
        f"{machine['processor']} "
        f"({machine['cores']} cores; {versions}). *Ratio* is the time of the fastest other engine "
        "over Infuse's; *of "
        "roof* the time that the arithmetic needs at the processor's measured peak (or the weights "
        "from memory, where "
        "that is longer) over Infuse's, convolutions counted as direct ones; *difference* the "
        "largest one from ONNX "
        "Runtime's answer over the largest output. Medians and memory are in "
        f"[{source}](../{source}); `python -m "
        f"benchmarks.zoo --against {','.join(peers)}{how} --json {source}` measured them."
    )
    if "remark" in results:
        intro += f" {results['remark']}"
    picture = [f"![Speed of other engines over Infuse's]({plot})"] if plot else []
    return "\n\n".join([intro, *picture, "\n".join(lines), "\n".join(means)])


def counted(threads: int) -> str:
    """A number of threads in words."""
    return f"{threads} thread{'s' * (threads > 1)}"


def _mean(rows: list[dict[str, Any]], threads: int, peer: str) -> str:
    speeds = [
        speed for row in rows if row["threads"] == threads and (speed := row["speed"].get(peer))
    ]
    return f"{geomean(speeds):.2f}× (lowest {min(speeds):.2f}×, {len(speeds)} models)"


def draw(results: dict[str, Any], file: Path) -> None:
    """A plot of how many times faster Infuse is than each engine, for the largest number of
    threads.
    """
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    rcParams["svg.hashsalt"] = file.name
    most = max(row["threads"] for row in results["rows"])
    rows = [row for row in results["rows"] if row["threads"] == most]
    peers = [peer for peer in rows[0]["speed"] if peer != BEST]
    figure = Figure(figsize=(9, 0.45 * len(rows) + 1.2), layout="constrained")
    axes = figure.subplots()
    height = 0.8 / len(peers)
    for number, peer in enumerate(peers):
        places = [place + (number - (len(peers) - 1) / 2) * height for place in range(len(rows))]
        axes.barh(
            places, [row["speed"].get(peer) or 0.0 for row in rows], height, label=NAMES[peer]
        )
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_yticks(range(len(rows)), [row["model"] for row in rows])
    axes.set_xlim(0, 3)
    axes.set_xlabel(
        f"time of the engine over Infuse's, {results['precision']}, {counted(most)} (cut at 3)"
    )
    axes.invert_yaxis()
    axes.legend(loc="lower right")
    figure.savefig(file, metadata={"Date": None})


def optimizer_text(results: dict[str, Any], source: str) -> str:
    """The same for optimizers: nodes and seconds of each, and what ONNX Runtime makes of the
    result.
    """
    machine, summary = results["machine"], results["summary"]
    versions = ", ".join(
        f"{name} {machine['versions'][name]}" for name in sorted(machine["versions"])
    )
    lines = [
        "| model | nodes | " + " | ".join(title for title, _ in TOOLS) + " |",
        "|---" * (len(TOOLS) + 2) + "|",
        *(_optimizer_row(row) for row in results["rows"]),
    ]
    intro = (
        "Nodes left / seconds, of every network of the zoo: (a) standard operators in the model's "
        "own opset, (b) with "
        "ONNX Runtime's own operators, (c) with the fused operators of opset 24; each result runs "
        "and agrees with the "
        f"original on random inputs. On {machine['processor']} ({machine['cores']} cores; "
        f"{versions}); "
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
    times = {name: timing["best"] * 1e3 for name, timing in row["times"].items()}
    ours = times.pop("infuse")
    peer = min(times.keys() - row.get("apart", ()), key=lambda name: times[name])
    return [
        f"{ours:.2f}",
        f"{times[peer]:.2f} {NAMES[peer]}",
        f"{times[peer] / ours:.2f}×",
        f"{row['share']:.0%}",
    ]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="+")
    options = parser.parse_args()
    all_results = [json.loads(path.read_text("utf-8")) for path in options.results]
    sources = [path.resolve().relative_to(ROOT).as_posix() for path in options.results]
    page = PAGE.read_text("utf-8")
    if "threads" in all_results[0]["rows"][0]:
        draw(all_results[0], ROOT / PLOT)
        parts = [text(all_results[0], sources[0], PLOT.name)]
        for results, source in zip(all_results[1:], sources[1:]):
            heading = f"### {results['machine']['processor']}, {results['precision']}"
            parts.append(f"{heading}\n{text(results, source)}")
        name, written = ZOO, "\n\n".join(parts)
    elif len(all_results) > 1:
        parser.error("figures of optimizers come from one file")
    else:
        name, written = OPTIMIZER, optimizer_text(all_results[0], sources[0])
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    section = f"{begin}\n{written}\n{end}"
    PAGE.write_text(re.sub(f"{begin}.*{end}", lambda _: section, page, flags=re.DOTALL), "utf-8")


if __name__ == "__main__":
    main()
