"""How the figures of the zoo have changed: `python -m benchmarks.history append RESULTS.json …`
adds what `benchmarks.zoo --json` wrote to benchmarks/results/history.jsonl, under the commit and
the date of today unless `--commit` and `--date` say others; `python -m benchmarks.history page`
writes docs/history.md and a drawing for each kind of machine, with a plot for each network.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from benchmarks.figures_page import NAMES, PACKAGES, ROOT, counted
from benchmarks.measure import geomean

HISTORY = ROOT / "benchmarks" / "results" / "history.jsonl"
DOCS = ROOT / "docs"
OURS = "infuse"
COLUMNS = 3
WIDTH, HEIGHT, MARGIN = 300, 150, 34
"""Of one plot, and what is left of it on each side for numbers and names: pixels."""
STROKES = {1: "", 2: "6 3"}
"""How lines of so many threads are dashed; others are dotted."""


@dataclass(frozen=True)
class Entry:
    """One network with so many threads at one commit. `ratio`: the peer's time over Infuse's."""

    date: str
    commit: str
    processor: str
    generation: str
    cores: int
    versions: dict[str, str]
    precision: str
    dims: dict[str, int]
    network: str
    threads: int
    infuse_ms: float
    peer: str
    peer_ms: float
    ratio: float

    @property
    def machine(self) -> str:
        """The kind of machine."""
        known = f" ({self.generation})" if self.generation else ""
        return f"{self.processor}{known}, {self.cores} cores"

    @property
    def series(self) -> str:
        """What is comparable: the machine, the precision and the batch."""
        return f"{self.machine}, {self.precision}, batch {self.dims.get('batch', 1)}"

    @property
    def key(self) -> tuple[object, ...]:
        """Two entries of one key are the same measurement."""
        return self.commit, self.series, self.network, self.threads


def entries(results: Mapping[str, Any], date: str, commit: str) -> list[Entry]:
    """Those of what `benchmarks.zoo` wrote, beside the fastest peer that computes the same. Rows
    without a time of Infuse or of such a peer are left out.
    """
    machine, found = results["machine"], []
    for row in results["rows"]:
        times = {name: timing["best"] * 1e3 for name, timing in row["times"].items()}
        ours = times.pop(OURS, None)
        peers = times.keys() - row.get("apart", ())
        if ours is None or not peers:
            continue
        peer = min(peers, key=lambda name: times[name])
        packages = [PACKAGES.get(name, name) for name in (OURS, *sorted(peers))]
        found.append(
            Entry(
                date,
                commit,
                machine["processor"],
                machine.get("generation", ""),
                machine["cores"],
                {name: machine["versions"][name] for name in packages},
                results.get("precision", "fp32"),  # once there was no other
                results["dims"],
                row["model"],
                row["threads"],
                round(ours, 3),
                peer,
                round(times[peer], 3),
                round(times[peer] / ours, 3),
            )
        )
    return found


def load(path: Path = HISTORY) -> list[Entry]:
    """All entries, the oldest first."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return sorted((Entry(**json.loads(line)) for line in lines), key=lambda entry: entry.date)


def append(new: Iterable[Entry], path: Path = HISTORY) -> int:
    """Write entries that are not there yet; how many these were."""
    known = {entry.key for entry in load(path)}
    lines = [json.dumps(asdict(entry)) for entry in new if entry.key not in known]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    return len(lines)


# -- the page --------------------------------------------------------------------------------------


def page(history: Sequence[Entry]) -> dict[str, str]:
    """Files of docs/ by name: history.md, and drawings in history/."""
    intro = (
        "What `python -m benchmarks.zoo --json` measured, commit by commit "
        "(`benchmarks/results/history.jsonl`; `python -m benchmarks.history` adds and draws). "
        "Milliseconds of one call, the least of some rounds; *peer* is the fastest other engine of "
        "the same measurement, *ratio* its time over Infuse's. Plots have the time from zero up, "
        "Infuse in blue, the peer in orange, 1 thread as a line and 2 threads dashed."
    )
    parts = ["# History of figures", intro]
    files = {}
    for series in dict.fromkeys(entry.series for entry in history):
        of = [entry for entry in history if entry.series == series]
        name = f"history/{re.sub('[^a-z0-9]+', '-', series.lower()).strip('-')}.svg"
        files[name] = drawing(of)
        parts += [f"## {series}", f"![Times of {series}, by network]({name})"]
        parts += [_measurements(of), _newest(of)]
    return {"history.md": "\n\n".join(parts) + "\n", **files}


def _measurements(of: Sequence[Entry]) -> str:
    lines = ["| date | commit | versions | networks | ratio, by threads |", "|---|---|---|---|---|"]
    for date, commit in dict.fromkeys((entry.date, entry.commit) for entry in of):
        there = [entry for entry in of if (entry.date, entry.commit) == (date, commit)]
        versions = {n: v for entry in there for n, v in entry.versions.items()}
        means = []
        for threads in sorted({entry.threads for entry in there}):
            ratios = [entry.ratio for entry in there if entry.threads == threads]
            means.append(f"{geomean(ratios):.2f} (lowest {min(ratios):.2f}), {counted(threads)}")
        networks = len({entry.network for entry in there})
        shown = ", ".join(f"{name} {version}" for name, version in versions.items())
        lines.append(f"| {date} | {commit} | {shown} | {networks} | {'; '.join(means)} |")
    return "\n".join(lines)


def _newest(of: Sequence[Entry]) -> str:
    newest = {(entry.network, entry.threads): entry for entry in of}
    lines = ["| network | threads | date | Infuse, ms | peer, ms | ratio |", "|---" * 6 + "|"]
    for (network, threads), entry in sorted(newest.items()):
        peer = f"{entry.peer_ms:.2f} {NAMES[entry.peer]}"
        cells = (network, threads, entry.date, f"{entry.infuse_ms:.2f}", peer, f"{entry.ratio:.2f}")
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def drawing(of: Sequence[Entry]) -> str:
    """An SVG with a plot for each network: measurements from left to right, evenly spaced."""
    networks = sorted({entry.network for entry in of})
    moments = list(dict.fromkeys((entry.date, entry.commit) for entry in of))
    rows = -(-len(networks) // COLUMNS)
    width, height = COLUMNS * WIDTH, rows * HEIGHT
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="10"><rect width="100%" height="100%" fill="white"/>'
    )
    parts = [head]
    for number, network in enumerate(networks):
        row, column = divmod(number, COLUMNS)
        there = [entry for entry in of if entry.network == network]
        parts.append(f'<g transform="translate({column * WIDTH},{row * HEIGHT})">')
        parts += [*_plot(network, there, moments), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _plot(network: str, of: Sequence[Entry], moments: Sequence[tuple[str, str]]) -> list[str]:
    most = max(max(entry.infuse_ms, entry.peer_ms) for entry in of)
    inner, floor = WIDTH - 2 * MARGIN, HEIGHT - MARGIN
    places = {moment: MARGIN + inner * (i + 0.5) / len(moments) for i, moment in enumerate(moments)}
    parts = [
        f'<text x="{MARGIN}" y="16" font-weight="bold">{escape(network)}</text>',
        f'<path d="M{MARGIN} {MARGIN}V{floor}H{MARGIN + inner}" fill="none" stroke="#999"/>',
        f'<text x="{MARGIN - 4}" y="{MARGIN + 4}" text-anchor="end">{most:.3g}</text>',
        f'<text x="{MARGIN - 4}" y="{floor}" text-anchor="end">0</text>',
    ]
    for moment in (moments[0], moments[-1]) if len(moments) > 1 else moments:
        parts.append(
            f'<text x="{places[moment]:.1f}" y="{floor + 14}" text-anchor="middle">'
            f"{moment[0][5:]} {moment[1]}</text>"
        )
    for threads in sorted({entry.threads for entry in of}):
        dash = STROKES.get(threads, "2 2")
        for colour, field in (("#1f77b4", "infuse_ms"), ("#ff7f0e", "peer_ms")):
            points = [
                (
                    places[entry.date, entry.commit],
                    floor - (floor - MARGIN) * getattr(entry, field) / most,
                )
                for entry in of
                if entry.threads == threads
            ]
            line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            style = f'fill="none" stroke="{colour}" stroke-dasharray="{dash}"'
            parts.append(f'<polyline points="{line}" {style}/>')
            dot = f'r="2" fill="{colour}"'
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" {dot}/>' for x, y in points]
    return parts


def write_page(history: Sequence[Entry], docs: Path = DOCS) -> None:
    """Write the page and its drawings; drawings of series that are gone are removed."""
    files = page(history)
    for old in (docs / "history").glob("*.svg"):
        if f"history/{old.name}" not in files:
            old.unlink()
    for name, text in files.items():
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_text(text, "utf-8")


def head() -> str:
    """The commit that is checked out."""
    command = ["git", "rev-parse", "--short=8", "HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    adding = commands.add_parser("append", help="add what benchmarks.zoo wrote")
    adding.add_argument("results", type=Path, nargs="+")
    adding.add_argument("--commit", help="that was measured; default: the one that is checked out")
    adding.add_argument("--date", type=datetime.date.fromisoformat, default=datetime.date.today())
    commands.add_parser("page", help="write docs/history.md")
    options = parser.parse_args(arguments)
    if options.command == "page":
        write_page(load())
        return 0
    commit = options.commit or head()
    for path in options.results:
        found = entries(json.loads(path.read_text("utf-8")), options.date.isoformat(), commit)
        print(f"{path}: {append(found)} of {len(found)} entries are new")
    return 0


if __name__ == "__main__":
    sys.exit(main())
