"""Files of clustered weights: how much smaller they are, and what the score loses, nothing tuned.

`python -m benchmarks.compression_storage FOLDER [NAME…] --max-drop 0.5 --json FILE`

`FOLDER` is that of `python -m benchmarks.compression_tasks`. Each network is compressed by
`infuse.compress(method="clusters")`, which may lose `--max-drop` percent of the score of the test
data, saved entropy coded, loaded again, and the score of what was loaded is measured once more.
Ratios are those of the whole file in float32 over the coded one, and of their weights alone; the
rest of a file is its graph with its names.
"""

import argparse
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

import infuse
from benchmarks.compression_tasks import NAMES, task
from benchmarks.compression_tasks.base import Answers, Task, whole_runs
from benchmarks.machine import save
from benchmarks.terminal import console
from infuse.errors import ContractError
from infuse.ir.file import read_header
from infuse.runtime.places import FOLDER_VARIABLE


@dataclass
class Row:
    """A network and its files."""

    task: str
    metric: str
    reference: float = 0.0
    score: float = 0.0
    loss: float = 0.0
    """A part of the score in float32; negative where it is better."""
    bytes: dict[str, int] = field(default_factory=dict)
    """Of the files and of their weights, in float32 and coded."""
    ratio: float = 0.0
    weights_ratio: float = 0.0
    forms: dict[str, int] = field(default_factory=dict)
    validations: int = 0
    seconds: float = 0.0
    error: str = ""


def measured(one: Task, drop: float, folder: Path) -> Row:
    """A row of the table."""
    row, begin = Row(one.name, one.metric), time.perf_counter()

    sign = 1 if one.higher_is_better else -1

    def judge(outputs: list[Answers], _: Any) -> float:
        return sign * one.judge(outputs, one.truth)

    plain, coded = folder / "plain.infuse", folder / "coded.infuse"
    infuse.save(infuse.optimize(one.model), plain)
    try:
        graph = infuse.compress(
            one.model,
            "clusters",
            data=infuse.Examples(
                whole_runs(one.calibration),
                validation=whole_runs(one.test),
                labels=[0],
                metric=judge,
            ),
            contract=infuse.Contract(max_drop=f"{drop}%"),
        )
    except ContractError as error:
        row.error = str(error)
        return row
    report = graph.compression
    infuse.save(graph, coded, coded=True)
    with infuse.compile(infuse.load(coded)) as model:
        row.score = one.score(model.run)
    row.reference = sign * report.reference
    row.loss = sign * (row.reference - row.score) / abs(row.reference)
    row.validations, row.seconds = report.validations, time.perf_counter() - begin
    for layer in report.layers:
        row.forms[layer.form] = row.forms.get(layer.form, 0) + 1
    for name, path in (("plain", plain), ("coded", coded)):
        row.bytes[name] = path.stat().st_size
        row.bytes[f"{name}_weights"] = read_header(path.read_bytes(), name).weights_length
    row.ratio = row.bytes["plain"] / row.bytes["coded"]
    row.weights_ratio = row.bytes["plain_weights"] / row.bytes["coded_weights"]
    return row


def main(arguments: list[str] | None = None) -> int:
    """Compress, print, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--max-drop", type=float, default=0.5, help="percent of the score")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    table = Table(title=f"clusters, a loss of {options.max_drop} % at most")
    for column in ("network", "float32", "result", "loss %", "file ×", "weights ×", "s", "error"):
        table.add_column(column)
    rows = []
    memory = tempfile.TemporaryDirectory()  # earlier searches are not remembered
    os.environ[FOLDER_VARIABLE] = memory.name
    for name in options.names or NAMES:
        with tempfile.TemporaryDirectory() as scratch:
            row = measured(task(name, options.folder), options.max_drop, Path(scratch))
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
        table.add_row(
            *(row.task, f"{row.reference:.4f}", f"{row.score:.4f}", f"{100 * row.loss:.2f}"),
            *(f"{row.ratio:.2f}", f"{row.weights_ratio:.2f}", f"{row.seconds:.0f}", row.error),
        )
        if options.json:
            shown = {"max_drop": options.max_drop, "rows": [asdict(each) for each in rows]}
            save(options.json, shown)
    console(140).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
