"""How far answers in float32 are from those in float64, in Infuse and in ONNX Runtime.

`python -m benchmarks.accuracy --models 'resnet*' --threads 2 --json FILE`

The witness knows nothing of either: ONNX's reference evaluator with all weights and inputs widened
(benchmarks/exact.py). An error is the largest one of all outputs over the largest output. Exit
status 1 where ours is larger than MOST times ONNX Runtime's, or an engine fails.
"""

import argparse
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.table import Table

from benchmarks import machine, options, terminal
from benchmarks.engines import EXACT, Arrays
from benchmarks.measure import difference
from benchmarks.worker import Worker, WorkerError
from benchmarks.zoo import OURS

PEER = "onnxruntime"
MOST = 4.0
"""Of the peer's error."""


@dataclass
class Row:
    """The errors of one model, by engine."""

    model: str
    found: dict[str, float] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Our error over the peer's."""
        if not self.found.keys() >= {OURS, PEER}:
            return None
        ours, peer = self.found[OURS], self.found[PEER]
        return ours / peer if peer else (float("inf") if ours else 1.0)

    @property
    def is_good(self) -> bool:
        """Whether it keeps the bar."""
        return self.ratio is not None and self.ratio <= MOST


def measure(path: Path, given: argparse.Namespace) -> Row:
    """One model in all engines."""
    row = Row(path.stem)
    answers: dict[str, Arrays] = {}
    with tempfile.TemporaryDirectory() as name:
        for engine in dict.fromkeys([EXACT, OURS, PEER, *given.against]):
            try:
                with Worker(engine, path, given.threads, given.dims) as worker:
                    answers[engine] = worker.answer(Path(name) / "answer.npz")
            except WorkerError as error:
                row.errors[engine] = str(error)
    exact = answers.pop(EXACT, None)
    if exact is not None:
        row.found = {engine: difference(answer, exact) for engine, answer in answers.items()}
    return row


def table(rows: list[Row]) -> Table:
    """One line a model."""
    engines = list(dict.fromkeys(name for row in rows for name in row.found))
    made = Table(
        "model",
        *engines,
        "ratio",
        title="largest error over the largest output",
        title_justify="left",
    )
    for row in rows:
        cells = [f"{row.found[name]:.2e}" if name in row.found else "–" for name in engines]
        ratio = "–" if row.ratio is None else f"{row.ratio:.2f}×"
        made.add_row(row.model, *cells, ratio, style=None if row.is_good else "red")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, save."""
    parser = options.parser("Compare answers with those in float64.")
    options.add_models(parser)
    options.add_dims(parser)
    options.add_against(parser)
    parser.add_argument("--threads", type=int, default=2, help="(default: 2)")
    given, models = options.parse(parser, arguments)
    rows = [measure(path, given) for path in terminal.watched(models, lambda path: path.stem)]
    console = terminal.console()
    console.print(table(rows))
    for row in rows:
        terminal.complain(console, row.model, row.errors)
    if given.json:
        figures = [asdict(row) | {"ratio": row.ratio} for row in rows]
        machine.save(
            given.json,
            {"threads": given.threads, "dims": given.dims, "most": MOST, "rows": figures},
        )
    return 0 if all(row.is_good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
