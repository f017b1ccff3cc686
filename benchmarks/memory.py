"""Memory of a process that runs a model, in Infuse and in ONNX Runtime, and of a second one beside
it.

`python -m benchmarks.memory --models 'resnet*' --threads 2 --json FILE`

Each engine is a process as in production: Infuse opens a folder that was compiled before, ONNX
Runtime the ONNX file. *Peak* is the most that was ever resident (VmHWM) over what Python with NumPy
alone takes; of Infuse's, pages of the weights file are shared by all processes and count here in
full. While the process stays, a second one opens the same
folder: *adds* is what is private to it over what is private to Python with NumPy, and *weights
added* the part of the weights file that it does not share. Linux only. Exit status 1 where a bar is
missed or an engine fails.
"""

import argparse
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.table import Table

import infuse
from benchmarks import machine, options, terminal
from benchmarks.inputs import save_inputs
from benchmarks.process import Mapping, Memory, after_import
from benchmarks.worker import Worker, WorkerError
from benchmarks.zoo import OURS
from infuse.runtime.folder import WEIGHTS

PEER = "onnxruntime"
RUNS = 3
MOST = 0.7
"""Of the peer's peak."""
MOST_ADDED = 0.1
"""Of the weights, that a second process adds of them."""


@dataclass
class Row:
    """One model: bytes."""

    model: str
    weights: int = 0
    memory: dict[str, Memory] = field(default_factory=dict)
    second: Memory | None = None
    second_weights: Mapping | None = None
    errors: dict[str, str] = field(default_factory=dict)

    def ratio(self, base: Memory) -> float | None:
        """Our peak over the peer's, both over the interpreter's."""
        peaks = {name: memory.peak - base.peak for name, memory in self.memory.items()}
        return peaks[OURS] / peaks[PEER] if len(peaks) == 2 else None

    def added(self) -> float | None:
        """The part of the weights that a second process does not share."""
        return (
            self.second_weights.private / self.weights
            if self.second_weights and self.weights
            else None
        )

    def is_good(self, base: Memory) -> bool:
        """Whether it keeps both bars."""
        ratio, added = self.ratio(base), self.added()
        return (
            not self.errors and ratio is not None and ratio <= MOST and (added or 0.0) <= MOST_ADDED
        )


def measure(path: Path, given: argparse.Namespace) -> Row:
    """One model in both engines."""
    row = Row(path.stem)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inputs = save_inputs(path, given.dims, folder / "inputs.npz")
        compiled = folder / "compiled"
        at = OURS
        try:
            infuse.compile(
                infuse.load(path), infuse.CompileOptions(threads=given.threads), output=compiled
            ).close()
            row.weights = sum(file.stat().st_size for file in compiled.rglob(WEIGHTS))
            with (
                Worker(OURS, compiled, given.threads, given.dims, inputs=inputs) as ours,
                Worker(OURS, compiled, given.threads, given.dims, inputs=inputs) as other,
            ):
                row.memory[OURS], row.second = after_runs(ours), after_runs(other)
                parts = [Mapping.of(file, other.process.pid) for file in compiled.rglob(WEIGHTS)]
                row.second_weights = Mapping(
                    sum(p.resident for p in parts), sum(p.private for p in parts)
                )
            at = PEER
            with Worker(PEER, path, given.threads, given.dims, inputs=inputs) as peer:
                row.memory[PEER] = after_runs(peer)
        except (WorkerError, infuse.InfuseError) as error:
            row.errors[at] = str(error)
    return row


def after_runs(worker: Worker) -> Memory:
    """The memory of an engine's process after some runs."""
    worker.time(0.0, RUNS)
    return Memory.of(worker.process.pid)


def table(rows: list[Row], bases: dict[str, Memory]) -> Table:
    """One line a model, in MiB."""
    names = ("model", "weights", OURS, "anonymous", PEER, "ratio", "2nd adds", "weights added")
    made = Table(title="peak MiB over Python with NumPy", title_justify="left")
    for name in names:
        made.add_column(name, justify="left" if name == "model" else "right")
    base = bases["numpy"]
    for row in rows:
        style = None if row.is_good(base) else "red"
        if len(row.memory) < 2 or row.second is None:
            made.add_row(row.model, *["–"] * (len(names) - 1), style=style)
            continue
        ours, peer = row.memory[OURS], row.memory[PEER]
        sizes = [
            row.weights,
            ours.peak - base.peak,
            ours.anonymous - base.anonymous,
            peer.peak - base.peak,
        ]
        ratio, added = row.ratio(base), row.added()
        cells = [
            *map(_mib, sizes),
            f"{ratio:.2f}×",
            _mib(row.second.private - base.private),
            f"{added or 0:.1%}",
        ]
        made.add_row(row.model, *cells, style=style)
    return made


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f}"


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, save."""
    parser = options.parser("Compare the memory of processes that run a model.")
    options.add_models(parser)
    options.add_dims(parser)
    parser.add_argument("--threads", type=int, default=2, help="(default: 2)")
    given, models = options.parse(parser, arguments)
    bases = {name: after_import("numpy", name) for name in ("numpy", OURS, PEER)}
    rows = [measure(path, given) for path in terminal.watched(models, lambda path: path.stem)]
    console, base = terminal.console(), bases["numpy"]
    console.print(table(rows, bases))
    for row in rows:
        terminal.complain(console, row.model, row.errors)
    imports = ", ".join(f"{name} {_mib(bases[name].peak - base.peak)}" for name in (OURS, PEER))
    console.print(f"Python with NumPy: {_mib(base.peak)} MiB; to import takes {imports}")
    if given.json:
        figures = [
            asdict(row) | {"ratio": row.ratio(base), "weights_added": row.added()} for row in rows
        ]
        machine.save(
            given.json,
            {"threads": given.threads, "dims": given.dims, "most": MOST, "most_added": MOST_ADDED}
            | {
                "imports": {name: asdict(memory) for name, memory in bases.items()},
                "rows": figures,
            },
        )
    return 0 if all(row.is_good(base) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
